//! Values as Daily writes them: numbers that are whole or not, times in three notations, texts that
//! may be missing.

use std::time::Duration;

use serde_json::Value;

use super::Odd;
use crate::Timestamp;

/// A number beyond this is in milliseconds: in seconds it would be the year 5138.
const SECONDS_MAX: f64 = 1e11;
/// Nothing that is measured here lasts longer.
const DURATION_SECS_MAX: f64 = 366.0 * 24.0 * 3600.0;

/// What was sent, as JSON.
pub(super) fn json(body: &[u8]) -> Result<Value, Odd> {
    serde_json::from_slice(body).map_err(|error| Odd::new(format!("it is not JSON: {error}")))
}

/// The first of these members that is there and is not null.
pub(super) fn member<'a>(of: &'a Value, names: &[&str]) -> Option<&'a Value> {
    names.iter().filter_map(|name| of.get(name)).find(|value| !value.is_null())
}

/// A text, or a number as one.
pub(super) fn text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}

/// Seconds or milliseconds since 1970, as a number or a text, or RFC 3339.
pub(super) fn instant(value: &Value) -> Option<Timestamp> {
    match value {
        Value::Number(number) => instant_of(number.as_f64()?),
        Value::String(text) => match text.parse() {
            Ok(number) => instant_of(number),
            Err(_) => Timestamp::parse_rfc3339(text).ok(),
        },
        _ => None,
    }
}

/// Seconds or milliseconds since 1970; which of them is seen from how many they are.
#[expect(clippy::cast_possible_truncation, reason = "the range is checked before")]
pub(super) fn instant_of(number: f64) -> Option<Timestamp> {
    let secs = if number > SECONDS_MAX { number / 1e3 } else { number };
    // No instant of ours is later than this many seconds.
    let is_instant = secs > 0.0 && secs < Timestamp::MAX.as_secs_f64();
    is_instant.then(|| Timestamp::from_micros((secs * 1e6).round() as i64))
}

/// Seconds, whole or not, as a number or a text.
pub(super) fn duration(value: &Value) -> Option<Duration> {
    let secs: f64 = match value {
        Value::Number(number) => number.as_f64()?,
        Value::String(text) => text.parse().ok()?,
        _ => return None,
    };
    // Compared so that what is no number is outside.
    (0.0..=DURATION_SECS_MAX).contains(&secs).then(|| Duration::from_secs_f64(secs))
}

/// In whole milliseconds.
pub(super) fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn times_are_read_in_every_notation() {
        let at = |micros| Some(Timestamp::from_micros(micros));
        for (given, read) in [
            (json!(1_708_972_279), at(1_708_972_279_000_000)),
            (json!(1_708_972_279.961), at(1_708_972_279_961_000)),
            (json!(1_708_972_279_961_i64), at(1_708_972_279_961_000)),
            (json!("1693402871"), at(1_693_402_871_000_000)),
            (json!("2023-01-01T20:53:19.000Z"), at(1_672_606_399_000_000)),
            (json!(0), None),
            (json!(-5), None),
            (json!(1e300), None),
            (json!("NaN"), None),
            (json!("inf"), None),
            (json!("soon"), None),
            (json!(null), None),
            (json!([1]), None),
        ] {
            assert_eq!(instant(&given), read, "{given}");
        }
    }

    #[test]
    fn durations_are_whole_or_not() {
        for (given, read) in [
            (json!(11.419_000_148_773_193), Some(11_419)),
            (json!(3), Some(3000)),
            (json!("2.5"), Some(2500)),
            (json!(0), Some(0)),
            (json!(-1), None),
            (json!(1e18), None),
            (json!("NaN"), None),
            (json!({}), None),
        ] {
            assert_eq!(duration(&given).map(millis), read, "{given}");
        }
    }
}
