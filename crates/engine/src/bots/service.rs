//! The bot service: what users ask for.
//!
//! Invariant: a wish is in the database before anybody is told of it, and no method here but a
//! reservation writes a status.

use std::sync::Arc;

use roundsman_core::bots::{BotRecord, CallbackKey, ConnectionId, SUPERVISE_KIND};
use roundsman_core::failpoint;
use roundsman_core::jobs::Json;
use roundsman_core::ports::{
    AnonymiseAnswer, BeatAnswer, BotBeat, BotTarget, Bus, Clock, ConfigAnswer, ConfigChange,
    MeetingFilter, MeetingPage, MeetingRow, Random, ReserveAnswer, StopAnswer, Store,
};
use roundsman_core::users::UserId;
use serde_json::{Map, Value};
use tokio_util::task::TaskTracker;

use super::announce::Announcer;
use super::wish::check_config;
use super::{StartError, StartWish};
use crate::jobs::Batcher;
use crate::metrics::Metrics;
use crate::transcripts::Transcripts;
use crate::wake::Wakes;
use crate::{Error, FieldError};

/// One page of meetings holds at most this many rows. Vexa's clients ask for all at once.
const MEETINGS_PAGE_ROWS_MAX: u32 = 1000;
/// What a user may add to a meeting's data at once.
const MEETING_DATA_BYTES_MAX: usize = 64 * 1024;
/// The column's width in an existing Vexa database.
const NATIVE_ID_BYTES_MAX: usize = 255;

/// What the service is made of.
#[derive(Clone)]
pub struct BotsDeps {
    pub store: Arc<dyn Store>,
    pub clock: Arc<dyn Clock>,
    pub random: Arc<dyn Random>,
    pub bus: Arc<dyn Bus>,
    pub wakes: Wakes,
    pub metrics: Metrics,
    pub callback_key: CallbackKey,
    /// Listeners hear of bots where they hear of what is said.
    pub transcripts: Transcripts,
    /// Where announcements are sent, so that a shutdown can wait for them.
    pub tasks: TaskTracker,
}

/// Starts, stops, configures and shows bots, and hears what they say.
#[derive(Clone)]
pub struct Bots {
    pub(super) deps: Arc<BotsDeps>,
    pub(super) announcer: Announcer,
    pub(super) beats: Batcher<BotBeat, BeatAnswer>,
}

impl Bots {
    pub fn new(deps: BotsDeps) -> Self {
        let announcer = Announcer::new(
            deps.bus.clone(),
            deps.wakes.clone(),
            deps.metrics.clone(),
            deps.transcripts.clone(),
            deps.tasks.clone(),
        );
        let (store, clock) = (deps.store.clone(), deps.clock.clone());
        // Not the process's tracker: this task lives as long as somebody can still call.
        let beats = Batcher::start(&TaskTracker::new(), move |beats| {
            let (store, clock) = (store.clone(), clock.clone());
            async move { store.bot_heartbeats(beats, clock.now()).await }
        });
        Bots { deps: Arc::new(deps), announcer, beats }
    }

    /// Reserves a slot for a bot; launching it is the supervisor's.
    pub async fn start(&self, user: UserId, wish: StartWish) -> Result<BotRecord, StartError> {
        let connection = ConnectionId::draw(self.deps.random.as_ref());
        let bot = wish.check(user, connection).map_err(StartError::Invalid)?;
        let answer = self.deps.store.reserve_bot(bot, self.deps.clock.now()).await?;
        failpoint::hit("bots.reserved");
        match answer {
            ReserveAnswer::Reserved(announced) => {
                self.announcer.announce(&announced);
                self.announcer.wake(SUPERVISE_KIND, 1);
                Ok(announced.record)
            }
            ReserveAnswer::NoSuchUser => Err(StartError::NoSuchUser),
            ReserveAnswer::LimitReached { live, max } => {
                self.deps.metrics.limit_hit("bots_per_user");
                Err(StartError::LimitReached { live, max })
            }
            ReserveAnswer::AlreadyLive { meeting } => Err(StartError::AlreadyLive { meeting }),
        }
    }

    /// Keeps the wish that bots leave and tells them; the supervisor helps those that do not.
    pub async fn stop(&self, user: UserId, target: BotTarget) -> Result<StopAnswer, Error> {
        if !nameable(&target) {
            return Ok(StopAnswer::NotFound);
        }
        let now = self.deps.clock.now();
        let answer = self.deps.store.wish_stop(user, target, "user", now).await?;
        failpoint::hit("bots.stop_wished");
        if let StopAnswer::Wished(records) = &answer {
            for record in records {
                self.announcer.command_leave(record);
            }
            self.announcer.wake(SUPERVISE_KIND, records.len());
        }
        Ok(answer)
    }

    /// Keeps a new configuration under the next version and tells the bot.
    pub async fn configure(
        &self,
        user: UserId,
        target: BotTarget,
        change: ConfigChange,
    ) -> Result<ConfigAnswer, Error> {
        let problems = check_config(change.language.as_deref(), change.task.as_deref());
        if !problems.is_empty() {
            return Err(Error::Invalid(problems));
        }
        if !nameable(&target) {
            return Ok(ConfigAnswer::NotFound);
        }
        let now = self.deps.clock.now();
        let answer = self.deps.store.wish_config(user, target, change, now).await?;
        if let ConfigAnswer::Wished(record) = &answer {
            self.announcer.command_reconfigure(record);
        }
        Ok(answer)
    }

    /// A user's meetings, newest first.
    pub async fn meetings(
        &self,
        user: UserId,
        filter: MeetingFilter,
        page: MeetingPage,
    ) -> Result<Vec<MeetingRow>, Error> {
        let rows_max = page.rows_max.clamp(1, MEETINGS_PAGE_ROWS_MAX);
        let page = MeetingPage { rows_max, ..page };
        Ok(self.deps.store.meetings(user, filter, page).await?)
    }

    pub async fn meeting(
        &self,
        user: UserId,
        target: BotTarget,
    ) -> Result<Option<MeetingRow>, Error> {
        if !nameable(&target) {
            return Ok(None);
        }
        Ok(self.deps.store.meeting(user, target).await?)
    }

    /// Merges members into the data of a meeting. `None` if there is no such meeting.
    pub async fn merge_data(
        &self,
        user: UserId,
        target: BotTarget,
        members: Map<String, Value>,
    ) -> Result<Option<MeetingRow>, Error> {
        if !nameable(&target) {
            return Ok(None);
        }
        let text = Value::Object(members.clone()).to_string();
        if text.len() > MEETING_DATA_BYTES_MAX {
            let (bytes, bytes_max) = (text.len(), MEETING_DATA_BYTES_MAX);
            return Err(Error::TooLarge { field: "data", bytes, bytes_max });
        }
        Json::parse(&text)
            .map_err(|problem| invalid(FieldError::new("data", problem.to_string())))?;
        let now = self.deps.clock.now();
        Ok(self.deps.store.merge_meeting_data(user, target, members, now).await?)
    }

    /// Deletes what was said in a finished meeting and what could name it.
    pub async fn anonymise(
        &self,
        user: UserId,
        target: BotTarget,
    ) -> Result<AnonymiseAnswer, Error> {
        if !nameable(&target) {
            return Ok(AnonymiseAnswer::NotFound);
        }
        let transcripts = &self.deps.transcripts;
        // Read before, because afterwards the meeting cannot be found by its address.
        let traces = transcripts.traces(user, target.clone()).await?;
        let now = self.deps.clock.now();
        let answer = self.deps.store.anonymise_meeting(user, target, now).await?;
        if let (AnonymiseAnswer::Done, Some(traces)) = (&answer, traces) {
            transcripts.forget(&traces).await;
        }
        Ok(answer)
    }
}

impl std::fmt::Debug for Bots {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Bots").finish_non_exhaustive()
    }
}

fn invalid(problem: FieldError) -> Error {
    Error::Invalid(vec![problem])
}

/// Whether anything can have this name. PostgreSQL cannot even be asked for a text with NUL in it.
pub(crate) fn nameable(target: &BotTarget) -> bool {
    match target {
        BotTarget::Meeting(_) => true,
        BotTarget::Address { native_id, .. } => {
            native_id.len() <= NATIVE_ID_BYTES_MAX && !native_id.chars().any(char::is_control)
        }
    }
}
