//! Short names for what the cases of bots do.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use roundsman_core::Timestamp;
use roundsman_core::bots::{
    BotEvent, BotRecord, BotStatus, BotTimeouts, BotWish, ConnectionId, ExitReport, MeetingId,
    NewBot, Platform, SUPERVISE_KIND, Source, stream_of,
};
use roundsman_core::effects::{Frame, LoggedTransition, NewFrame, WebhookEvent};
use roundsman_core::jobs::{Job, Json, LeaseRef};
use roundsman_core::ports::{
    Announced, BeatAnswer, BotBeat, BotHappened, BotSweep, BotTarget, EventAnswer, ListFilter,
    MeetingFilter, MeetingPage, MeetingRow, ReserveAnswer, Scope,
};
use roundsman_core::users::{NewUser, UserId};

use super::fixture::{Fixture, at_once};
use super::wishes::{TTL, key, kind};

/// The states in which a bot takes a slot.
pub(super) const LIVE: [BotStatus; 4] =
    [BotStatus::Reserved, BotStatus::Starting, BotStatus::Active, BotStatus::Stopping];

/// More bots than any case starts for one user.
pub(super) const PLENTY: i32 = 1_000_000;

pub(super) async fn user_with_limit(fx: &Fixture, name: &str, max: i32) -> UserId {
    let person = NewUser {
        email: format!("{name}@example.org"),
        name: None,
        image_url: None,
        max_concurrent_bots: max,
    };
    let made = fx.store.find_or_create_user(person, fx.now()).await;
    made.expect("find_or_create_user").0.id
}

/// A user who may start as many as the case likes.
pub(super) async fn user(fx: &Fixture, name: &str) -> UserId {
    user_with_limit(fx, name, PLENTY).await
}

pub(super) async fn set_limit(fx: &Fixture, user: UserId, max: i32) {
    let known = fx.store.user(user).await.expect("user").expect("it is there");
    let changed = roundsman_core::users::User { max_concurrent_bots: max, ..known };
    fx.store.update_user(changed).await.expect("update").expect("it is there");
}

/// A bot for a Google Meet, with a connection that no other bot of the test has.
pub(super) fn new_bot(user_id: UserId, native_id: &str) -> NewBot {
    static DRAWN: AtomicU64 = AtomicU64::new(0);
    let number = DRAWN.fetch_add(1, Ordering::Relaxed);
    NewBot {
        user_id,
        platform: Platform::GoogleMeet,
        native_id: native_id.to_owned(),
        connection_id: ConnectionId::from_stored(format!("connection-{number}")),
        language: None,
        task: None,
        wish: BotWish::default(),
    }
}

pub(super) async fn try_reserve(fx: &Fixture, bot: NewBot) -> ReserveAnswer {
    fx.store.reserve_bot(bot, fx.now()).await.expect("reserve_bot")
}

pub(super) async fn reserve_new(fx: &Fixture, bot: NewBot) -> BotRecord {
    match try_reserve(fx, bot).await {
        ReserveAnswer::Reserved(announced) => plain(announced.record),
        other => panic!("expected a reservation, got {other:?}"),
    }
}

pub(super) async fn reserve(fx: &Fixture, user: UserId, native_id: &str) -> BotRecord {
    reserve_new(fx, new_bot(user, native_id)).await
}

/// The callback of a bot that has heartbeats.
pub(super) fn callback(record: &BotRecord, event: BotEvent) -> BotHappened {
    BotHappened {
        workload: record.workload(),
        connection: Some(record.bot.connection_id.clone()),
        event,
        source: Source::Callback,
        beats: true,
    }
}

pub(super) async fn tell(fx: &Fixture, happened: BotHappened) -> EventAnswer {
    fx.store.bot_event(happened, None, fx.now()).await.expect("bot_event")
}

pub(super) async fn happen(fx: &Fixture, record: &BotRecord, event: BotEvent) -> EventAnswer {
    tell(fx, callback(record, event)).await
}

/// Tells of an event and expects that it changed something.
pub(super) async fn change(fx: &Fixture, record: &BotRecord, event: BotEvent) -> BotRecord {
    changed(happen(fx, record, event).await).record
}

pub(super) fn changed(answer: EventAnswer) -> Announced {
    match answer {
        EventAnswer::Changed(announced) => {
            Announced { record: plain(announced.record), frames: announced.frames }
        }
        other => panic!("expected a change, got {other:?}"),
    }
}

pub(super) fn unchanged(answer: EventAnswer) -> BotRecord {
    match answer {
        EventAnswer::Unchanged(record) => plain(*record),
        other => panic!("expected no change, got {other:?}"),
    }
}

pub(super) fn exit(code: i32) -> BotEvent {
    BotEvent::Exited(ExitReport { exit_code: Some(code), ..ExitReport::default() })
}

/// A new bot brought into a state the usual way. Failed ones crashed in their meeting.
pub(super) async fn bot_in(
    fx: &Fixture,
    user: UserId,
    native_id: &str,
    status: BotStatus,
) -> BotRecord {
    let steps = match status {
        BotStatus::Reserved => vec![],
        BotStatus::Starting => vec![BotEvent::Started],
        BotStatus::Active => vec![BotEvent::Joined],
        BotStatus::Stopping => vec![BotEvent::Joined, BotEvent::Leaving],
        BotStatus::Completed => vec![BotEvent::Joined, exit(0)],
        BotStatus::Failed => vec![BotEvent::Joined, exit(1)],
    };
    let mut record = reserve(fx, user, native_id).await;
    for event in steps {
        record = change(fx, &record, event).await;
    }
    assert_eq!(record.status, status);
    record
}

/// Many bots in one state, made by a few callers at once.
pub(super) async fn bots_in(
    fx: &Arc<Fixture>,
    user: UserId,
    prefix: &str,
    count: usize,
    status: BotStatus,
) -> Vec<BotRecord> {
    const CALLERS: usize = 8;
    let callers = (0..CALLERS.min(count)).map(|caller| {
        let (fx, prefix) = (Arc::clone(fx), prefix.to_owned());
        async move {
            let mut made = Vec::new();
            for number in (caller..count).step_by(CALLERS) {
                made.push(bot_in(&fx, user, &format!("{prefix}-{number}"), status).await);
            }
            made
        }
    });
    let mut records: Vec<BotRecord> = at_once(callers).await.into_iter().flatten().collect();
    records.sort_by_key(|record| record.meeting.id);
    records
}

pub(super) async fn find(fx: &Fixture, id: MeetingId) -> Option<BotRecord> {
    fx.store.bot(id).await.expect("bot").map(plain)
}

/// The bot as it is now.
pub(super) async fn look(fx: &Fixture, id: MeetingId) -> BotRecord {
    find(fx, id).await.unwrap_or_else(|| panic!("bot {id} is gone"))
}

/// The same record with its data in one order: a database may order the members of JSON.
pub(super) fn plain(mut record: BotRecord) -> BotRecord {
    record.meeting.data = plain_json(&record.meeting.data);
    record
}

pub(super) fn plain_row(mut row: MeetingRow) -> MeetingRow {
    row.meeting.data = plain_json(&row.meeting.data);
    row
}

pub(super) fn as_row(record: &BotRecord) -> MeetingRow {
    MeetingRow { meeting: record.meeting.clone(), bot: Some(record.bot.clone()) }
}

fn plain_json(json: &Json) -> Json {
    Json::from_stored(json.to_value().to_string())
}

pub(super) fn by_number(id: MeetingId) -> BotTarget {
    BotTarget::Meeting(id)
}

pub(super) fn at_address(native_id: &str) -> BotTarget {
    BotTarget::Address { platform: Platform::GoogleMeet, native_id: native_id.to_owned() }
}

pub(super) fn beat_of(record: &BotRecord) -> BotBeat {
    BotBeat {
        workload: record.workload(),
        connection: record.bot.connection_id.clone(),
        media_progress: None,
        config_applied: None,
    }
}

pub(super) async fn beats(fx: &Fixture, beats: Vec<BotBeat>) -> Vec<BeatAnswer> {
    let count = beats.len();
    let answers = fx.store.bot_heartbeats(beats, fx.now()).await.expect("bot_heartbeats");
    assert_eq!(answers.len(), count, "one answer per beat");
    answers
}

pub(super) async fn beat(fx: &Fixture, beat: BotBeat) -> BeatAnswer {
    beats(fx, vec![beat]).await.remove(0)
}

/// A sweep without limits, by a node that has been serving for ever.
pub(super) fn full_sweep() -> BotSweep {
    BotSweep {
        timeouts: BotTimeouts::default(),
        serving_since: Timestamp::EPOCH,
        runtime_answered: true,
        rows_max: 10_000,
    }
}

pub(super) async fn sweep_with(fx: &Fixture, request: BotSweep) -> Vec<BotRecord> {
    let swept = fx.store.sweep_bots(request, fx.now()).await.expect("sweep_bots");
    swept.into_iter().map(|announced| plain(announced.record)).collect()
}

pub(super) async fn sweep(fx: &Fixture) -> Vec<BotRecord> {
    sweep_with(fx, full_sweep()).await
}

/// Claims the job that looks after a bot.
pub(super) async fn supervise(fx: &Fixture, record: &BotRecord) -> LeaseRef {
    claim_for(fx, SUPERVISE_KIND, record).await
}

/// Claims jobs of a kind until the one of this meeting is found.
pub(super) async fn claim_for(fx: &Fixture, kind_name: &str, record: &BotRecord) -> LeaseRef {
    let wanted = key(&record.meeting.id.to_string());
    let jobs = fx.claim(kind_name, 10_000).await;
    let job = jobs.iter().find(|job| job.facts.key.as_ref() == Some(&wanted));
    job.unwrap_or_else(|| panic!("no {kind_name} of {wanted:?} to claim")).lease_ref()
}

/// Takes every lease there is away.
pub(super) async fn lose_leases(fx: &Fixture) {
    fx.advance(TTL * 2);
    fx.sweep().await;
}

/// The jobs of a kind for one meeting, in whatever state.
pub(super) async fn jobs_of(fx: &Fixture, kind_name: &str, id: MeetingId) -> Vec<Job> {
    let filter = ListFilter {
        kind: Some(kind(kind_name)),
        key: Some(key(&id.to_string())),
        ..ListFilter::default()
    };
    fx.list(Scope::All, filter).await
}

pub(super) async fn log_of(fx: &Fixture, id: MeetingId) -> Vec<LoggedTransition> {
    let log = fx.store.transitions("meeting".to_owned(), id.get()).await;
    log.expect("transitions")
}

/// The states a bot went through, as the log has them.
pub(super) async fn states_of(fx: &Fixture, id: MeetingId) -> Vec<String> {
    let log = log_of(fx, id).await;
    assert!(roundsman_core::effects::replay(&log).is_ok(), "{log:?}");
    log.into_iter().map(|step| step.to_state).collect()
}

pub(super) async fn frames_of(fx: &Fixture, id: MeetingId) -> Vec<Frame> {
    fx.store.frames(stream_of(id), 0, 1000).await.expect("frames")
}

/// What was announced is what was stored last, in its places.
pub(super) async fn assert_announced(
    fx: &Fixture,
    id: MeetingId,
    frames: &[Frame],
    expected: &[NewFrame],
) {
    let stored = frames_of(fx, id).await;
    assert_eq!(stored[stored.len() - frames.len()..], *frames);
    let bodies: Vec<&Json> = frames.iter().map(|frame| &frame.body).collect();
    assert_eq!(bodies, expected.iter().map(|frame| &frame.body).collect::<Vec<_>>());
}

/// All events there are, oldest first.
pub(super) async fn all_events(fx: &Fixture) -> Vec<(i64, WebhookEvent)> {
    fx.store.webhook_events(0, 100_000).await.expect("webhook_events")
}

/// All meetings of a user, newest first.
pub(super) async fn meetings_of(fx: &Fixture, user: UserId) -> Vec<MeetingRow> {
    let page = MeetingPage { before: None, skip: 0, rows_max: 10_000 };
    let rows = fx.store.meetings(user, MeetingFilter::default(), page).await;
    rows.expect("meetings").into_iter().map(plain_row).collect()
}

/// Everything that an operation on bots could have written.
#[derive(Debug, PartialEq)]
pub(super) struct Everything {
    meetings: Vec<MeetingRow>,
    jobs: Vec<Job>,
    events: Vec<(i64, WebhookEvent)>,
    frames: BTreeMap<MeetingId, Vec<Frame>>,
    logs: BTreeMap<MeetingId, Vec<LoggedTransition>>,
}

/// What there is of these users.
pub(super) async fn everything(fx: &Fixture, users: &[UserId]) -> Everything {
    let mut meetings = Vec::new();
    for user in users {
        meetings.extend(meetings_of(fx, *user).await);
    }
    let (mut frames, mut logs) = (BTreeMap::new(), BTreeMap::new());
    for row in &meetings {
        frames.insert(row.meeting.id, frames_of(fx, row.meeting.id).await);
        logs.insert(row.meeting.id, log_of(fx, row.meeting.id).await);
    }
    let (jobs, events) = (fx.all_jobs().await, all_events(fx).await);
    Everything { meetings, jobs, events, frames, logs }
}
