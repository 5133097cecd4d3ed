//! When an audit recurs: every so often, or by the calendar and clock of a place.
//!
//! The two forms are `every 6h` and a cron expression ([`Cron`]). Whatever else there is to know about moments
//! is the rhythm's ([`Rhythm`]), as it is for schedules of jobs; here is how it is written, and that an
//! interval goes on from the last moment.

use std::fmt;
use std::time::Duration;

use super::priority::parse_duration;
use crate::Timestamp;
use crate::jobs::{Cron, Rhythm, time_zone};

/// The place whose clock counts if none is named.
const USUAL_ZONE: &str = "UTC";
/// How many moments are looked at to find out how close they are.
const MOMENTS_COMPARED: usize = 100;

/// A schedule, which remembers how it was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Schedule {
    text: String,
    rhythm: Rhythm,
}

/// The text is no schedule, or the place is none.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidSchedule {
    #[error("{0}")]
    Text(String),
    #[error("{0}")]
    TimeZone(&'static str),
}

impl Schedule {
    /// `zone` is a name such as `Europe/Berlin`.
    pub fn parse(text: &str, zone: Option<&str>) -> Result<Self, InvalidSchedule> {
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        let rhythm = match text.strip_prefix("every ") {
            Some(time) => every(time, zone)?,
            None => by_the_calendar(&text, zone.unwrap_or(USUAL_ZONE))?,
        };
        Ok(Schedule { text, rhythm })
    }

    /// This one with another text, another place, or both. What goes by the calendar keeps its place if none
    /// is named.
    pub fn changed(&self, text: Option<&str>, zone: Option<&str>) -> Result<Self, InvalidSchedule> {
        let text = text.unwrap_or(&self.text);
        let changed = Schedule::parse(text, zone)?;
        match (zone, changed.time_zone(), self.time_zone()) {
            (None, Some(_), Some(kept)) => Schedule::parse(text, Some(kept)),
            _ => Ok(changed),
        }
    }

    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The place whose clock counts; an interval is the same everywhere.
    pub fn time_zone(&self) -> Option<&str> {
        match &self.rhythm {
            Rhythm::Cron { time_zone, .. } => Some(time_zone),
            Rhythm::Every { .. } => None,
        }
    }

    /// The first moment after both: for an interval, in step with `last`; for a calendar, whatever `last`
    /// was.
    pub fn next_after(&self, last: Timestamp, now: Timestamp) -> Timestamp {
        let after = now.max(last);
        let next = match &self.rhythm {
            Rhythm::Every { secs, .. } => Rhythm::Every { secs: *secs, from: last }.next(after),
            calendar @ Rhythm::Cron { .. } => calendar.next(after),
        };
        next.unwrap_or(Timestamp::MAX)
    }

    /// The shortest time between two of the next few moments.
    pub fn shortest_gap(&self, now: Timestamp) -> Duration {
        let moments = self.rhythm.after(now, MOMENTS_COMPARED);
        let gaps = moments.windows(2).map(|pair| pair[1].since(pair[0]));
        gaps.min().unwrap_or(Duration::MAX)
    }
}

impl fmt::Display for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

fn every(time: &str, zone: Option<&str>) -> Result<Rhythm, InvalidSchedule> {
    let wrong = || {
        let forms = "needs a time such as every 30m, every 6h or every 1d";
        InvalidSchedule::Text(forms.to_owned())
    };
    let time = parse_duration(time).ok_or_else(wrong)?;
    let secs = u32::try_from(time.as_secs()).map_err(|_| wrong())?;
    if zone.is_some() {
        let reason = "an interval is the same everywhere: it has no time zone";
        return Err(InvalidSchedule::TimeZone(reason));
    }
    // Where it is counted from is said when it is asked.
    Ok(Rhythm::Every { secs, from: Timestamp::EPOCH })
}

fn by_the_calendar(text: &str, zone: &str) -> Result<Rhythm, InvalidSchedule> {
    Cron::parse(text).map_err(|error| {
        InvalidSchedule::Text(format!("is no interval such as every 6h, and as cron: {error}"))
    })?;
    if time_zone(zone).is_none() {
        return Err(InvalidSchedule::TimeZone("must be a name such as Europe/Berlin or UTC"));
    }
    Ok(Rhythm::Cron { expression: text.to_owned(), time_zone: zone.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn next(schedule: &str, zone: Option<&str>, now: &str) -> String {
        let now = Timestamp::parse_rfc3339(now).unwrap();
        let next = Schedule::parse(schedule, zone).unwrap().next_after(now, now).to_string();
        next.trim_end_matches(".000000Z").to_owned()
    }

    #[test]
    fn the_calendar_is_read_as_cron_reads_it() {
        for (schedule, now, expected) in [
            ("@hourly", "2026-01-01T00:00:00Z", "2026-01-01T01:00:00"),
            ("@daily", "2026-01-01T00:00:00Z", "2026-01-02T00:00:00"),
            ("@weekly", "2026-01-01T00:00:00Z", "2026-01-04T00:00:00"),
            ("@monthly", "2026-01-31T12:00:00Z", "2026-02-01T00:00:00"),
            ("@yearly", "2026-01-31T12:00:00Z", "2027-01-01T00:00:00"),
            ("*/15 * * * *", "2026-01-01T00:14:59Z", "2026-01-01T00:15:00"),
            ("5/20 * * * *", "2026-01-01T00:26:00Z", "2026-01-01T00:45:00"),
            ("30 6 * * 1-5", "2026-01-02T07:00:00Z", "2026-01-05T06:30:00"),
            ("30 6 * * MON-FRI", "2026-01-02T07:00:00Z", "2026-01-05T06:30:00"),
            ("0 0 * * 7", "2026-01-02T00:00:00Z", "2026-01-04T00:00:00"),
            ("0 0 29 2 *", "2026-01-01T00:00:00Z", "2028-02-29T00:00:00"),
            ("0 0 29 2 *", "2096-03-01T00:00:00Z", "2104-02-29T00:00:00"),
            ("0 12 13 * 5", "2026-01-14T00:00:00Z", "2026-01-16T12:00:00"),
            ("59 23 31 12 *", "2026-12-31T23:59:00Z", "2027-12-31T23:59:00"),
            ("0 0,12 1-3 */6 *", "2026-07-03T12:00:00Z", "2027-01-01T00:00:00"),
        ] {
            assert_eq!(next(schedule, None, now), expected, "{schedule} after {now}");
            assert_eq!(next(schedule, Some("UTC"), now), expected, "{schedule} after {now}");
        }
    }

    #[test]
    fn the_clock_of_a_place_counts_in_winter_and_in_summer() {
        for (zone, now, expected) in [
            ("Europe/Berlin", "2026-01-10T00:00:00Z", "2026-01-10T05:30:00"),
            ("Europe/Berlin", "2026-07-10T00:00:00Z", "2026-07-10T04:30:00"),
            ("America/New_York", "2026-01-10T00:00:00Z", "2026-01-10T11:30:00"),
            ("Asia/Kolkata", "2026-01-10T00:00:00Z", "2026-01-10T01:00:00"),
        ] {
            assert_eq!(next("30 6 * * *", Some(zone), now), expected, "{zone} after {now}");
        }
        // Clocks jump from two to three: what they jump over comes when they have jumped.
        let night = "30 2 * * *";
        let spring = next(night, Some("Europe/Berlin"), "2026-03-28T12:00:00Z");
        assert_eq!(spring, "2026-03-29T01:00:00");
        // And show two to three twice: it comes the first time.
        let autumn = next(night, Some("Europe/Berlin"), "2026-10-24T12:00:00Z");
        assert_eq!(autumn, "2026-10-25T00:30:00");
        let after = next(night, Some("Europe/Berlin"), "2026-10-25T00:30:00Z");
        assert_eq!(after, "2026-10-26T01:30:00", "and not once more");
    }

    #[test]
    fn an_interval_stays_in_step() {
        let hour = Schedule::parse("every 1h", None).unwrap();
        let at = |secs: i64| Timestamp::from_micros(secs * 1_000_000);
        assert_eq!(hour.next_after(at(100), at(100)), at(3700));
        assert_eq!(hour.next_after(at(100), at(3700)), at(7300));
        assert_eq!(hour.next_after(at(100), at(36_500)), at(39_700));
        assert_eq!(hour.next_after(at(100), at(50)), at(3700), "the clock was set back");
        assert_eq!(hour.shortest_gap(at(0)), Duration::from_secs(3600));
        let odd = Schedule::parse("0,1 6 * * *", None).unwrap();
        assert_eq!(odd.shortest_gap(at(0)), Duration::from_secs(60));
        let longest = Schedule::parse("every 36500d", None).unwrap();
        assert_eq!(longest.next_after(at(0), at(0)), at(36_500 * 86_400));
    }

    #[test]
    fn what_is_not_named_stays() {
        let berlin = Schedule::parse("0 6 * * *", Some("Europe/Berlin")).unwrap();
        for (text, zone, expected) in [
            (Some("0 7 * * *"), None, ("0 7 * * *", Some("Europe/Berlin"))),
            (None, Some("Asia/Tokyo"), ("0 6 * * *", Some("Asia/Tokyo"))),
            (Some("@daily"), Some("UTC"), ("@daily", Some("UTC"))),
            (Some("every 6h"), None, ("every 6h", None)),
            (None, None, ("0 6 * * *", Some("Europe/Berlin"))),
        ] {
            let changed = berlin.changed(text, zone).unwrap();
            assert_eq!((changed.as_str(), changed.time_zone()), expected);
        }
        let often = berlin.changed(Some("every 6h"), None).unwrap();
        assert_eq!(often.changed(Some("@daily"), None).unwrap().time_zone(), Some("UTC"));
        assert!(matches!(often.changed(None, Some("UTC")), Err(InvalidSchedule::TimeZone(_))));
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
            ("* * * * 8", "week"),
            ("5-1 * * * *", "minute"),
            ("*/0 * * * *", "minute"),
            ("a * * * *", "minute"),
            ("0 0 31 2 *", "never comes"),
        ] {
            let problem = Schedule::parse(text, None).unwrap_err();
            assert!(matches!(problem, InvalidSchedule::Text(_)), "{text}");
            assert!(problem.to_string().contains(part), "{text}: {problem}");
        }
        for (text, zone, part) in [
            ("@daily", "Mars/Olympus", "such as Europe/Berlin"),
            ("@daily", "", "such as Europe/Berlin"),
            ("every 6h", "UTC", "same everywhere"),
        ] {
            let problem = Schedule::parse(text, Some(zone)).unwrap_err();
            assert!(matches!(problem, InvalidSchedule::TimeZone(_)), "{text} {zone}");
            assert!(problem.to_string().contains(part), "{text} {zone}: {problem}");
        }
        let plain = Schedule::parse(" 30  6 * * 1 ", None).unwrap();
        assert_eq!((plain.as_str(), plain.time_zone()), ("30 6 * * 1", Some("UTC")));
        assert_eq!(Schedule::parse("every 6h", None).unwrap().time_zone(), None);
    }
}
