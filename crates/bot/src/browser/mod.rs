//! Browser mode: attends a meeting page in Chromium as a guest would, and writes down what it sees.
//!
//! Invariants: the browser is gone before the end is reported; the bot hears commands at every
//! moment but while the page carries out a click, which is bounded.

mod attendance;
mod cdp;
mod chromium;
mod events;
mod page;
mod profile;

use std::path::PathBuf;
use std::time::Duration;

use attendance::{Attendance, Stage, Turn};
use chromium::{Chromium, ChromiumError};
use events::Minutes;
use page::{Page, PageError, PageMessage};

use crate::bot::Bot;
use crate::ending::Ending;
use crate::reference::Finish;
use crate::wishes::{Command, Commands, Gone, LeaveCause};

pub(crate) use events::timestamp;
pub use events::{Event, Events, Segment, SpeakerEvent, What};
pub use profile::{PageProfile, ProfileError};

/// A page that does not say goodbye is left without.
const GOODBYE_LIMIT: Duration = Duration::from_secs(5);

/// What to attend, and with what.
#[derive(Debug, Clone)]
pub struct BrowserSettings {
    pub meeting_url: String,
    pub profile: PageProfile,
    /// The browser; otherwise the first that is found.
    pub chromium: Option<PathBuf>,
    /// Where to look for it.
    pub search_path: String,
    pub extra_flags: Vec<String>,
}

/// Attends from the first report to the last but one, which is the caller's.
pub(crate) async fn attend(bot: &Bot, settings: &BrowserSettings, sink: &dyn Events) -> Finish {
    let mut visit = Visit {
        bot,
        settings,
        commands: bot.commands(),
        minutes: Minutes::new(bot.config(), sink),
        attendance: Attendance::new(bot.config().automatic_leave, bot.clock().monotonic()),
        browser: None,
    };
    let ended = visit.run().await;
    let clock = bot.clock();
    visit.minutes.end(clock.monotonic(), clock.wall());
    if let Some(browser) = visit.browser.take() {
        browser.end(clock.as_ref()).await;
    }
    match ended {
        Ok(ending) | Err(Stopped::Failed(ending)) => Finish::Report(ending),
        Err(Stopped::Leave(cause)) => Finish::Report(Ending::left_before_joining(cause)),
        Err(Stopped::Gone(gone)) => Finish::Gone(gone),
    }
}

struct Visit<'a> {
    bot: &'a Bot,
    settings: &'a BrowserSettings,
    commands: Commands,
    minutes: Minutes<'a>,
    attendance: Attendance,
    browser: Option<Chromium>,
}

/// Why a visit does not go its way.
enum Stopped {
    Leave(LeaveCause),
    Gone(Gone),
    Failed(Ending),
}

/// What a visit waits for.
enum Happening {
    Told(Stopped),
    Shown(Result<PageMessage, PageError>),
    Late,
}

impl Visit<'_> {
    async fn run(&mut self) -> Result<Ending, Stopped> {
        let (bot, settings) = (self.bot, self.settings);
        let started = async {
            bot.started().await.map_err(Stopped::Gone)?;
            bot.joining();
            Ok(Chromium::start(settings, bot.clock().as_ref()).await?)
        };
        let (browser, endpoint) = self.unless_told(started).await?;
        self.browser = Some(browser);
        // From here on the page is given its time, however long Chromium took.
        self.attendance = Attendance::new(bot.config().automatic_leave, bot.clock().monotonic());
        let opening =
            async { Ok(Page::open(&endpoint, &settings.meeting_url, &settings.profile).await?) };
        let mut page = self.unless_told(opening).await?;
        loop {
            let happening = self.next(&mut page).await;
            let turn = match happening {
                Happening::Told(Stopped::Leave(cause)) => {
                    return self.leave(&mut page, cause).await;
                }
                Happening::Told(stopped) => return Err(stopped),
                Happening::Shown(message) => self.shown(message?),
                Happening::Late => self.attendance.on_time(bot.clock().monotonic()),
            };
            if let Some(ending) = self.act(&page, turn).await? {
                return Ok(ending);
            }
        }
    }

    /// Waits for a command, for the page, or for the moment when waiting is over.
    async fn next(&mut self, page: &mut Page) -> Happening {
        let clock = self.bot.clock().clone();
        let due = self.attendance.due();
        let late = async {
            match due {
                Some(due) => clock.pause(due.saturating_sub(clock.monotonic())).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            stopped = told(self.bot, &mut self.commands, &mut self.minutes) => {
                Happening::Told(stopped)
            }
            message = page.next() => Happening::Shown(message),
            () = late => Happening::Late,
        }
    }

    fn shown(&mut self, message: PageMessage) -> Option<Turn> {
        let now = self.bot.clock().monotonic();
        match message {
            PageMessage::Stage { stage } => return self.attendance.on_stage(stage, now),
            PageMessage::Participants { participants } => {
                let others = participants.iter().filter(|participant| !participant.is_self);
                self.attendance.on_others(others.count(), now);
                self.minutes.participants(&participants, now);
            }
            PageMessage::Caption(caption) => self.minutes.caption(caption, now),
            PageMessage::Pulse if self.attendance.is_in_meeting() => {
                self.bot.media_progress(self.minutes.elapsed_ms(now));
            }
            PageMessage::Pulse => {}
        }
        None
    }

    async fn act(&mut self, page: &Page, turn: Option<Turn>) -> Result<Option<Ending>, Stopped> {
        match turn {
            None => {}
            Some(Turn::Join) => {
                let clicked = page.join(&self.bot.config().bot_name).await?;
                tracing::info!(clicked, "asking to join");
            }
            Some(Turn::AwaitAdmission) => drop(self.bot.awaiting_admission()),
            Some(Turn::BeIn) => {
                self.bot.joined();
                self.minutes.begin(self.bot.clock().monotonic(), self.bot.clock().wall());
            }
            Some(Turn::End(ending)) => return Ok(Some(ending)),
        }
        Ok(None)
    }

    /// Clicks to leave and waits for the page to say goodbye.
    async fn leave(&mut self, page: &mut Page, cause: LeaveCause) -> Result<Ending, Stopped> {
        self.bot.leaving();
        let was_in = self.attendance.is_in_meeting();
        let goodbye = async {
            if page.leave().await? {
                loop {
                    let PageMessage::Stage { stage } = page.next().await? else { continue };
                    if !matches!(stage, Stage::Admitted | Stage::Lobby) {
                        break;
                    }
                }
            }
            Ok::<(), PageError>(())
        };
        let clock = self.bot.clock().clone();
        let limit = GOODBYE_LIMIT.min(self.bot.config().roundsman.leave_limit());
        tokio::select! {
            biased;
            stopped = told(self.bot, &mut self.commands, &mut self.minutes) => return Err(stopped),
            // A page that fails while the bot leaves has let it go.
            _ = goodbye => {}
            () = clock.pause(limit) => tracing::info!("the page did not say goodbye"),
        }
        Ok(if was_in { Ending::left(cause) } else { Ending::left_before_joining(cause) })
    }

    async fn unless_told<T>(
        &mut self,
        work: impl Future<Output = Result<T, Stopped>>,
    ) -> Result<T, Stopped> {
        tokio::select! {
            biased;
            stopped = told(self.bot, &mut self.commands, &mut self.minutes) => {
                if matches!(stopped, Stopped::Leave(_)) {
                    self.bot.leaving();
                }
                Err(stopped)
            }
            done = work => done,
        }
    }
}

/// Applies every new configuration until something ends the visit.
async fn told(bot: &Bot, commands: &mut Commands, minutes: &mut Minutes<'_>) -> Stopped {
    loop {
        match commands.next().await {
            Command::Leave(cause) => return Stopped::Leave(cause),
            Command::Gone(gone) => return Stopped::Gone(gone),
            Command::Reconfigure(wanted) => {
                minutes.language = wanted.language;
                bot.applied(wanted.version);
            }
        }
    }
}

impl From<ChromiumError> for Stopped {
    fn from(error: ChromiumError) -> Self {
        Stopped::Failed(Ending::failed(1, "browser_not_started").details(&error.to_string()))
    }
}

impl From<PageError> for Stopped {
    fn from(error: PageError) -> Self {
        let reason = match error {
            PageError::NotLoaded(_) => "join_meeting_error",
            PageError::Cdp(_) | PageError::Script(_) | PageError::Crashed => {
                "platform_handler_exception"
            }
        };
        Stopped::Failed(Ending::failed(1, reason).details(&error.to_string()))
    }
}
