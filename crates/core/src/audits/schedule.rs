//! When an audit recurs: every so often, or at times of the calendar in UTC.
//!
//! The two forms are `every 6h` and the five fields of cron (`minute hour day month weekday`, each `*`,
//! a number, a range, a step or a list of these), or one of the names `@hourly`, `@daily`, `@weekly`,
//! `@monthly`. Everything else asks a schedule one question only, [`Schedule::next_after`], so that
//! another kind of schedule can take its place.

use std::fmt;
use std::time::Duration;

use super::priority::parse_duration;
use crate::Timestamp;

/// No calendar has a longer gap than the one between two 29ths of February around 2100.
const DAYS_AHEAD_MAX: i64 = 366 * 8 + 1;
const MINUTE_MICROS: i64 = 60 * 1_000_000;
const DAY_MICROS: i64 = 24 * 60 * MINUTE_MICROS;

/// A schedule, which remembers how it was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Schedule {
    text: String,
    form: Form,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Form {
    Every(Duration),
    Calendar(Box<Calendar>),
}

/// A bit for each value that a field allows.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Calendar {
    minutes: u64,
    hours: u64,
    days: u64,
    months: u64,
    weekdays: u64,
    /// If both a day and a weekday are given, either will do, as cron has always had it.
    is_either_day: bool,
}

/// The text is no schedule.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct InvalidSchedule(String);

impl Schedule {
    pub fn parse(text: &str) -> Result<Self, InvalidSchedule> {
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        let form = match text.as_str() {
            "@hourly" => calendar("0 * * * *")?,
            "@daily" => calendar("0 0 * * *")?,
            "@weekly" => calendar("0 0 * * 1")?,
            "@monthly" => calendar("0 0 1 * *")?,
            other => match other.strip_prefix("every ") {
                Some(time) => Form::Every(parse_duration(time).ok_or_else(|| {
                    InvalidSchedule(
                        "needs a time such as every 30m, every 6h or every 1d".to_owned(),
                    )
                })?),
                None => calendar(other)?,
            },
        };
        let schedule = Schedule { text, form };
        let start = Timestamp::EPOCH;
        if schedule.next_after(start, start) == Timestamp::MAX {
            return Err(InvalidSchedule("names a day that never comes".to_owned()));
        }
        Ok(schedule)
    }

    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The first time after both: for an interval, in step with `last`; for a calendar, whatever `last`
    /// was.
    pub fn next_after(&self, last: Timestamp, now: Timestamp) -> Timestamp {
        match &self.form {
            Form::Every(time) => {
                let step = i64::try_from(time.as_micros()).unwrap_or(i64::MAX).max(1);
                let behind = now.as_micros().saturating_sub(last.as_micros()).max(0);
                let steps = behind / step + 1;
                let next = last.as_micros().saturating_add(step.saturating_mul(steps));
                Timestamp::from_micros(next).min(Timestamp::MAX)
            }
            Form::Calendar(calendar) => calendar.next_after(now.max(last)),
        }
    }

    /// The shortest time between two of the next few times.
    pub fn shortest_gap(&self, now: Timestamp) -> Duration {
        if let Form::Every(time) = &self.form {
            return *time;
        }
        let mut shortest = Duration::MAX;
        let mut last = self.next_after(now, now);
        for _ in 0..100 {
            let next = self.next_after(last, last);
            shortest = shortest.min(next.since(last));
            last = next;
        }
        shortest
    }
}

impl fmt::Display for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Calendar {
    fn next_after(&self, now: Timestamp) -> Timestamp {
        let first_minute = now.as_micros().div_euclid(MINUTE_MICROS) + 1;
        let first_day = (first_minute * MINUTE_MICROS).div_euclid(DAY_MICROS);
        for day in first_day..first_day + DAYS_AHEAD_MAX {
            if !self.allows_day(day) {
                continue;
            }
            let from = (first_minute - day * 1440).max(0);
            let minute = (from..1440).find(|minute| {
                self.hours & bit(minute / 60) != 0 && self.minutes & bit(minute % 60) != 0
            });
            if let Some(minute) = minute {
                let micros = day * DAY_MICROS + minute * MINUTE_MICROS;
                return Timestamp::from_micros(micros).min(Timestamp::MAX);
            }
        }
        Timestamp::MAX
    }

    fn allows_day(&self, day: i64) -> bool {
        let (month, day_of_month) = civil(day);
        // The first of January 1970 was a Thursday.
        let weekday = (day + 4).rem_euclid(7);
        let (by_day, by_weekday) =
            (self.days & bit(day_of_month) != 0, self.weekdays & bit(weekday) != 0);
        let is_day = if self.is_either_day { by_day || by_weekday } else { by_day && by_weekday };
        self.months & bit(month) != 0 && is_day
    }
}

/// Month and day of a day that is counted from 1970, by Howard Hinnant's well-known arithmetic.
fn civil(day: i64) -> (i64, i64) {
    let shifted = day + 719_468;
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * day_of_year + 2) / 153;
    let day_of_month = day_of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    (month, day_of_month)
}

fn bit(value: i64) -> u64 {
    u32::try_from(value).map_or(0, |shift| 1_u64.checked_shl(shift).unwrap_or(0))
}

fn calendar(text: &str) -> Result<Form, InvalidSchedule> {
    let fields: Vec<&str> = text.split(' ').collect();
    let [minutes, hours, days, months, weekdays] = fields.as_slice() else {
        let forms = "must be an interval such as every 6h, five fields such as 30 6 * * 1, or one of \
                     @hourly, @daily, @weekly, @monthly";
        return Err(InvalidSchedule(forms.to_owned()));
    };
    let mut weekday_bits = field("weekday", weekdays, 0, 7)?;
    if weekday_bits & bit(7) != 0 {
        weekday_bits = (weekday_bits | bit(0)) & !bit(7);
    }
    Ok(Form::Calendar(Box::new(Calendar {
        minutes: field("minute", minutes, 0, 59)?,
        hours: field("hour", hours, 0, 23)?,
        days: field("day", days, 1, 31)?,
        months: field("month", months, 1, 12)?,
        weekdays: weekday_bits,
        is_either_day: !days.starts_with('*') && !weekdays.starts_with('*'),
    })))
}

fn field(name: &str, text: &str, min: i64, max: i64) -> Result<u64, InvalidSchedule> {
    let wrong = || InvalidSchedule(format!("the {name} {text:?} must be within {min} to {max}"));
    let mut bits = 0;
    for part in text.split(',') {
        let (range, step) = match part.split_once('/') {
            Some((range, step)) => (range, step.parse().map_err(|_| wrong())?),
            None => (part, 1),
        };
        let number = |text: &str| text.parse::<i64>().ok().filter(|n| (min..=max).contains(n));
        let (low, high) = match range.split_once('-') {
            _ if range == "*" => (min, max),
            Some((low, high)) => (number(low).ok_or_else(wrong)?, number(high).ok_or_else(wrong)?),
            None => {
                let low = number(range).ok_or_else(wrong)?;
                (low, if part.contains('/') { max } else { low })
            }
        };
        if step < 1 || low > high {
            return Err(wrong());
        }
        let mut value = low;
        while value <= high {
            bits |= bit(value);
            value += step;
        }
    }
    Ok(bits)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn next(schedule: &str, now: &str) -> String {
        let now = Timestamp::parse_rfc3339(now).unwrap();
        let next = Schedule::parse(schedule).unwrap().next_after(now, now).to_string();
        next.trim_end_matches(".000000Z").to_owned()
    }

    #[test]
    fn the_calendar_is_read_as_cron_reads_it() {
        for (schedule, now, expected) in [
            ("@hourly", "2026-01-01T00:00:00Z", "2026-01-01T01:00:00"),
            ("@daily", "2026-01-01T00:00:00Z", "2026-01-02T00:00:00"),
            ("@weekly", "2026-01-01T00:00:00Z", "2026-01-05T00:00:00"),
            ("@monthly", "2026-01-31T12:00:00Z", "2026-02-01T00:00:00"),
            ("*/15 * * * *", "2026-01-01T00:14:59Z", "2026-01-01T00:15:00"),
            ("5/20 * * * *", "2026-01-01T00:26:00Z", "2026-01-01T00:45:00"),
            ("30 6 * * 1-5", "2026-01-02T07:00:00Z", "2026-01-05T06:30:00"),
            ("0 0 * * 7", "2026-01-02T00:00:00Z", "2026-01-04T00:00:00"),
            ("0 0 29 2 *", "2026-01-01T00:00:00Z", "2028-02-29T00:00:00"),
            ("0 0 29 2 *", "2096-03-01T00:00:00Z", "2104-02-29T00:00:00"),
            ("0 12 13 * 5", "2026-01-14T00:00:00Z", "2026-01-16T12:00:00"),
            ("59 23 31 12 *", "2026-12-31T23:59:00Z", "2027-12-31T23:59:00"),
            ("0 0,12 1-3 */6 *", "2026-07-03T12:00:00Z", "2027-01-01T00:00:00"),
        ] {
            assert_eq!(next(schedule, now), expected, "{schedule} after {now}");
        }
    }

    #[test]
    fn an_interval_stays_in_step() {
        let hour = Schedule::parse("every 1h").unwrap();
        let at = |secs: i64| Timestamp::from_micros(secs * 1_000_000);
        assert_eq!(hour.next_after(at(100), at(100)), at(3700));
        assert_eq!(hour.next_after(at(100), at(3700)), at(7300));
        assert_eq!(hour.next_after(at(100), at(36_500)), at(39_700));
        assert_eq!(hour.next_after(at(100), at(50)), at(3700), "the clock was set back");
        assert_eq!(hour.shortest_gap(at(0)), Duration::from_secs(3600));
        let odd = Schedule::parse("0,1 6 * * *").unwrap();
        assert_eq!(odd.shortest_gap(at(0)), Duration::from_secs(60));
    }

    #[test]
    fn what_is_no_schedule_is_refused_with_its_reason() {
        for (text, part) in [
            ("", "five fields"),
            ("every", "five fields"),
            ("every day", "a time such as"),
            ("every 0s", "a time such as"),
            ("* * * *", "five fields"),
            ("60 * * * *", "minute"),
            ("* 24 * * *", "hour"),
            ("* * 0 * *", "day"),
            ("* * * 13 *", "month"),
            ("* * * * 8", "weekday"),
            ("5-1 * * * *", "minute"),
            ("*/0 * * * *", "minute"),
            ("a * * * *", "minute"),
            ("0 0 31 2 *", "never comes"),
        ] {
            let problem = Schedule::parse(text).unwrap_err().to_string();
            assert!(problem.contains(part), "{text}: {problem}");
        }
        assert_eq!(Schedule::parse(" 30  6 * * 1 ").unwrap().as_str(), "30 6 * * 1");
    }
}
