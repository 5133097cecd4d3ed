//! The reference bot: what is started as `roundsman-bot` or `roundsman bot`.
//!
//! `ROUNDSMAN_BOT_MODE` says what it does: `scripted` plays a scenario without any meeting, for
//! tests and demonstrations; `browser` attends a meeting page in Chromium.
//!
//! | variable | meaning |
//! |---|---|
//! | `BOT_CONFIG` | the instructions, see [`BotConfig`] |
//! | `ROUNDSMAN_BOT_MODE` | `scripted` (default) or `browser` |
//! | `ROUNDSMAN_BOT_SCENARIO` | the [`Scenario`]; otherwise that of a bot named `scenario:NAME`, or `talk` |
//! | `ROUNDSMAN_BOT_STEP_MS` | how long each step of a scenario takes (500) |
//! | `ROUNDSMAN_BOT_ATTEND_SECS` | how long a scripted bot attends unless told to leave (3600) |
//! | `ROUNDSMAN_BOT_MEETING_URL` | the page to attend, instead of `meetingUrl` |
//! | `ROUNDSMAN_BOT_PAGE_PROFILE` | a JSON file with the selectors of the page, see [`crate::PageProfile`] |
//! | `ROUNDSMAN_BOT_CHROMIUM` | the browser, instead of the first in `PATH` |
//! | `ROUNDSMAN_BOT_CHROMIUM_FLAGS` | more flags for it, such as `--no-sandbox` in a container without root |
//! | `LOG_LEVEL` | `error`, `warn`, `info` (default), `debug` or `trace`, on standard error |
//!
//! What is said is told to the server. In browser mode every [`crate::Event`] is also a line of JSON
//! on standard output.
//!
//! Exit codes: that of the ending it reported; 0 if it was told that nobody listens any more; 1 if
//! the server refuses it; 2 if it could not begin with what it was given.

mod output;
mod scenario;
mod scripted;
mod settings;
mod talk;

use std::process::ExitCode;

use crate::bot::{Bot, Farewell, Parts, StartError};
use crate::browser::{self, Event, Events};
use crate::config::{BotConfig, ConfigError};
use crate::ending::Ending;
use crate::environment::Environment;
use crate::wishes::Gone;

pub use output::JsonLines;
pub use scenario::{Scenario, UnknownScenario};
pub use scripted::Script;
pub use settings::{Mode, Settings, SettingsError};

const EXIT_MISCONFIGURED: u8 = 2;

/// How the bot's work ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Finish {
    /// In a way that is reported.
    Report(Ending),
    /// Like a crash: without a word.
    Vanish { exit_code: u8 },
    /// Because nobody listens.
    Gone(Gone),
}

/// Why the bot could not begin.
#[derive(Debug, thiserror::Error)]
pub enum CannotBegin {
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error(transparent)]
    Settings(#[from] SettingsError),
    #[error(transparent)]
    Start(#[from] StartError),
    #[error("the runtime cannot be started: {0}")]
    Runtime(#[from] std::io::Error),
}

/// Runs the bot to its end, on a runtime of its own, with its log on standard error. Not to be called
/// from within a runtime; [`run`] is for that.
pub fn main(environment: &Environment) -> ExitCode {
    output::start_log(environment);
    let outcome = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(CannotBegin::from)
        .and_then(|runtime| runtime.block_on(run(environment)));
    match outcome {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            output::complain(&error);
            ExitCode::from(EXIT_MISCONFIGURED)
        }
    }
}

/// Runs the bot to its end and returns its exit code.
pub async fn run(environment: &Environment) -> Result<u8, CannotBegin> {
    let config = BotConfig::from_environment(environment)?;
    let settings = Settings::new(environment, &config)?;
    let parts = Parts::real(&config)?;
    let bot = Bot::new(config, parts)?;
    let config = bot.config();
    tracing::info!(meeting = config.meeting_id, connection = config.connection_id, "bot starts");
    let finish = match &settings.mode {
        Mode::Scripted(script) => scripted::play(&bot, *script).await,
        Mode::Browser(wanted) => browser::attend(&bot, wanted, &WrittenAndTold(&bot)).await,
    };
    Ok(end(bot, finish).await)
}

/// What a browser hears goes to both.
struct WrittenAndTold<'a>(&'a Bot);

impl Events for WrittenAndTold<'_> {
    fn emit(&self, event: &Event) {
        JsonLines.emit(event);
        self.0.tell(event);
    }
}

async fn end(bot: Bot, finish: Finish) -> u8 {
    tracing::info!(?finish, "bot ends");
    match finish {
        Finish::Vanish { exit_code } => exit_code,
        Finish::Gone(gone) => exit_code_of(gone),
        Finish::Report(ending) => {
            let exit_code = u8::try_from(ending.exit_code).unwrap_or(1);
            let farewell = bot.exited(ending).await;
            if farewell != Farewell::Told {
                tracing::warn!(?farewell, "the server was not told of the end");
            }
            match farewell {
                Farewell::Gone(gone @ Gone::Refused(_)) => exit_code_of(gone),
                // Gone since an earlier try of this very report, or since somebody else ended it.
                Farewell::Told | Farewell::Untold | Farewell::Gone(Gone::Over) => exit_code,
            }
        }
    }
}

fn exit_code_of(gone: Gone) -> u8 {
    match gone {
        Gone::Over => 0,
        Gone::Refused(_) => 1,
    }
}
