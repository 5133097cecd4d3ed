//! What the server wants of the bot, gathered from every way it may be heard on.
//!
//! Invariants: wishes are state and not a queue, so that a wish heard twice is one wish and nobody
//! can fill a memory with them; of two configurations the higher version wins, in whatever order
//! they arrive; a leave is never taken back.

use std::sync::Arc;

use tokio::sync::watch;

/// Something the bot should do. Each is said once to each [`Commands`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Command {
    /// Leave the meeting, report and end.
    Leave(LeaveCause),
    Reconfigure(Reconfigure),
    /// End at once and report nothing: nobody is listening any more.
    Gone(Gone),
}

/// Who wants the bot to leave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LeaveCause {
    /// The server, by command or in an answer.
    Asked,
    /// Whoever sent SIGTERM.
    Terminated,
    /// Whoever sent SIGINT.
    Interrupted,
}

/// How to go on with what is heard.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reconfigure {
    pub version: u32,
    /// `None`: find out.
    pub language: Option<String>,
    pub task: Option<String>,
}

/// Why nobody is listening any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Gone {
    #[error("the meeting is over or another attempt has taken this bot's place")]
    Over,
    #[error("the server refuses this bot (status {0})")]
    Refused(u16),
}

/// Where wishes are gathered. Clones share them.
#[derive(Debug, Clone, Default)]
pub(crate) struct Wishes(Arc<watch::Sender<Heard>>);

#[derive(Debug, Clone, Default)]
struct Heard {
    leave: Option<LeaveCause>,
    config: Option<Reconfigure>,
    gone: Option<Gone>,
}

/// Hears every wish once, the most pressing first.
#[derive(Debug)]
pub struct Commands {
    heard: watch::Receiver<Heard>,
    /// Keeps the channel open, so that waiting never fails.
    _open: Wishes,
    leave_told: bool,
    gone_told: bool,
    version_told: u32,
}

impl Wishes {
    /// The first cause stays: it is the one that the bot acts on.
    pub(crate) fn leave(&self, cause: LeaveCause) {
        self.0.send_if_modified(|heard| {
            let is_new = heard.leave.is_none();
            heard.leave.get_or_insert(cause);
            is_new
        });
    }

    pub(crate) fn reconfigure(&self, wanted: Reconfigure) {
        self.0.send_if_modified(|heard| {
            let is_new = heard.config.as_ref().is_none_or(|known| known.version < wanted.version);
            if is_new {
                heard.config = Some(wanted);
            }
            is_new
        });
    }

    pub(crate) fn gone(&self, gone: Gone) {
        self.0.send_if_modified(|heard| {
            let is_new = heard.gone.is_none();
            heard.gone.get_or_insert(gone);
            is_new
        });
    }

    pub(crate) fn is_gone(&self) -> Option<Gone> {
        self.0.borrow().gone
    }

    /// Returns when nobody is listening any more.
    pub(crate) async fn until_gone(&self) -> Gone {
        let mut heard = self.0.subscribe();
        loop {
            if let Some(gone) = heard.borrow_and_update().gone {
                return gone;
            }
            if heard.changed().await.is_err() {
                // Not reached: `self` keeps the channel open.
                std::future::pending::<()>().await;
            }
        }
    }

    pub(crate) fn commands(&self) -> Commands {
        Commands {
            heard: self.0.subscribe(),
            _open: self.clone(),
            leave_told: false,
            gone_told: false,
            version_told: 0,
        }
    }
}

impl Commands {
    /// Waits for the next wish. May be dropped at any moment without losing one.
    pub async fn next(&mut self) -> Command {
        loop {
            if let Some(command) = self.untold() {
                return command;
            }
            if self.heard.changed().await.is_err() {
                // Not reached: this end keeps the channel open.
                std::future::pending::<()>().await;
            }
        }
    }

    fn untold(&mut self) -> Option<Command> {
        let heard = self.heard.borrow_and_update().clone();
        if let Some(gone) = heard.gone.filter(|_| !self.gone_told) {
            self.gone_told = true;
            return Some(Command::Gone(gone));
        }
        if let Some(cause) = heard.leave.filter(|_| !self.leave_told) {
            self.leave_told = true;
            return Some(Command::Leave(cause));
        }
        let config = heard.config.filter(|config| config.version > self.version_told)?;
        self.version_told = config.version;
        Some(Command::Reconfigure(config))
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    fn config(version: u32) -> Reconfigure {
        Reconfigure { version, language: Some(format!("l{version}")), task: None }
    }

    /// Everything that is said without waiting.
    fn drain(commands: &mut Commands) -> Vec<Command> {
        std::iter::from_fn(|| commands.next().now_or_never()).collect()
    }

    #[tokio::test]
    async fn a_leave_heard_in_three_ways_is_one_leave() {
        let wishes = Wishes::default();
        let mut commands = wishes.commands();
        wishes.leave(LeaveCause::Asked);
        wishes.leave(LeaveCause::Terminated);
        assert_eq!(drain(&mut commands), [Command::Leave(LeaveCause::Asked)]);
        wishes.leave(LeaveCause::Interrupted);
        assert_eq!(drain(&mut commands), []);
        // Whoever listens later hears what was said before.
        assert_eq!(drain(&mut wishes.commands()), [Command::Leave(LeaveCause::Asked)]);
    }

    #[tokio::test]
    async fn the_highest_version_wins_in_every_order() {
        for order in [[1, 2, 3], [1, 3, 2], [2, 1, 3], [2, 3, 1], [3, 1, 2], [3, 2, 1]] {
            let wishes = Wishes::default();
            let (mut eager, mut late) = (wishes.commands(), wishes.commands());
            let mut told = Vec::new();
            for version in order {
                wishes.reconfigure(config(version));
                told.extend(drain(&mut eager));
                wishes.reconfigure(config(version));
                assert_eq!(drain(&mut eager), [], "a repeat says nothing");
            }
            let versions: Vec<u32> = told
                .iter()
                .map(|command| match command {
                    Command::Reconfigure(config) => config.version,
                    other => panic!("{other:?}"),
                })
                .collect();
            assert!(versions.is_sorted() && versions.last() == Some(&3), "{order:?}: {versions:?}");
            assert_eq!(drain(&mut late), [Command::Reconfigure(config(3))]);
        }
    }

    #[tokio::test]
    async fn the_most_pressing_wish_comes_first() {
        let wishes = Wishes::default();
        wishes.reconfigure(config(1));
        wishes.leave(LeaveCause::Terminated);
        wishes.gone(Gone::Over);
        wishes.gone(Gone::Refused(401));
        let told = drain(&mut wishes.commands());
        let expected = [
            Command::Gone(Gone::Over),
            Command::Leave(LeaveCause::Terminated),
            Command::Reconfigure(config(1)),
        ];
        assert_eq!(told, expected);
        assert_eq!(wishes.until_gone().await, Gone::Over);
    }

    #[tokio::test]
    async fn a_wish_wakes_whoever_waits() {
        let wishes = Wishes::default();
        let mut commands = wishes.commands();
        let (command, ()) = tokio::join!(commands.next(), async {
            tokio::task::yield_now().await;
            wishes.leave(LeaveCause::Asked);
        });
        assert_eq!(command, Command::Leave(LeaveCause::Asked));
    }
}
