//! The scripted bot: plays a scenario without a meeting, so that tests and demonstrations see every
//! way in which a bot can live and end.

use std::sync::Arc;
use std::time::Duration;

use super::Finish;
use super::scenario::Scenario;
use super::talk::Talk;
use crate::bot::Bot;
use crate::ending::Ending;
use crate::time::Clock;
use crate::wishes::{Command, Commands, Gone, LeaveCause};

/// How many steps a slow bot takes to join.
const SLOW_STEPS: u32 = 10;

/// A scenario and its pace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Script {
    pub scenario: Scenario,
    /// How long each step takes.
    pub step: Duration,
    /// How long it attends when nobody tells it to leave.
    pub attend: Duration,
}

/// Plays the script from the first report to the last but one, which is the caller's.
pub(crate) async fn play(bot: &Bot, script: Script) -> Finish {
    let commands = bot.commands();
    let clock = bot.clock().clone();
    let mut actor = Actor { bot, script, commands, clock, is_in_meeting: false, talk: None };
    let lived = actor.live().await;
    actor.fall_still();
    match lived {
        Ok(finish) => finish,
        Err(Interrupted::Gone(gone)) => Finish::Gone(gone),
        Err(Interrupted::Leave(cause)) => actor.leave(cause).await,
    }
}

struct Actor<'a> {
    bot: &'a Bot,
    script: Script,
    commands: Commands,
    clock: Arc<dyn Clock>,
    is_in_meeting: bool,
    talk: Option<Talk>,
}

/// Why the script is not played to its end.
enum Interrupted {
    Leave(LeaveCause),
    Gone(Gone),
}

type Played = Result<Finish, Interrupted>;

impl Actor<'_> {
    async fn live(&mut self) -> Played {
        self.start().await?;
        self.bot.joining();
        self.steps(1).await?;
        match self.script.scenario {
            Scenario::EarlyExit => Ok(Finish::Report(Ending::completed("self_initiated_leave"))),
            Scenario::LobbyTimeout => self.wait_in_vain().await,
            Scenario::Rejected => self.be_rejected().await,
            Scenario::SlowJoin => {
                self.steps(SLOW_STEPS).await?;
                self.attend().await
            }
            Scenario::Talk
            | Scenario::Normal
            | Scenario::Crash
            | Scenario::Hang
            | Scenario::Deaf
            | Scenario::DiesLeaving
            | Scenario::Exit137 => self.attend().await,
        }
    }

    async fn start(&mut self) -> Result<(), Interrupted> {
        let bot = self.bot;
        self.unless_told(async { bot.started().await.map_err(Interrupted::Gone) }).await?
    }

    async fn wait_in_vain(&mut self) -> Played {
        self.bot.awaiting_admission();
        self.pause(self.bot.config().automatic_leave.waiting_room()).await?;
        let ending = Ending::completed("admission_timeout").because("awaiting_admission_timeout");
        Ok(Finish::Report(ending))
    }

    async fn be_rejected(&mut self) -> Played {
        self.bot.awaiting_admission();
        self.steps(1).await?;
        let ending = Ending::completed("admission_rejected_by_admin");
        Ok(Finish::Report(ending.because("awaiting_admission_rejected")))
    }

    async fn attend(&mut self) -> Played {
        let joined = self.bot.joined();
        self.is_in_meeting = true;
        let since = self.clock.monotonic();
        if self.script.scenario == Scenario::Talk {
            let (talk, start) = Talk::begin(self.bot.config(), self.clock.wall());
            self.bot.tell(&start);
            self.talk = Some(talk);
        }
        match self.script.scenario {
            Scenario::Hang => {
                joined.delivered().await;
                self.bot.fall_silent();
                std::future::pending().await
            }
            Scenario::Deaf => loop {
                self.clock.pause(self.script.step).await;
                self.hear_since(since);
            },
            Scenario::Crash | Scenario::Exit137 => {
                // Only a bot that is known to be in the meeting can be seen to fail in it.
                self.unless_told(joined.delivered()).await?;
                self.steps(1).await?;
                self.hear_since(since);
                Ok(match self.script.scenario {
                    Scenario::Crash => Finish::Vanish { exit_code: 1 },
                    _ => Finish::Report(Ending::failed(137, "signal_sigkill")),
                })
            }
            _ => {
                while self.clock.monotonic() < since.saturating_add(self.script.attend) {
                    self.steps(1).await?;
                    self.hear_since(since);
                }
                Ok(Finish::Report(Ending::completed("normal_completion")))
            }
        }
    }

    async fn leave(&mut self, cause: LeaveCause) -> Finish {
        let said = self.bot.leaving();
        if self.script.scenario == Scenario::DiesLeaving {
            said.delivered().await;
            return Finish::Vanish { exit_code: 1 };
        }
        if let Err(Interrupted::Gone(gone)) = self.steps(1).await {
            return Finish::Gone(gone);
        }
        Finish::Report(if self.is_in_meeting {
            Ending::left(cause)
        } else {
            Ending::left_before_joining(cause)
        })
    }

    /// A scripted bot hears all of the time.
    fn hear_since(&mut self, since: Duration) {
        let heard = self.clock.monotonic().saturating_sub(since);
        for event in self.talk.as_mut().map(|talk| talk.step(heard)).unwrap_or_default() {
            self.bot.tell(&event);
        }
        self.bot.media_progress(u64::try_from(heard.as_millis()).unwrap_or(u64::MAX));
    }

    /// Nothing more will be heard.
    fn fall_still(&mut self) {
        if let Some(talk) = self.talk.take() {
            self.bot.tell(&talk.end(self.clock.wall()));
        }
    }

    async fn steps(&mut self, count: u32) -> Result<(), Interrupted> {
        self.pause(self.script.step * count).await
    }

    async fn pause(&mut self, time: Duration) -> Result<(), Interrupted> {
        let clock = self.clock.clone();
        self.unless_told(async move { clock.pause(time).await }).await
    }

    /// Does `work` to its end unless a command interrupts it.
    async fn unless_told<T>(&mut self, work: impl Future<Output = T>) -> Result<T, Interrupted> {
        tokio::pin!(work);
        loop {
            tokio::select! {
                biased;
                command = self.commands.next() => match command {
                    Command::Leave(cause) => return Err(Interrupted::Leave(cause)),
                    Command::Gone(gone) => return Err(Interrupted::Gone(gone)),
                    Command::Reconfigure(wanted) => self.bot.applied(wanted.version),
                },
                done = &mut work => return Ok(done),
            }
        }
    }
}
