//! Cron expressions in a time zone: five fields, as every crontab has them.
//!
//! Written here and not taken from a crate: see `docs/decisions/0028-cron-of-our-own.md`.

use jiff::civil::{Date, Time};
use jiff::tz::{AmbiguousOffset, TimeZone};

use crate::Timestamp;
use crate::limits::CRON_BYTES_MAX;

/// A moment that a date has is found within this many days: 29 February may be eight years away.
const DAYS_AHEAD_MAX: u32 = 366 * 9;

/// When something happens, in the time of some place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cron {
    minutes: u64,
    hours: u64,
    days: u64,
    months: u64,
    weekdays: u64,
    /// Both fields were narrowed: then a day that fits one of them will do, as in every crontab.
    either_day: bool,
}

/// Why a text is no cron expression.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct InvalidCron(String);

/// One of the five fields.
struct Field {
    name: &'static str,
    least: u32,
    most: u32,
    names: &'static [&'static str],
}

const FIELDS: [Field; 5] = [
    Field { name: "minute", least: 0, most: 59, names: &[] },
    Field { name: "hour", least: 0, most: 23, names: &[] },
    Field { name: "day of the month", least: 1, most: 31, names: &[] },
    Field {
        name: "month",
        least: 1,
        most: 12,
        names: &[
            "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec",
        ],
    },
    // Sunday is 0 and 7.
    Field {
        name: "day of the week",
        least: 0,
        most: 7,
        names: &["sun", "mon", "tue", "wed", "thu", "fri", "sat"],
    },
];

const ALIASES: [(&str, &str); 7] = [
    ("@yearly", "0 0 1 1 *"),
    ("@annually", "0 0 1 1 *"),
    ("@monthly", "0 0 1 * *"),
    ("@weekly", "0 0 * * 0"),
    ("@daily", "0 0 * * *"),
    ("@midnight", "0 0 * * *"),
    ("@hourly", "0 * * * *"),
];

const EVERY_HOUR: u64 = (1 << 24) - 1;

impl Cron {
    pub fn parse(text: &str) -> Result<Self, InvalidCron> {
        if text.len() > CRON_BYTES_MAX {
            return Err(InvalidCron(format!("longer than {CRON_BYTES_MAX} bytes")));
        }
        let lower = text.trim().to_ascii_lowercase();
        let alias = ALIASES.iter().find(|(name, _)| *name == lower);
        let expression = alias.map_or(lower.as_str(), |(_, meaning)| meaning);
        let words: Vec<&str> = expression.split_ascii_whitespace().collect();
        if words.len() != FIELDS.len() {
            let reason = "expected five fields: minute, hour, day of the month, month, day of the \
                          week; or one of @hourly, @daily, @weekly, @monthly, @yearly";
            return Err(InvalidCron(reason.to_owned()));
        }
        let mut sets = [0u64; 5];
        for ((set, field), word) in sets.iter_mut().zip(&FIELDS).zip(&words) {
            *set = field.parse(word)?;
        }
        let [minutes, hours, days, months, weekdays] = sets;
        let narrowed = |word: &str| !word.starts_with('*');
        let either_day = narrowed(words[2]) && narrowed(words[4]);
        let weekdays = (weekdays | (weekdays >> 7)) & 0x7f;
        let cron = Cron { minutes, hours, days, months, weekdays, either_day };
        if !cron.ever_comes() {
            return Err(InvalidCron("such a day never comes".to_owned()));
        }
        Ok(cron)
    }

    /// The moments after this one, in the time of a place.
    ///
    /// A time that clocks jump over comes once, when they have jumped; one that they show twice
    /// comes the first time. What comes every hour goes by hours that pass, and so does neither.
    pub fn after(&self, after: Timestamp, zone: TimeZone) -> CronTimes<'_> {
        let date = jiff::Timestamp::from_microsecond(after.as_micros())
            .map_or(Date::MAX, |instant| zone.to_datetime(instant).date());
        CronTimes {
            cron: self,
            zone,
            after,
            date: Some(date),
            today: Vec::new(),
            days_left: DAYS_AHEAD_MAX,
        }
    }

    fn ever_comes(&self) -> bool {
        const LENGTHS: [u32; 12] = [31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
        let some_day = |month: usize| {
            self.months & (1 << (month + 1)) != 0
                && (1..=LENGTHS[month]).any(|day| self.days & (1 << day) != 0)
        };
        self.either_day || (0..12).any(some_day)
    }

    fn comes_on(&self, date: Date) -> bool {
        let has = |set: u64, value: i8| set & (1 << u32::from(value.unsigned_abs())) != 0;
        let day = has(self.days, date.day());
        let weekday = has(self.weekdays, date.weekday().to_sunday_zero_offset());
        let fits = if self.either_day { day || weekday } else { day && weekday };
        fits && has(self.months, date.month())
    }

    /// All moments of one day, in order.
    fn on(&self, date: Date, zone: &TimeZone) -> Vec<Timestamp> {
        let mut moments = Vec::new();
        for hour in bits(self.hours) {
            for minute in bits(self.minutes) {
                if let Ok(time) = Time::new(hour, minute, 0, 0) {
                    self.push(date, time, zone, &mut moments);
                }
            }
        }
        moments.sort_unstable();
        moments.dedup();
        moments
    }

    fn push(&self, date: Date, time: Time, zone: &TimeZone, moments: &mut Vec<Timestamp>) {
        let every_hour = self.hours == EVERY_HOUR;
        let shown = zone.to_ambiguous_timestamp(date.to_datetime(time));
        let mut add = |instant: Result<jiff::Timestamp, jiff::Error>| {
            moments.extend(instant.map(|instant| Timestamp::from_micros(instant.as_microsecond())));
        };
        match shown.offset() {
            AmbiguousOffset::Unambiguous { .. } => add(shown.compatible()),
            AmbiguousOffset::Gap { .. } if every_hour => {}
            AmbiguousOffset::Gap { .. } => {
                // The last jump before the moment that lies as far behind it as the time in the gap.
                add(shown.compatible().map(|beyond| {
                    zone.preceding(beyond).next().map_or(beyond, |jump| jump.timestamp())
                }));
            }
            AmbiguousOffset::Fold { .. } => {
                add(shown.earlier());
                if every_hour {
                    add(shown.later());
                }
            }
        }
    }
}

/// See [`Cron::after`].
#[derive(Debug)]
pub struct CronTimes<'c> {
    cron: &'c Cron,
    zone: TimeZone,
    after: Timestamp,
    date: Option<Date>,
    /// What is left of the day, last first.
    today: Vec<Timestamp>,
    days_left: u32,
}

impl Iterator for CronTimes<'_> {
    type Item = Timestamp;

    fn next(&mut self) -> Option<Timestamp> {
        loop {
            if let Some(moment) = self.today.pop() {
                self.days_left = DAYS_AHEAD_MAX;
                return Some(moment);
            }
            self.days_left = self.days_left.checked_sub(1)?;
            let date = self.date?;
            self.date = date.tomorrow().ok();
            if self.cron.comes_on(date) {
                let after = self.after;
                let moments = self.cron.on(date, &self.zone).into_iter().rev();
                self.today = moments.take_while(|moment| *moment > after).collect();
                self.today.retain(|moment| *moment <= Timestamp::MAX);
                self.today.sort_unstable_by(|a, b| b.cmp(a));
            }
        }
    }
}

/// The zone of a name such as `Europe/Berlin`, from the tables that are built in.
pub fn time_zone(name: &str) -> Option<TimeZone> {
    TimeZone::get(name).ok()
}

impl Field {
    fn parse(&self, word: &str) -> Result<u64, InvalidCron> {
        let mut set = 0;
        for part in word.split(',') {
            set |= self.part(part).ok_or_else(|| self.wrong(part))?;
        }
        Ok(set)
    }

    /// `*`, `4`, `1-5`, each with or without `/2`.
    fn part(&self, part: &str) -> Option<u64> {
        let (range, step) = match part.split_once('/') {
            Some((range, step)) => {
                (range, Some(step.parse::<u32>().ok().filter(|step| *step > 0)?))
            }
            None => (part, None),
        };
        let (first, last) = match range.split_once('-') {
            _ if range == "*" => {
                (self.least, self.most.min(if self.most == 7 { 6 } else { self.most }))
            }
            Some((first, last)) => (self.value(first)?, self.value(last)?),
            None => {
                let first = self.value(range)?;
                // `5/15` counts from 5 on.
                (first, if step.is_some() { self.most } else { first })
            }
        };
        if first > last {
            return None;
        }
        let values = (first..=last).step_by(step.unwrap_or(1) as usize);
        Some(values.fold(0, |set, value| set | (1 << value)))
    }

    fn value(&self, word: &str) -> Option<u32> {
        let named = self.names.iter().position(|name| *name == word);
        let value = match named {
            Some(place) => self.least + u32::try_from(place).ok()?,
            None => word.parse().ok()?,
        };
        (self.least..=self.most).contains(&value).then_some(value)
    }

    fn wrong(&self, part: &str) -> InvalidCron {
        let Field { name, least, most, .. } = self;
        InvalidCron(format!("{part:?} is no {name}: numbers reach from {least} to {most}"))
    }
}

fn bits(set: u64) -> impl Iterator<Item = i8> + Clone {
    (0..64i8).filter(move |bit| set & (1 << bit) != 0)
}

#[cfg(test)]
mod tests;
