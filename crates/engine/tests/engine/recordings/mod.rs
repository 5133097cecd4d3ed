//! Recordings over a real database, with a clock that stands still and an outside that does what a
//! test tells it.

mod consent;
mod crash;
mod multitrack;
mod outside;
mod poll;
mod races;
mod seed_000;
mod service;
mod stepped;
mod steps;
mod trouble;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use roundsman_bus::{BusLimits, LocalBus};
use roundsman_core::Timestamp;
use roundsman_core::bots::{MeetingId, MeetingTokens};
use roundsman_core::jobs::{Job, JobState, Json, KindSpec, NewJob, Outcome, Role};
use roundsman_core::ports::{
    BotTarget, Bus, Clock, CommitAnswer, EffectStore, OpenAnswer, PresenceStore, RecordingStore,
    Scope, TranscriptStore, UserStore,
};
use roundsman_core::presence::{
    Look, LookReport, NewPresenceMeeting, Participant, PresenceRules, RoomName,
};
use roundsman_core::recordings::{
    Announcement, POLL_KIND, PROCESS_KIND, RECORDING_ENTITY, Recording, RecordingId, RecordingKind,
    RecordingStatus, SpokenSegment, Via, session_uid,
};
use roundsman_core::transcripts::{FilterConfig, TranscriptionFilter, in_order};
use roundsman_core::users::{NewUser, UserId};
use roundsman_engine::jobs::{Handler, HandlerResult, JobContext, Worker, periodic_wish};
use roundsman_engine::presence::poll_spec;
use roundsman_engine::recordings::{
    AnnounceReply, RecordingOptions, RecordingWork, Recordings, recording_specs,
};
use roundsman_engine::transcripts::{TranscriptLimits, Transcripts, TranscriptsDeps};
use tokio_util::sync::CancellationToken;

use self::outside::Outside;
use self::stepped::SteppedRecordings;
use self::steps::Steps;
use crate::backend::Backend;
use crate::flaky::FlakyStore;
use crate::support::{World, secs, until, until_running};

const ROOM: &str = "daily-room";
/// The lease of a recording, and a little more.
const LEASE_OVER: Duration = Duration::from_secs(601);
/// The longest that a try waits for the next.
const BACKOFF_MAX: Duration = Duration::from_secs(3600);
const AT_ONCE_MAX: usize = 20;
const ATTEMPTS_MAX: u32 = 4;

/// Everything about recordings over one fresh database, with one user.
struct RecordingWorld {
    world: World,
    outside: Arc<Outside>,
    steps: Arc<Steps>,
    work: RecordingWork,
    recordings: Recordings,
    worker: Arc<Worker>,
    people: Arc<Mutex<Vec<Participant>>>,
    user: UserId,
    folder: tempfile::TempDir,
}

impl RecordingWorld {
    async fn new(backend: Backend) -> Self {
        Self::with(backend, |_| {}).await
    }

    async fn with(backend: Backend, change: impl FnOnce(&mut RecordingWork)) -> Self {
        let specs = recording_specs(AT_ONCE_MAX).into_iter().chain([poll_spec(4)]).collect();
        let world = World::on(backend, specs).await;
        let steps = Arc::new(Steps::default());
        let outside = Arc::new(Outside::new(steps.clone()));
        let inner = world.store.clone();
        let folder = tempfile::tempdir().unwrap();
        let mut options = RecordingOptions::new(folder.path().to_owned(), true);
        (options.attempts_max, options.at_once_max) = (ATTEMPTS_MAX, AT_ONCE_MAX);
        let mut work = RecordingWork {
            store: world.store.clone(),
            recordings: Arc::new(SteppedRecordings { inner, steps: steps.clone() }),
            clock: world.clock.clone(),
            random: world.random.clone(),
            wakes: world.wakes.clone(),
            metrics: world.metrics.clone(),
            transcripts: transcripts(&world),
            provider: Some(outside.clone()),
            fetcher: outside.clone(),
            media: outside.clone(),
            transcriber: Some(outside.clone()),
            options,
        };
        change(&mut work);
        let people = Arc::default();
        let worker = start(&world, &work, &people);
        let recordings = Recordings::new(&work);
        let user = new_user(&world, "ada@example.org").await;
        RecordingWorld { world, outside, steps, work, recordings, worker, people, user, folder }
    }

    /// A process that hangs or died: nothing of it moves any more, and when its lease is over another
    /// one takes its place.
    async fn die(&mut self) {
        self.world.clock.advance(LEASE_OVER);
        // A dead process holds no files.
        self.worker.keep_tick().await.unwrap();
        until_running(&self.worker, 0).await;
        self.take_over().await;
    }

    /// Another process, while the first one hangs.
    async fn take_over(&mut self) -> Arc<Worker> {
        self.steps.live_again();
        self.world.sweeper().tick().await.unwrap();
        // What is tried without a limit waits after a crash.
        self.world.clock.advance(BACKOFF_MAX);
        let new = self.another_worker();
        std::mem::replace(&mut self.worker, new)
    }

    /// Runs every job that is due, and those that become due by it.
    async fn run_due(&self) {
        for _ in 0..2000 {
            self.worker.claim_tick().await.unwrap();
            if self.worker.running_count() == 0 {
                return;
            }
            until_running(&self.worker, 0).await;
            self.worker.settle_tick().await.unwrap();
        }
        panic!("there is always more to do");
    }

    /// Lets time pass in steps of a minute, with every job run when it is due.
    async fn pass(&self, time: Duration) {
        for _ in 0..time.as_secs().div_ceil(60) {
            self.world.clock.advance(secs(60));
            self.run_due().await;
        }
    }

    /// Lets time pass at once, and then runs what is due.
    async fn jump(&self, time: Duration) {
        self.world.clock.advance(time);
        self.run_due().await;
    }

    /// Begins what is due, and waits until a step of this name is waited for.
    async fn begin_and_wait_at(&self, name: &'static str) {
        self.worker.claim_tick().await.unwrap();
        until(name, || self.steps.waiting(name) > 0).await;
    }

    /// A meeting that began now, seen with whoever was said to be there.
    async fn meeting(&self, room: &str) -> MeetingId {
        let wish = NewPresenceMeeting {
            user_id: self.user,
            room: RoomName::new(room).unwrap(),
            room_url: None,
            schedule: None,
        };
        let opened = self.world.store.open_presence(wish, self.world.clock.now()).await.unwrap();
        let OpenAnswer::Opened(meeting) = opened else { panic!("{opened:?}") };
        self.run_due().await;
        meeting.id
    }

    /// Somebody is in the meetings that are made from now on.
    fn joins(&self, session_id: &str, name: Option<&str>) {
        let participant = Participant {
            session_id: session_id.to_owned(),
            user_id: None,
            user_name: name.map(str::to_owned),
            joined_at: self.world.clock.now(),
        };
        self.people.lock().unwrap().push(participant);
    }

    /// A recording that began now, with one thing said in it.
    fn recorded(&self, id: &str) -> Announcement {
        let id = RecordingId::new(id).unwrap();
        self.outside.says(&id, "", &format!("0-1000 in {}", id.as_str()));
        Announcement {
            id,
            room: RoomName::new(ROOM).unwrap(),
            kind: RecordingKind::Cloud,
            started_at: self.world.clock.now(),
            duration_ms: 5000,
            tracks: Vec::new(),
            via: Via::Event,
        }
    }

    /// The provider's event about it arrives.
    async fn announce(&self, announcement: &Announcement) -> AnnounceReply {
        self.recordings.announce(announcement.clone()).await.unwrap()
    }

    /// Reads the provider's list, and does all that follows.
    async fn poll(&self) {
        self.wish_poll().await;
        self.run_due().await;
    }

    async fn wish_poll(&self) {
        self.wish(periodic_wish(POLL_KIND, self.now())).await;
    }

    fn now(&self) -> Timestamp {
        self.world.clock.now()
    }

    /// Another process on the same database.
    fn another_worker(&self) -> Arc<Worker> {
        start(&self.world, &self.work, &self.people)
    }

    async fn wish(&self, wish: NewJob) {
        self.world.enqueue(wish).await;
    }

    async fn recording(&self, id: &str) -> Recording {
        let id = RecordingId::new(id).unwrap();
        let found = self.world.store.recording(Scope::All, id).await.unwrap();
        found.expect("the recording exists")
    }

    async fn status(&self, id: &str) -> RecordingStatus {
        self.recording(id).await.status
    }

    /// The transcript of a recording; fails if it was not saved exactly once.
    async fn spoken(&self, id: &str) -> Vec<SpokenSegment> {
        let recording = self.recording(id).await;
        let store = &self.world.store;
        let log = store.transitions(RECORDING_ENTITY.to_owned(), recording.no).await.unwrap();
        let completed = RecordingStatus::Completed.as_str();
        let saved = log.iter().filter(|step| step.to_state == completed).count();
        assert_eq!(saved, 1, "{id} was saved: {log:?}");
        let (meeting, uid) = (recording.meeting_id.unwrap(), session_uid(&recording.id));
        let found = store.transcript(self.user, BotTarget::Meeting(meeting), None).await.unwrap();
        let mut lines = found.expect("the meeting is theirs").lines;
        lines.retain(|line| line.segment.key.session_uid.as_deref() == Some(&uid));
        assert_eq!(lines.len(), recording.segments as usize);
        assert!(lines.iter().all(|line| line.session_start == Some(recording.started_at)));
        let spoken = in_order(lines).into_iter().map(|line| SpokenSegment {
            start_ms: line.segment.start_ms,
            end_ms: line.segment.content.end_ms,
            text: line.segment.content.text,
            speaker: line.segment.content.speaker,
            language: line.segment.content.language,
        });
        spoken.collect()
    }

    /// The same, in short.
    async fn said(&self, id: &str) -> Vec<(i64, i64, Option<String>, String)> {
        let spoken = self.spoken(id).await.into_iter();
        spoken.map(|s| (s.start_ms, s.end_ms, s.speaker, s.text)).collect()
    }

    /// Checks that a recording made by [`recorded`](Self::recorded) was processed, once.
    async fn assert_done(&self, id: &str) {
        let said = vec![(0, 1000, None, format!("in {id}"))];
        assert_eq!(self.said(id).await, said);
        let recording = self.recording(id).await;
        assert_eq!(recording.status, RecordingStatus::Completed);
        assert_eq!((recording.segments, recording.media.len()), (1, 1));
    }

    /// The jobs that process recordings.
    async fn jobs(&self) -> Vec<Job> {
        self.world.all_jobs(Some(PROCESS_KIND)).await
    }

    fn state_of(&self, job: &Job) -> JobState {
        job.state(self.world.clock.now())
    }

    /// The value of a counter without labels.
    fn counted(&self, name: &str) -> u64 {
        let text = self.world.metrics.encode();
        let line = text.lines().find_map(|line| line.strip_prefix(&format!("{name}_total ")));
        line.map_or(0, |value| value.parse().unwrap())
    }

    /// What every test ends with: the database is sound, and no files are left over.
    async fn check(&self) {
        self.world.check().await;
        let left = std::fs::read_dir(self.folder.path()).unwrap().count();
        assert_eq!(left, 0, "work folders are left");
    }
}

fn start(
    world: &World,
    work: &RecordingWork,
    people: &Arc<Mutex<Vec<Participant>>>,
) -> Arc<Worker> {
    let looker = Looker { store: world.store.clone(), people: people.clone() };
    let mut handlers = work.handlers();
    handlers.push(Arc::new(looker));
    world.worker_with(handlers, |options| options.roles = vec![Role::Worker, Role::Scheduler])
}

/// Looks at rooms, and sees in each of them the same people.
struct Looker {
    store: Arc<FlakyStore>,
    people: Arc<Mutex<Vec<Participant>>>,
}

#[async_trait]
impl Handler for Looker {
    fn spec(&self) -> KindSpec {
        poll_spec(4)
    }

    async fn run(&self, context: JobContext) -> HandlerResult {
        let meeting = context.job.key.as_ref().unwrap().as_str().parse().unwrap();
        let now = context.job.run_at;
        let people = self.people.lock().unwrap().clone();
        let report = LookReport {
            no: context.lease.lease_no.get(),
            began_at: now,
            look: Look::Seen(people),
            hints: Vec::new(),
        };
        let rules = PresenceRules::default();
        let meeting = MeetingId::new(meeting);
        let written = self.store.commit_look(meeting, report, rules, context.lease, now).await;
        let written = written.unwrap();
        assert!(!matches!(written, CommitAnswer::LeaseLost | CommitAnswer::NoSuchMeeting));
        Outcome::Done { result: Json::null() }.into()
    }
}

/// Lets a worker end what it has begun.
async fn ends(worker: &Worker) {
    until_running(worker, 0).await;
    worker.settle_tick().await.unwrap();
}

/// Where listeners hear what was said.
fn transcripts(world: &World) -> Transcripts {
    let bus: Arc<dyn Bus> =
        Arc::new(LocalBus::new(&BusLimits::default(), &CancellationToken::new()));
    Transcripts::new(TranscriptsDeps {
        store: world.store.clone(),
        clock: world.clock.clone(),
        random: world.random.clone(),
        bus,
        cache: None,
        metrics: world.metrics.clone(),
        tokens: MeetingTokens::new(b"a key for tests"),
        filter: Arc::new(TranscriptionFilter::new(FilterConfig::default()).unwrap()),
        limits: TranscriptLimits::default(),
        tasks: world.tasks.clone(),
    })
}

async fn new_user(world: &World, email: &str) -> UserId {
    let user =
        NewUser { email: email.to_owned(), name: None, image_url: None, max_concurrent_bots: 1 };
    world.store.find_or_create_user(user, world.clock.now()).await.unwrap().0.id
}
