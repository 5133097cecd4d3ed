//! One kind of instant for the whole system: microseconds since the Unix epoch, UTC.
//!
//! Microseconds because that is what PostgreSQL keeps: a value read back is the value written.

use std::fmt;
use std::ops::{Add, Sub};
use std::time::Duration;

/// An instant, in whole microseconds since 1970-01-01T00:00:00Z.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Timestamp(i64);

impl Timestamp {
    /// The last instant that both databases and the formatter can express, at the end of 9999.
    pub const MAX: Timestamp = Timestamp(253_402_207_200_000_000);
    /// The Unix epoch: earlier instants are refused at the edge.
    pub const EPOCH: Timestamp = Timestamp(0);

    pub const fn from_micros(micros: i64) -> Self {
        Timestamp(micros)
    }

    pub const fn as_micros(self) -> i64 {
        self.0
    }

    /// Time since `earlier`, or zero if `earlier` is in fact later.
    pub fn since(self, earlier: Timestamp) -> Duration {
        Duration::from_micros(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }

    /// Seconds since the epoch with a fraction, as metrics want them.
    #[expect(clippy::cast_precision_loss, reason = "a gauge needs no microseconds after 2^53")]
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e6
    }

    /// Without a zone, as an existing Vexa database and its clients write it: UTC is understood.
    pub fn naive(self) -> String {
        let text = self.to_string();
        text.trim_end_matches('Z').to_owned()
    }

    /// Reads RFC 3339; a missing offset is refused because it would be a guess.
    pub fn parse_rfc3339(text: &str) -> Result<Self, InvalidTimestamp> {
        let instant: jiff::Timestamp = text.parse().map_err(|_| InvalidTimestamp)?;
        let value = Timestamp(instant.as_microsecond());
        if value < Timestamp::EPOCH || value > Timestamp::MAX {
            return Err(InvalidTimestamp);
        }
        Ok(value)
    }
}

/// The text was not an RFC 3339 instant between 1970 and 9999.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("expected an RFC 3339 date and time with an offset, such as 2026-01-31T12:00:00Z")]
pub struct InvalidTimestamp;

/// Always `YYYY-MM-DDTHH:MM:SS.ffffffZ`: the same instant is always the same string.
impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let instant = jiff::Timestamp::from_microsecond(self.0).map_err(|_| fmt::Error)?;
        write!(f, "{instant:.6}")
    }
}

impl fmt::Debug for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Add<Duration> for Timestamp {
    type Output = Timestamp;

    /// Saturates at [`Timestamp::MAX`], so that "in a very long time" stays storable.
    fn add(self, rhs: Duration) -> Timestamp {
        let micros = i64::try_from(rhs.as_micros()).unwrap_or(i64::MAX);
        Timestamp(self.0.saturating_add(micros)).min(Timestamp::MAX)
    }
}

impl Sub<Duration> for Timestamp {
    type Output = Timestamp;

    fn sub(self, rhs: Duration) -> Timestamp {
        let micros = i64::try_from(rhs.as_micros()).unwrap_or(i64::MAX);
        Timestamp(self.0.saturating_sub(micros))
    }
}

impl serde::Serialize for Timestamp {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> serde::Deserialize<'de> for Timestamp {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = <std::borrow::Cow<'de, str>>::deserialize(deserializer)?;
        Timestamp::parse_rfc3339(&text).map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_instant_is_the_same_string() {
        let cases = [
            ("2026-01-31T12:00:00Z", "2026-01-31T12:00:00.000000Z"),
            ("2026-01-31T13:00:00+01:00", "2026-01-31T12:00:00.000000Z"),
            ("2026-01-31T12:00:00.1234567Z", "2026-01-31T12:00:00.123456Z"),
        ];
        for (given, shown) in cases {
            assert_eq!(Timestamp::parse_rfc3339(given).unwrap().to_string(), shown);
        }
    }

    #[test]
    fn what_is_no_instant_is_refused() {
        for text in ["", "2026-01-31", "2026-01-31T12:00:00", "1969-12-31T23:59:59Z", "soon"] {
            assert_eq!(Timestamp::parse_rfc3339(text), Err(InvalidTimestamp), "{text}");
        }
    }

    #[test]
    fn arithmetic_saturates() {
        assert_eq!(Timestamp::MAX + Duration::MAX, Timestamp::MAX);
        assert_eq!(Timestamp::EPOCH.since(Timestamp::MAX), Duration::ZERO);
        assert!(Timestamp::MAX.to_string().starts_with("9999-12-30"));
    }
}
