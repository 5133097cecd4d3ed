//! The jobs of bots, as a node puts them together.

use std::sync::Arc;

use roundsman_core::Timestamp;
use roundsman_core::jobs::{KindSpec, NewJob};
use roundsman_core::ports::{Bus, Clock, Launcher, Random, Store};
use tokio_util::task::TaskTracker;

use super::announce::Announcer;
use super::finish::{finish_spec, finisher};
use super::supervise::{SuperviseOptions, supervisor, supervisor_spec};
use super::sweep::{BotSweepOptions, BotSweeper, SWEEP_KIND, sweep_spec};
use crate::jobs::{Handler, periodic_wish};
use crate::metrics::Metrics;
use crate::transcripts::Transcripts;
use crate::wake::Wakes;

/// What the jobs of bots are made of.
#[derive(Clone)]
pub struct BotWork {
    pub store: Arc<dyn Store>,
    pub clock: Arc<dyn Clock>,
    pub random: Arc<dyn Random>,
    pub bus: Arc<dyn Bus>,
    pub wakes: Wakes,
    pub metrics: Metrics,
    pub launcher: Arc<dyn Launcher>,
    /// What is said in the meetings becomes final when they end.
    pub transcripts: Transcripts,
    /// Where announcements are sent, so that a shutdown can wait for them.
    pub tasks: TaskTracker,
}

/// The policies of all kinds of jobs about bots.
pub fn bot_specs(supervised_at_once_max: usize) -> Vec<KindSpec> {
    vec![supervisor_spec(supervised_at_once_max), sweep_spec(), finish_spec()]
}

/// The wishes that keep the periodic jobs alive; every start repeats them.
pub fn bot_wishes(now: Timestamp) -> Vec<NewJob> {
    vec![periodic_wish(SWEEP_KIND, now)]
}

impl BotWork {
    /// The handlers of all kinds of jobs about bots.
    pub fn handlers(
        &self,
        supervise: SuperviseOptions,
        sweep: BotSweepOptions,
    ) -> Vec<Arc<dyn Handler>> {
        vec![self.supervisor(supervise), self.sweeper(sweep).handler(), self.finisher()]
    }

    pub fn supervisor(&self, options: SuperviseOptions) -> Arc<dyn Handler> {
        supervisor(self, options)
    }

    pub fn sweeper(&self, options: BotSweepOptions) -> BotSweeper {
        BotSweeper::new(self, options)
    }

    pub fn finisher(&self) -> Arc<dyn Handler> {
        finisher(self)
    }

    pub(super) fn announcer(&self) -> Announcer {
        Announcer::new(
            self.bus.clone(),
            self.wakes.clone(),
            self.metrics.clone(),
            self.transcripts.clone(),
            self.tasks.clone(),
        )
    }
}

impl std::fmt::Debug for BotWork {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BotWork").field("launcher", &self.launcher.name()).finish_non_exhaustive()
    }
}
