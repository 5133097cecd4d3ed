//! The real store with faults that a test switches on: a database that is away, answers that are
//! lost after the work was done, writes that are refused, calls that hang.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use roundsman_core::Timestamp;
use roundsman_core::alarms::{Alarm, AlarmName, AlarmWish};
use roundsman_core::audits::{
    Audit, AuditId, AuditReport, NewAudit, NewRecurring, Recurring, RecurringChange, RecurringId,
};
use roundsman_core::bots::{BotRecord, BotStatus, ConnectionId, MeetingId, NewBot, WorkloadId};
use roundsman_core::effects::{Effects, Frame, LoggedTransition, Violation, WebhookEvent};
use roundsman_core::jobs::{
    Batch, BatchId, Gate as JobGate, GateChange, GateName, Job, JobId, KindName, LeaseOwner,
    LeaseRef, NewBatch, NewJob, OnFailure, RunningJob, Schedule, ScheduleChange, ScheduleId,
    ScheduleSpec, Settle, Settled,
};
use roundsman_core::ports::{
    AfterAnswer, AlarmStore, AnnounceAnswer, Announced, AnonymiseAnswer, AppendAnswer, AuditFilter,
    AuditStore, BatchAnswer, BatchStore, BeatAnswer, BeginAnswer, BotBeat, BotHappened, BotStore,
    BotSweep, BotTarget, BulkStore, CancelAnswer, ChangeAnswer, ChangeRecurringAnswer, ClaimAnswer,
    ClaimRequest, CommitAnswer, CompactAnswer, ConfigAnswer, ConfigChange, CreateAuditAnswer,
    CreateRecurringAnswer, Database, DeadLetter, DeleteAnswer, DeliveryEntry, DueAnswer,
    EffectStore, EndAnswer, EnqueueAnswer, EnqueueRequest, EventAnswer, FinishAnswer, Fired,
    GateStore, Heartbeat, HeartbeatAnswer, IdempotencyKey, InboxEvent, InboxFilter, JobStore,
    KeepPresenceAnswer, KeptPresence, KeyStore, KindDepth, ListFilter, ListPage, LiveMeeting,
    MeetingFilter, MeetingPage, MeetingRow, MessageAnswer, NewDeadLetter, NewInboxEvent,
    NewMessage, NewShare, NewSnapshot, OpenAnswer, OpenPresence, OpenRoomAnswer, PresenceCounts,
    PresenceFilter, PresencePage, PresencePrune, PresenceStore, ProcessStart, PruneReport,
    PruneRequest, Rearmed, RecordingFilter, RecordingStore, Rename, ReprioritiseAnswer,
    ReserveAnswer, RetryAnswer, Rewritten, RoomCounts, RoomStore, RoomTail, RuntimeNote,
    ScheduleStore, Scope, SearchHit, SearchPage, SessionFilter, SettleRequest, SettledSegments,
    Share, StopAnswer, Store, StoreError, StoredRoom, SweepReport, SweepRequest, TaskChange,
    TaskFilter, TaskStore, Transcript, TranscriptPrune, TranscriptStore, UserStore, WebhookStore,
};
use roundsman_core::presence::{
    LookReport, NewPresenceMeeting, PresenceMeeting, PresenceRules, PresenceSession, RoomName,
};
use roundsman_core::recordings::{
    Announcement, Consent, Media, Recording, RecordingId, RecordingStatus, SpokenSegment,
};
use roundsman_core::rooms::{
    AppendedUpdate, NewUpdate, ProjectId, Room, RoomToken, RoomTokenId, RoomTokenWish, RoomVersion,
};
use roundsman_core::tasks::{NewTask, Task, TaskId, TaskLook, TaskStatus};
use roundsman_core::transcripts::{Line, SearchQuery, SeqRange, SpeakerEvent};
use roundsman_core::users::{ApiToken, NewToken, NewUser, TokenId, User, UserId};
use roundsman_core::webhooks::{Delivery, Endpoint, EndpointChange, StoredEvent};
use serde_json::{Map, Value};
use tokio::sync::Semaphore;

/// What goes wrong with every call of one method.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Fault {
    /// The database cannot be reached; nothing happens.
    Down,
    /// The work is done and committed, but the answer does not arrive.
    AnswerLost,
    /// The database refuses for good what mentions this text, and does the rest.
    RefusesMentionOf(&'static str),
    /// Whoever mentions this text meets a mistake in the program; the rest is done.
    PanicsAtMentionOf(&'static str),
}

/// A call that is held back after its work was done.
pub(crate) struct Gate {
    reached: Semaphore,
    resume: Semaphore,
}

impl Gate {
    /// Waits until a call has done its work and hangs here.
    pub(crate) async fn reached(&self) {
        self.reached.acquire().await.unwrap().forget();
    }

    /// Lets one call go on.
    pub(crate) fn open(&self) {
        self.resume.add_permits(1);
    }
}

/// Delegates to a real store, except where a fault is on.
pub(crate) struct FlakyStore {
    inner: Arc<dyn Store>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    faults: BTreeMap<&'static str, Fault>,
    gates: BTreeMap<&'static str, Arc<Gate>>,
    calls: BTreeMap<&'static str, usize>,
    vexa_keys: BTreeMap<String, UserId>,
    steps_aside: bool,
}

/// Lets whoever decides about it let somebody else go on first.
pub(crate) async fn step_aside() {
    let mut is_back = false;
    std::future::poll_fn(|context| {
        if std::mem::replace(&mut is_back, true) {
            return std::task::Poll::Ready(());
        }
        context.waker().wake_by_ref();
        std::task::Poll::Pending
    })
    .await;
}

impl FlakyStore {
    pub(crate) fn new(inner: Arc<dyn Store>) -> Self {
        FlakyStore { inner, state: Mutex::default() }
    }

    pub(crate) fn set(&self, method: &'static str, fault: Fault) {
        self.state.lock().unwrap().faults.insert(method, fault);
    }

    pub(crate) fn mend(&self) {
        self.state.lock().unwrap().faults.clear();
    }

    /// A key as an existing Vexa database has them; no SQLite file is one.
    pub(crate) fn set_vexa_key(&self, key: &str, user: Option<UserId>) {
        let mut state = self.state.lock().unwrap();
        match user {
            Some(user) => state.vexa_keys.insert(key.to_owned(), user),
            None => state.vexa_keys.remove(key),
        };
    }

    /// Calls of `method` so far, whatever became of them.
    pub(crate) fn calls(&self, method: &'static str) -> usize {
        self.state.lock().unwrap().calls.get(method).copied().unwrap_or(0)
    }

    /// From now on calls of `method` hang after their work, until [`Gate::open`].
    pub(crate) fn hold(&self, method: &'static str) -> Arc<Gate> {
        let gate = Arc::new(Gate { reached: Semaphore::new(0), resume: Semaphore::new(0) });
        self.state.lock().unwrap().gates.insert(method, gate.clone());
        gate
    }

    pub(crate) fn hold_no_more(&self) {
        self.state.lock().unwrap().gates.clear();
    }

    /// From now on whoever calls steps aside when the work is done.
    pub(crate) fn step_aside_after_every_call(&self) {
        self.state.lock().unwrap().steps_aside = true;
    }

    fn before(&self, method: &'static str, request: impl Fn() -> String) -> Result<(), StoreError> {
        let fault = {
            let mut state = self.state.lock().unwrap();
            *state.calls.entry(method).or_default() += 1;
            state.faults.get(method).copied()
        };
        match fault {
            Some(Fault::Down) => Err(StoreError::Unavailable("a test took it away".into())),
            Some(Fault::RefusesMentionOf(text)) if request().contains(text) => {
                Err(StoreError::Failed("a test refuses it".into()))
            }
            Some(Fault::PanicsAtMentionOf(text)) if request().contains(text) => {
                panic!("a mistake that a test has made")
            }
            _ => Ok(()),
        }
    }

    async fn after(&self, method: &'static str) -> Result<(), StoreError> {
        let (fault, gate, steps_aside) = {
            let state = self.state.lock().unwrap();
            let fault = state.faults.get(method).copied();
            (fault, state.gates.get(method).cloned(), state.steps_aside)
        };
        if steps_aside {
            step_aside().await;
        }
        if let Some(gate) = gate {
            gate.reached.add_permits(1);
            gate.resume.acquire().await.unwrap().forget();
        }
        match fault {
            Some(Fault::AnswerLost) => Err(StoreError::Unavailable("the answer was lost".into())),
            _ => Ok(()),
        }
    }
}

macro_rules! delegate {
    ($port:ident $({ $($extra:item)* })? $(
        $method:ident($($name:ident: $kind:ty),*) -> $answer:ty;
    )*) => {
        #[async_trait]
        impl $port for FlakyStore {
            $(async fn $method(&self, $($name: $kind),*) -> Result<$answer, StoreError> {
                self.before(stringify!($method), || format!("{:?}", ($(&$name,)*)))?;
                let answer = $port::$method(&*self.inner, $($name),*).await?;
                self.after(stringify!($method)).await?;
                Ok(answer)
            })*
            $($($extra)*)?
        }
    };
}

delegate! { Database
    {
        fn describe(&self) -> String {
            self.inner.describe()
        }

        async fn close(&self) {
            self.inner.close().await;
        }
    }
    now() -> Timestamp;
    ping() -> ();
}

delegate! { JobStore
    enqueue(request: EnqueueRequest, now: Timestamp) -> EnqueueAnswer;
    claim(request: ClaimRequest, now: Timestamp) -> ClaimAnswer;
    heartbeat(beats: Vec<Heartbeat>, now: Timestamp) -> Vec<HeartbeatAnswer>;
    settle(settles: Vec<Settle>, jitter: u64, now: Timestamp) -> Vec<Settled>;
    sweep(request: SweepRequest, now: Timestamp) -> SweepReport;
    begin_process(jitter: u64, now: Timestamp) -> ProcessStart;
    keep_process(owner: LeaseOwner, now: Timestamp) -> ();
    cancel(scope: Scope, id: JobId, now: Timestamp) -> CancelAnswer;
    retry(scope: Scope, id: JobId, now: Timestamp) -> RetryAnswer;
    job(scope: Scope, id: JobId) -> Option<Job>;
    jobs(scope: Scope, filter: ListFilter, page: ListPage, now: Timestamp) -> Vec<Job>;
    leases(scope: Scope, page: ListPage) -> Vec<RunningJob>;
    prune(request: PruneRequest) -> PruneReport;
    depths(now: Timestamp) -> Vec<KindDepth>;
}

delegate! { UserStore
    {
        async fn user_of_vexa_key(&self, key: String) -> Result<Option<UserId>, StoreError> {
            self.before("user_of_vexa_key", || key.clone())?;
            Ok(self.state.lock().unwrap().vexa_keys.get(&key).copied())
        }
    }
    find_or_create_user(user: NewUser, now: Timestamp) -> (User, bool);
    user(id: UserId) -> Option<User>;
    user_by_email(email: String) -> Option<User>;
    users(skip: u32, rows_max: u32) -> Vec<User>;
    update_user(user: User) -> Option<User>;
    create_token(token: NewToken, now: Timestamp) -> Option<ApiToken>;
    token(id: TokenId) -> Option<ApiToken>;
    tokens_of(user: UserId) -> Vec<ApiToken>;
    revoke_token(id: TokenId, cause: &'static str, now: Timestamp) -> bool;
    touch_tokens(used: Vec<(TokenId, Timestamp)>) -> ();
}

delegate! { EffectStore
    commit(guard: Option<LeaseRef>, effects: Effects, now: Timestamp) -> bool;
    frames(stream: String, after_seq: i64, rows_max: u32) -> Vec<Frame>;
    transitions(entity: String, entity_id: i64) -> Vec<LoggedTransition>;
    webhook_events(after_id: i64, rows_max: u32) -> Vec<(i64, WebhookEvent)>;
    check() -> Vec<Violation>;
}

delegate! { BotStore
    reserve_bot(bot: NewBot, now: Timestamp) -> ReserveAnswer;
    bot(meeting: MeetingId) -> Option<BotRecord>;
    bot_by_connection(connection: ConnectionId) -> Option<BotRecord>;
    bot_event(happened: BotHappened, guard: Option<LeaseRef>, now: Timestamp) -> EventAnswer;
    bot_heartbeats(beats: Vec<BotBeat>, now: Timestamp) -> Vec<BeatAnswer>;
    wish_stop(user: UserId, target: BotTarget, by: &'static str, now: Timestamp) -> StopAnswer;
    wish_config(user: UserId, target: BotTarget, change: ConfigChange, now: Timestamp) -> ConfigAnswer;
    bot_launched(workload: WorkloadId, handle: String, guard: LeaseRef) -> bool;
    next_attempt(workload: WorkloadId, guard: LeaseRef) -> Option<BotRecord>;
    note_runtime(notes: Vec<RuntimeNote>, misses_max: u32, now: Timestamp) -> Vec<Announced>;
    sweep_bots(request: BotSweep, now: Timestamp) -> Vec<Announced>;
    adopt_meetings(rows_max: u32, now: Timestamp) -> u32;
    live_bots(after: Option<MeetingId>, rows_max: u32) -> Vec<BotRecord>;
    live_workloads(workloads: Vec<WorkloadId>) -> Vec<WorkloadId>;
    meetings(user: UserId, filter: MeetingFilter, page: MeetingPage) -> Vec<MeetingRow>;
    meeting(user: UserId, target: BotTarget) -> Option<MeetingRow>;
    merge_meeting_data(user: UserId, target: BotTarget, members: Map<String, Value>, now: Timestamp)
        -> Option<MeetingRow>;
    anonymise_meeting(user: UserId, target: BotTarget, now: Timestamp) -> AnonymiseAnswer;
    finish_meeting(meeting: MeetingId, guard: LeaseRef, now: Timestamp) -> bool;
    bot_counts() -> Vec<(BotStatus, u64)>;
}

delegate! { WebhookStore
    endpoint(user: UserId) -> Option<Endpoint>;
    set_endpoint(user: UserId, change: EndpointChange, now: Timestamp)
        -> Option<(User, Option<Endpoint>)>;
    webhook_event(event_id: String) -> Option<StoredEvent>;
    log_delivery(event_id: String, entry: DeliveryEntry, guard: LeaseRef, now: Timestamp) -> bool;
    deliveries(user: UserId, before: Option<i64>, rows_max: u32) -> Vec<(StoredEvent, Vec<Delivery>)>;
    replay_event(user: UserId, event_id: String, now: Timestamp) -> bool;
    prune_webhook_events(before: Timestamp, rows_max: u32) -> u64;
}

delegate! { TranscriptStore
    take_messages(messages: Vec<NewMessage>, now: Timestamp) -> Vec<MessageAnswer>;
    keep_speaker_events(events: Vec<(Option<MeetingId>, SpeakerEvent)>, now: Timestamp) -> ();
    live_meetings(after: Option<MeetingId>, rows_max: u32) -> Vec<LiveMeeting>;
    live_lines(meeting: MeetingId) -> Vec<Line>;
    settle_segments(meeting: MeetingId, request: SettleRequest, guard: Option<LeaseRef>, now: Timestamp)
        -> SettledSegments;
    transcript(user: UserId, target: BotTarget, since: Option<i64>) -> Option<Transcript>;
    stream_ends(meetings: Vec<MeetingId>) -> Vec<i64>;
    search_transcripts(user: UserId, query: SearchQuery, page: SearchPage) -> Vec<SearchHit>;
    index_transcriptions(rows_max: u32) -> u32;
    rename_speaker(user: UserId, target: BotTarget, rename: Rename, now: Timestamp) -> Option<Rewritten>;
    delete_transcript(user: UserId, target: BotTarget, now: Timestamp) -> Option<Rewritten>;
    share_transcript(user: UserId, target: BotTarget, share: NewShare, now: Timestamp) -> Option<Share>;
    share(secret_hash: [u8; 32], now: Timestamp) -> Option<Share>;
    shares(user: UserId, meeting: MeetingId, now: Timestamp) -> Vec<Share>;
    end_share(user: UserId, share: i64) -> bool;
    frames_published(ranges: Vec<(MeetingId, SeqRange)>) -> ();
    unpublished_frames(from: Timestamp, until: Timestamp, rows_max: u32) -> Vec<Frame>;
    put_dead_letters(letters: Vec<NewDeadLetter>, now: Timestamp) -> ();
    dead_letters(before: Option<i64>, rows_max: u32) -> Vec<DeadLetter>;
    dead_letter(id: i64) -> Option<DeadLetter>;
    delete_dead_letter(id: i64) -> bool;
    prune_transcripts(request: TranscriptPrune) -> u64;
    live_segment_count() -> u64;
}

delegate! { PresenceStore
    open_presence(wish: NewPresenceMeeting, now: Timestamp) -> OpenAnswer;
    presence_meeting(scope: Scope, meeting: MeetingId) -> Option<PresenceMeeting>;
    presence_meetings(scope: Scope, filter: PresenceFilter, page: PresencePage)
        -> Vec<PresenceMeeting>;
    presence_sessions(meeting: MeetingId, filter: SessionFilter) -> Vec<PresenceSession>;
    meetings_of_rooms(rooms: Vec<RoomName>) -> Vec<Option<MeetingId>>;
    commit_look(
        meeting: MeetingId, report: LookReport, rules: PresenceRules, guard: LeaseRef, now: Timestamp
    ) -> CommitAnswer;
    judge_presence(meeting: MeetingId, rules: PresenceRules, guard: LeaseRef, now: Timestamp)
        -> CommitAnswer;
    end_presence(scope: Scope, meeting: MeetingId, now: Timestamp) -> EndAnswer;
    open_presences(after: Option<MeetingId>, rows_max: u32) -> Vec<OpenPresence>;
    empty_presences(after: Option<MeetingId>, rows_max: u32) -> Vec<MeetingId>;
    note_joining(meeting: MeetingId, connection: String, until: Timestamp) -> bool;
    end_joining(meeting: MeetingId, connection: String) -> bool;
    keep_inbox(events: Vec<NewInboxEvent>, now: Timestamp) -> Vec<bool>;
    inbox(filter: InboxFilter, before: Option<i64>, rows_max: u32) -> Vec<InboxEvent>;
    inbox_event(id: i64) -> Option<InboxEvent>;
    note_domain_look(began_at: Timestamp) -> ();
    last_domain_look() -> Option<Timestamp>;
    prune_presence(request: PresencePrune) -> u64;
    presence_counts() -> PresenceCounts;
}

delegate! { RecordingStore
    announce_recordings(announcements: Vec<Announcement>, now: Timestamp) -> Vec<AnnounceAnswer>;
    known_recordings(ids: Vec<RecordingId>) -> Vec<bool>;
    recording(scope: Scope, id: RecordingId) -> Option<Recording>;
    recordings(scope: Scope, filter: RecordingFilter, before: Option<i64>, rows_max: u32)
        -> Vec<Recording>;
    begin_recording(id: RecordingId, guard: LeaseRef, now: Timestamp) -> BeginAnswer;
    keep_media(id: RecordingId, media: Vec<Media>, guard: LeaseRef, now: Timestamp) -> bool;
    finish_recording(
        id: RecordingId, spoken: Vec<SpokenSegment>, guard: LeaseRef, now: Timestamp
    ) -> FinishAnswer;
    fail_recording(id: RecordingId, error: String, guard: LeaseRef, now: Timestamp) -> bool;
    retry_recordings(scope: Scope, id: Option<RecordingId>, rows_max: u32, now: Timestamp) -> u32;
    set_consent(scope: Scope, meeting: MeetingId, consent: Consent) -> bool;
    consents(meeting: MeetingId) -> Vec<Consent>;
    recordings_to_erase(meeting: MeetingId) -> Vec<Recording>;
    media_erased(id: RecordingId, error: Option<String>, guard: LeaseRef, now: Timestamp) -> bool;
    recording_cursor() -> Option<RecordingId>;
    set_recording_cursor(id: RecordingId, now: Timestamp) -> ();
    recording_counts() -> Vec<(RecordingStatus, u64)>;
}

delegate! { GateStore
    change_gate(name: GateName, change: GateChange, now: Timestamp) -> JobGate;
    gates(names: Vec<GateName>) -> Vec<JobGate>;
    all_gates(after: Option<GateName>, rows_max: u32) -> Vec<JobGate>;
}

delegate! { ScheduleStore
    create_schedule(user: UserId, spec: ScheduleSpec, now: Timestamp) -> Option<Schedule>;
    schedule(scope: Scope, id: ScheduleId) -> Option<Schedule>;
    schedules(scope: Scope, before: Option<ScheduleId>, rows_max: u32) -> Vec<Schedule>;
    change_schedule(scope: Scope, id: ScheduleId, change: ScheduleChange, now: Timestamp)
        -> Option<Schedule>;
    delete_schedule(scope: Scope, id: ScheduleId) -> bool;
    fire_schedule(id: ScheduleId, guard: LeaseRef, now: Timestamp) -> Fired;
}

delegate! { BulkStore
    reprioritise(scope: Scope, id: JobId, priority: i16, now: Timestamp) -> ReprioritiseAnswer;
    delete_job(scope: Scope, id: JobId) -> DeleteAnswer;
    dead_counts() -> Vec<(KindName, u64)>;
    prune_dead(horizons: Vec<(KindName, Timestamp)>, others_before: Timestamp, rows_max: u32) -> u64;
}

delegate! { BatchStore
    enqueue_after(wish: NewJob, after: Vec<JobId>, on_failure: OnFailure, now: Timestamp) -> AfterAnswer;
    waits_for(id: JobId) -> Vec<JobId>;
    create_batch(batch: NewBatch, idempotency: Option<IdempotencyKey>, now: Timestamp) -> BatchAnswer;
    batch(scope: Scope, id: BatchId, now: Timestamp) -> Option<Batch>;
    prune_batches(before: Timestamp, rows_max: u32) -> u64;
}

delegate! { AuditStore
    create_audit(new: NewAudit, unfinished_max: u32, now: Timestamp) -> CreateAuditAnswer;
    audit(scope: Scope, id: AuditId) -> Option<Audit>;
    audits(scope: Scope, filter: AuditFilter, before: Option<AuditId>, rows_max: u32) -> Vec<Audit>;
    audit_report(scope: Scope, id: AuditId) -> Option<AuditReport>;
    audit_screenshot(scope: Scope, id: AuditId) -> Option<Vec<u8>>;
    previous_audit(user: UserId, website_url: String, before: AuditId) -> Option<AuditReport>;
    prune_audits(before: Timestamp, rows_max: u32) -> u64;
    create_recurring(new: NewRecurring, recurring_max: u32, now: Timestamp) -> CreateRecurringAnswer;
    recurring(scope: Scope, id: RecurringId) -> Option<Recurring>;
    recurrings(scope: Scope, before: Option<RecurringId>, rows_max: u32) -> Vec<Recurring>;
    change_recurring(scope: Scope, id: RecurringId, change: RecurringChange, now: Timestamp)
        -> ChangeRecurringAnswer;
    delete_recurring(scope: Scope, id: RecurringId) -> bool;
    start_due_audit(
        id: RecurringId, priority: i16, attempts_max: u32, guard: LeaseRef, now: Timestamp
    ) -> DueAnswer;
}

delegate! { KeyStore
    find_or_create_key(name: &'static str, candidate: Vec<u8>, now: Timestamp) -> Vec<u8>;
}

delegate! { TaskStore
    create_tasks(wishes: Vec<NewTask>, now: Timestamp) -> Vec<Task>;
    task(scope: Scope, id: TaskId) -> Option<Task>;
    tasks_by_id(ids: Vec<TaskId>) -> Vec<Task>;
    task_of_result(result_key: String) -> Option<Task>;
    tasks(scope: Scope, filter: TaskFilter, before: Option<TaskId>, rows_max: u32) -> Vec<Task>;
    change_task(change: TaskChange, now: Timestamp) -> ChangeAnswer;
    task_looks(project: ProjectId, rows_max: u32) -> Vec<TaskLook>;
    tasks_pending(projects: Vec<ProjectId>, count_max: u32) -> Vec<u64>;
    hint_task(service: String, external_task_id: String, now: Timestamp) -> Option<ProjectId>;
    rearm_tasks(after: Option<TaskId>, rows_max: u32, now: Timestamp) -> Rearmed;
    untold_tasks(rows_max: u32) -> Vec<Task>;
    tell_task(id: TaskId, update: Option<NewUpdate>, now: Timestamp) -> Option<AppendedUpdate>;
    prune_tasks(before: Timestamp, rows_max: u32) -> u64;
    task_counts() -> Vec<(TaskStatus, u64)>;
}

delegate! { AlarmStore
    set_alarm(wish: AlarmWish, alarms_max: u32, now: Timestamp) -> bool;
    cancel_alarm(project: ProjectId, name: AlarmName, now: Timestamp) -> bool;
    alarms(project: ProjectId, rows_max: u32) -> Vec<Alarm>;
}

delegate! { RoomStore
    open_room(user: UserId, project: ProjectId, now: Timestamp) -> OpenRoomAnswer;
    room(project: ProjectId) -> Option<Room>;
    rooms(scope: Scope, after: Option<ProjectId>, rows_max: u32) -> Vec<Room>;
    load_room(project: ProjectId) -> Option<StoredRoom>;
    room_updates(project: ProjectId, after_seq: i64, rows_max: u32) -> Option<RoomTail>;
    room_heads(projects: Vec<ProjectId>) -> Vec<Option<i64>>;
    append_updates(updates: Vec<NewUpdate>, now: Timestamp) -> Vec<AppendAnswer>;
    compact_room(project: ProjectId, snapshot: NewSnapshot, guard: LeaseRef, now: Timestamp)
        -> CompactAnswer;
    stale_rooms(before: Timestamp, after: Option<ProjectId>, rows_max: u32) -> Vec<ProjectId>;
    keep_version(project: ProjectId, version: RoomVersion) -> bool;
    room_versions(project: ProjectId, before: Option<i64>, rows_max: u32) -> Vec<RoomVersion>;
    room_version(project: ProjectId, seq: i64) -> Option<RoomVersion>;
    create_room_token(wish: RoomTokenWish, now: Timestamp) -> Option<RoomToken>;
    room_token(id: RoomTokenId) -> Option<RoomToken>;
    room_tokens(project: ProjectId, now: Timestamp, rows_max: u32) -> Vec<RoomToken>;
    extend_room_token(project: ProjectId, id: RoomTokenId, expires_at: Timestamp)
        -> Option<RoomToken>;
    revoke_room_token(project: ProjectId, id: RoomTokenId, now: Timestamp) -> bool;
    kept_presence(project: ProjectId) -> Option<KeptPresence>;
    kept_presence_versions(projects: Vec<ProjectId>) -> Vec<i64>;
    keep_presence(project: ProjectId, from_version: i64, bytes: bytes::Bytes) -> KeepPresenceAnswer;
    prune_rooms(tokens_before: Timestamp, versions_max: u32, rows_max: u32) -> u64;
    room_counts() -> RoomCounts;
}
