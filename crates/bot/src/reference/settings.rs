//! The settings of the reference bot: what `BOT_CONFIG` does not say, from the environment.

use std::path::PathBuf;
use std::time::Duration;

use super::scenario::{Scenario, UnknownScenario};
use super::scripted::Script;
use crate::browser::{BrowserSettings, PageProfile, ProfileError};
use crate::config::BotConfig;
use crate::environment::Environment;

const MODE: &str = "ROUNDSMAN_BOT_MODE";
const SCENARIO: &str = "ROUNDSMAN_BOT_SCENARIO";
const STEP_MS: &str = "ROUNDSMAN_BOT_STEP_MS";
const ATTEND_SECS: &str = "ROUNDSMAN_BOT_ATTEND_SECS";
const MEETING_URL: &str = "ROUNDSMAN_BOT_MEETING_URL";
const PAGE_PROFILE: &str = "ROUNDSMAN_BOT_PAGE_PROFILE";
const CHROMIUM: &str = "ROUNDSMAN_BOT_CHROMIUM";
const CHROMIUM_FLAGS: &str = "ROUNDSMAN_BOT_CHROMIUM_FLAGS";

/// A bot of this name plays what follows, so that one server can run many scenarios.
const SCENARIO_PREFIX: &str = "scenario:";

const STEP_MS_DEFAULT: u64 = 500;
const ATTEND_SECS_DEFAULT: u64 = 3600;

#[derive(Debug, Clone)]
pub struct Settings {
    pub mode: Mode,
}

/// What the bot does once it has started.
#[derive(Debug, Clone)]
pub enum Mode {
    Scripted(Script),
    Browser(Box<BrowserSettings>),
}

#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    #[error("{name} must be {expected}, and not {value:?}")]
    Invalid { name: &'static str, expected: &'static str, value: String },
    #[error(transparent)]
    Scenario(#[from] UnknownScenario),
    #[error("{PAGE_PROFILE}: {0}")]
    Profile(#[from] ProfileError),
    #[error("there is no meeting to attend: neither {MEETING_URL} nor meetingUrl is given")]
    NoMeeting,
}

impl Settings {
    pub fn new(environment: &Environment, config: &BotConfig) -> Result<Self, SettingsError> {
        let mode = match environment.get(MODE).unwrap_or("scripted") {
            "scripted" => Mode::Scripted(script(environment, config)?),
            "browser" => Mode::Browser(Box::new(browser(environment, config)?)),
            other => return Err(invalid(MODE, "scripted or browser", other)),
        };
        Ok(Settings { mode })
    }
}

/// The variable is for one bot, the name for one of many: so the variable wins.
fn script(environment: &Environment, config: &BotConfig) -> Result<Script, SettingsError> {
    let by_name = config.bot_name.strip_prefix(SCENARIO_PREFIX).map(str::trim);
    let scenario = environment.get(SCENARIO).or(by_name);
    Ok(Script {
        scenario: scenario.map_or(Ok(Scenario::Talk), str::parse)?,
        step: Duration::from_millis(number(environment, STEP_MS, STEP_MS_DEFAULT)?),
        attend: Duration::from_secs(number(environment, ATTEND_SECS, ATTEND_SECS_DEFAULT)?),
    })
}

fn browser(
    environment: &Environment,
    config: &BotConfig,
) -> Result<BrowserSettings, SettingsError> {
    let url = environment.get(MEETING_URL).or(config.meeting_url.as_deref());
    let profile = match environment.get(PAGE_PROFILE) {
        Some(path) => PageProfile::from_file(path.as_ref())?,
        None => PageProfile::built_in(),
    };
    let flags = environment.get(CHROMIUM_FLAGS).unwrap_or_default();
    Ok(BrowserSettings {
        meeting_url: url.ok_or(SettingsError::NoMeeting)?.to_owned(),
        profile,
        chromium: environment.get(CHROMIUM).map(PathBuf::from),
        search_path: environment.get("PATH").unwrap_or_default().to_owned(),
        extra_flags: flags.split_whitespace().map(str::to_owned).collect(),
    })
}

fn number(
    environment: &Environment,
    name: &'static str,
    default: u64,
) -> Result<u64, SettingsError> {
    let Some(text) = environment.get(name) else { return Ok(default) };
    text.parse().map_err(|_| invalid(name, "a whole number", text))
}

fn invalid(name: &'static str, expected: &'static str, value: &str) -> SettingsError {
    SettingsError::Invalid { name, expected, value: value.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(bot_name: &str) -> BotConfig {
        let text = format!(
            r#"{{"meeting_id":7,"connectionId":"c","botName":"{bot_name}","roundsman":
            {{"callbackUrl":"http://x","callbackToken":"t"}}}}"#
        );
        BotConfig::from_json(&text).unwrap()
    }

    fn scenario(variables: &Environment, bot_name: &str) -> Result<Scenario, String> {
        match Settings::new(variables, &config(bot_name)).map_err(|error| error.to_string())?.mode {
            Mode::Scripted(script) => Ok(script.scenario),
            Mode::Browser(_) => Err("browser".to_owned()),
        }
    }

    #[test]
    fn the_scenario_comes_from_the_variable_or_the_name() {
        let none = Environment::default();
        assert_eq!(scenario(&none, "Ann's bot"), Ok(Scenario::Talk));
        assert_eq!(scenario(&none, "scenario:crash"), Ok(Scenario::Crash));
        let deaf = Environment::from([(SCENARIO, "deaf")]);
        assert_eq!(scenario(&deaf, "scenario:crash"), Ok(Scenario::Deaf));
        let unknown = scenario(&none, "scenario:dance").unwrap_err();
        assert!(unknown.contains("dance") && unknown.contains("slow_join"), "{unknown}");
    }

    #[test]
    fn settings_that_make_no_sense_are_named() {
        for (name, value) in [(MODE, "dream"), (STEP_MS, "soon"), (ATTEND_SECS, "-1")] {
            let error = scenario(&Environment::from([(name, value)]), "x").unwrap_err();
            assert!(error.contains(name) && error.contains(value), "{error}");
        }
        let homeless = scenario(&Environment::from([(MODE, "browser")]), "x").unwrap_err();
        assert!(homeless.contains(MEETING_URL), "{homeless}");
    }
}
