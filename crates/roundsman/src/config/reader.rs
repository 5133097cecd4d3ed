//! Turns settings into the types the program works with, and collects what does not fit.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::ops::RangeInclusive;
use std::time::Duration;

use secrecy::SecretString;
use toml::Value;

use super::layers::Settings;
use super::problem::Problems;
use super::schema::Exposure;

/// Reads one setting after the other. A setting with a problem yields some harmless value, so that
/// the ones after it are checked too; [`Reader::finish`] tells whether any of them may be used.
pub(super) struct Reader<'a> {
    settings: &'a Settings,
    problems: Problems,
    /// What each setting that was read allows, in words.
    allowed: BTreeMap<&'static str, String>,
}

impl<'a> Reader<'a> {
    pub(super) fn new(settings: &'a Settings, problems: Problems) -> Reader<'a> {
        Reader { settings, problems, allowed: BTreeMap::new() }
    }

    pub(super) fn finish(self) -> Problems {
        self.problems
    }

    pub(super) fn into_allowed(self) -> BTreeMap<&'static str, String> {
        self.allowed
    }

    /// Outside generators, which are no settings.
    pub(super) fn executors(&self) -> super::executors::Executors {
        self.settings.executors.clone()
    }

    /// A whole number within `range`.
    pub(super) fn number<T>(&mut self, path: &'static str, range: RangeInclusive<T>) -> T
    where
        T: TryFrom<i64> + PartialOrd + Display + Copy,
    {
        let allowed = format!("{} to {}", range.start(), range.end());
        let given = self.value(path, &allowed).as_integer();
        match given.and_then(|given| T::try_from(given).ok()) {
            Some(number) if range.contains(&number) => number,
            _ => {
                self.refuse(path, &format!("set it to {allowed}"));
                *range.start()
            }
        }
    }

    /// A duration within `range`, in the unit that the setting's name ends with.
    pub(super) fn duration(
        &mut self,
        path: &'static str,
        range: RangeInclusive<Duration>,
    ) -> Duration {
        let unit = unit_of(path);
        let in_units = |duration: &Duration| duration.as_secs_f64() / unit.as_secs_f64();
        let allowed = format!("{} to {}", in_units(range.start()), in_units(range.end()));
        match duration_from(self.value(path, &allowed), unit) {
            Some(duration) if range.contains(&duration) => duration,
            _ => {
                self.refuse(path, &format!("set it to {allowed}"));
                *range.start()
            }
        }
    }

    /// Yes or no.
    pub(super) fn flag(&mut self, path: &'static str) -> bool {
        self.value(path, "true or false").as_bool().unwrap_or_default()
    }

    /// One of the words in `choices`.
    pub(super) fn choice<T: Copy>(&mut self, path: &'static str, choices: &[(&str, T)]) -> T {
        let allowed = one_of(choices);
        let given = self.value(path, &allowed).as_str().unwrap_or_default();
        if let Some((_, choice)) = choices.iter().find(|(word, _)| *word == given) {
            return *choice;
        }
        self.refuse(path, &format!("set it to {allowed}"));
        choices[0].1
    }

    /// Some of the words in `choices`, at least one, in any order.
    pub(super) fn choices<T: Copy>(&mut self, path: &'static str, choices: &[(&str, T)]) -> Vec<T> {
        let allowed = format!("any of {}", one_of(choices));
        let given = self.value(path, &allowed).as_array().map_or(&[][..], Vec::as_slice);
        let find = |given: &Value| {
            choices.iter().find(|(word, _)| given.as_str() == Some(word)).map(|(_, choice)| *choice)
        };
        match given.iter().map(find).collect::<Option<Vec<T>>>() {
            Some(chosen) if !chosen.is_empty() => chosen,
            _ => {
                self.refuse(path, &format!("set it to at least one and {allowed}"));
                Vec::new()
            }
        }
    }

    /// A list, perhaps empty, of texts that `parse` understands.
    pub(super) fn texts<T>(
        &mut self,
        path: &'static str,
        parse: impl Fn(&str) -> Result<T, String>,
    ) -> Vec<T> {
        let given = self.value(path, "").as_array().map_or(&[][..], Vec::as_slice);
        let parsed: Result<Vec<T>, String> =
            given.iter().map(|item| parse(item.as_str().unwrap_or_default())).collect();
        parsed.unwrap_or_else(|fix| {
            self.refuse(path, &fix);
            Vec::new()
        })
    }

    /// Text that `parse` understands; its error says what to write instead.
    pub(super) fn text<T>(
        &mut self,
        path: &'static str,
        fallback: T,
        parse: impl FnOnce(&str) -> Result<T, String>,
    ) -> T {
        let text = self.value(path, "").as_str().unwrap_or_default();
        parse(text).unwrap_or_else(|fix| {
            self.refuse(path, &fix);
            fallback
        })
    }

    /// Secrets of at least `bytes_min` bytes each, separated by commas; perhaps none.
    pub(super) fn secrets(&mut self, path: &'static str, bytes_min: usize) -> Vec<SecretString> {
        debug_assert_eq!(self.settings.get(path).key.exposure, Exposure::Secret, "{path}");
        self.text(path, Vec::new(), |text| {
            let items = text.split(',').map(str::trim).filter(|item| !item.is_empty());
            let items: Vec<&str> = items.collect();
            if items.iter().any(|item| item.len() < bytes_min) {
                return Err(format!("use at least {bytes_min} bytes for each of them"));
            }
            Ok(items.into_iter().map(SecretString::from).collect())
        })
    }

    /// A secret of at least `bytes_min` bytes, or none.
    pub(super) fn secret(&mut self, path: &'static str, bytes_min: usize) -> Option<SecretString> {
        debug_assert_eq!(self.settings.get(path).key.exposure, Exposure::Secret, "{path}");
        self.text(path, None, |text| match text {
            "" => Ok(None),
            text if text.trim() != text || text.contains(char::is_control) => {
                Err("remove the blanks around it and any line end inside it".to_owned())
            }
            text if text.len() < bytes_min => {
                Err(format!("use at least {bytes_min} bytes, for example `openssl rand -hex 32`"))
            }
            text => Ok(Some(SecretString::from(text))),
        })
    }

    fn value(&mut self, path: &'static str, allowed: &str) -> &'a Value {
        self.allowed.insert(path, allowed.to_owned());
        &self.settings.get(path).value
    }

    fn refuse(&mut self, path: &str, fix: &str) {
        // A value of the wrong type was reported when it was read.
        if !self.problems.is_spoiled(path) {
            self.problems.spoil(path, format!("{}: {fix}", self.settings.get(path)));
        }
    }
}

fn one_of<T>(choices: &[(&str, T)]) -> String {
    choices.iter().map(|(word, _)| format!("`{word}`")).collect::<Vec<_>>().join(", ")
}

/// `request_secs_max` counts seconds: the unit is a word of the name.
fn unit_of(path: &str) -> Duration {
    let unit = path.split(['.', '_']).find_map(|word| match word {
        "ms" => Some(Duration::from_millis(1)),
        "secs" => Some(Duration::from_secs(1)),
        "hours" => Some(Duration::from_hours(1)),
        _ => None,
    });
    unit.unwrap_or_else(|| panic!("{path} has no unit in its name"))
}

fn duration_from(value: &Value, unit: Duration) -> Option<Duration> {
    match value {
        Value::Integer(count) => unit.checked_mul(u32::try_from(*count).ok()?),
        Value::Float(count) => Duration::try_from_secs_f64(count * unit.as_secs_f64()).ok(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_become_durations_in_their_unit() {
        let secs = Duration::from_secs(1);
        let cases = [
            (Value::from(5), "a.b_secs", Some(Duration::from_secs(5))),
            (Value::from(0.25), "a.b_secs_max", Some(Duration::from_millis(250))),
            (Value::from(2000), "a.b_ms", Some(Duration::from_secs(2))),
            (Value::from(24), "a.b_hours", Some(secs * 86_400)),
            (Value::from(-1), "a.b_secs", None),
            (Value::from(-0.5), "a.b_secs", None),
            (Value::from(f64::NAN), "a.b_secs", None),
            (Value::from(f64::INFINITY), "a.b_hours", None),
            (Value::from(i64::MAX), "a.b_hours", None),
            (Value::from("5"), "a.b_secs", None),
        ];
        for (value, path, duration) in cases {
            assert_eq!(duration_from(&value, unit_of(path)), duration, "{value} {path}");
        }
    }
}
