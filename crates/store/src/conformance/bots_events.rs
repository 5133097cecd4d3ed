//! What happens to a bot is written as the rules say, once, and in whatever order it is heard.

use std::sync::Arc;

use roundsman_core::bots::{
    self, BotEvent, BotRecord, BotStatus, ConnectionId, ExitReport, FINISH_KIND, MeetingId,
    SUPERVISE_KIND, Source, Stage, WorkloadId,
};
use roundsman_core::effects::Effects;
use roundsman_core::jobs::{Job, JobState};
use roundsman_core::ports::{BotHappened, EventAnswer};

use super::attend::{
    LIVE, all_events, assert_announced, bot_in, callback, change, changed, everything, exit,
    frames_of, happen, jobs_of, log_of, look, lose_leases, plain, reserve, states_of, supervise,
    tell, unchanged, user,
};
use super::fixture::Fixture;
use super::wishes::{SECOND, done};

/// A whole life, with everything that is written on the way.
pub async fn every_step_is_written_as_the_rules_say(fx: &Arc<Fixture>) {
    let ada = user(fx, "ada").await;
    let mut record = reserve(fx, ada, "a").await;
    let id = record.meeting.id;
    let (mut told, mut logged) = (all_events(fx).await.len(), 1);
    for event in life() {
        fx.advance(SECOND);
        let expected = expect(fx, record.clone(), event.clone(), Source::Callback);
        let announced = changed(happen(fx, &record, event.clone()).await);
        assert_eq!(announced.record, expected.record, "{event:?}");
        assert_announced(fx, id, &announced.frames, &expected.effects.frames).await;
        assert_eq!(look(fx, id).await, expected.record, "{event:?}");

        let frames = frames_of(fx, id).await;
        let last = frames.last().expect("a frame per step");
        assert_eq!((&last.body, last.at), (&expected.effects.frames[0].body, fx.now()));
        let events = all_events(fx).await;
        let new: Vec<_> = events[told..].iter().map(|(_, event)| event.clone()).collect();
        assert_eq!(new, expected.effects.webhooks, "{event:?}");
        told = events.len();
        let log = log_of(fx, id).await;
        assert_logged_since(fx, &log[logged..], &expected.effects);
        logged = log.len();
        record = announced.record;
    }
    assert_eq!(record.status, BotStatus::Completed);
    assert_eq!(jobs_of(fx, FINISH_KIND, id).await.len(), 1);
}

/// B-6: the five callbacks of a life in all their orders.
pub async fn callbacks_in_any_order_end_right(fx: &Arc<Fixture>) {
    let ada = user(fx, "ada").await;
    for (number, order) in orders(&life()).into_iter().enumerate() {
        let reserved = reserve(fx, ada, &number.to_string()).await;
        let (mut expected, mut states) = (reserved.clone(), vec!["reserved".to_owned()]);
        for event in order.clone() {
            fx.advance(SECOND);
            let step = expect(fx, expected, event.clone(), Source::Callback);
            states.extend(step.effects.transitions.into_iter().map(|step| step.to_state));
            expected = step.record;
            match happen(fx, &reserved, event).await {
                EventAnswer::Changed(announced) if step.changed => {
                    assert_eq!(plain(announced.record), expected, "{order:?}");
                }
                EventAnswer::Unchanged(record) if !step.changed => {
                    assert_eq!(plain(*record), expected, "{order:?}");
                }
                other => panic!("{order:?}: {other:?}"),
            }
        }
        let id = reserved.meeting.id;
        assert!(expected.status.is_over(), "{order:?}");
        assert_eq!(look(fx, id).await, expected, "{order:?}");
        assert_eq!(states_of(fx, id).await, states, "{order:?}");
        assert_eq!(jobs_of(fx, FINISH_KIND, id).await.len(), 1, "{order:?}");
    }
}

/// B4: applied twice is applied once.
pub async fn a_repeat_changes_nothing(fx: &Arc<Fixture>) {
    let ada = user(fx, "ada").await;
    let mut record = reserve(fx, ada, "a").await;
    for event in life() {
        fx.advance(SECOND);
        record = change(fx, &record, event.clone()).await;
        let before = everything(fx, &[ada]).await;
        fx.advance(SECOND);
        for _ in 0..2 {
            assert_eq!(unchanged(happen(fx, &record, event.clone()).await), record);
        }
        assert_eq!(everything(fx, &[ada]).await, before, "{event:?}");
    }
}

/// B-7: nothing that comes after the end changes it.
pub async fn what_is_over_stays_as_it_is(fx: &Arc<Fixture>) {
    let ada = user(fx, "ada").await;
    for (number, status) in [BotStatus::Completed, BotStatus::Failed].into_iter().enumerate() {
        let record = bot_in(fx, ada, &number.to_string(), status).await;
        let before = everything(fx, &[ada]).await;
        fx.advance(SECOND);
        let mut late = life();
        late.push(exit(137));
        late.push(BotEvent::Absent { reason: "gone".to_owned() });
        late.push(BotEvent::TimedOut { reason: "heartbeat_timeout" });
        for event in late {
            assert_eq!(unchanged(happen(fx, &record, event.clone()).await), record, "{event:?}");
        }
        assert_eq!(everything(fx, &[ada]).await, before);
    }
}

/// B-8: whoever is not this bot is told nothing and changes nothing.
pub async fn a_stranger_changes_nothing(fx: &Arc<Fixture>) {
    let ada = user(fx, "ada").await;
    let record = bot_in(fx, ada, "a", BotStatus::Active).await;
    let other = bot_in(fx, ada, "b", BotStatus::Active).await;
    let before = everything(fx, &[ada]).await;
    let mine = callback(&record, exit(0));
    let strangers = [
        BotHappened { connection: Some(other.bot.connection_id.clone()), ..mine.clone() },
        BotHappened { connection: Some(connection("nobody")), ..mine.clone() },
        BotHappened { workload: workload(1_000_000), ..mine.clone() },
        BotHappened { workload: workload(1_000_000), connection: None, ..mine.clone() },
        BotHappened { workload: workload(i64::MAX), connection: None, ..mine.clone() },
        BotHappened { workload: workload(0), connection: None, ..mine.clone() },
    ];
    for stranger in strangers {
        assert_eq!(tell(fx, stranger.clone()).await, EventAnswer::NoSuchBot, "{stranger:?}");
    }
    assert_eq!(everything(fx, &[ada]).await, before);
    for missing in [connection("nobody"), connection("")] {
        let found = fx.store.bot_by_connection(missing).await.expect("bot_by_connection");
        assert_eq!(found, None);
    }
    for id in [MeetingId::new(0), MeetingId::new(1_000_000), MeetingId::new(i64::MAX)] {
        assert_eq!(fx.store.bot(id).await.expect("bot"), None);
    }
    // Whoever has other proof names no connection.
    let proven = BotHappened { connection: None, source: Source::Supervisor, ..mine };
    let ended = changed(tell(fx, proven).await).record;
    assert_eq!(ended.status, BotStatus::Completed);
    let causes: Vec<_> = log_of(fx, ended.meeting.id).await;
    assert_eq!(causes.last().expect("logged").cause, "supervisor");
}

pub async fn a_guarded_event_needs_the_lease(fx: &Arc<Fixture>) {
    let ada = user(fx, "ada").await;
    let record = reserve(fx, ada, "a").await;
    let lease = supervise(fx, &record).await;
    let absent = |reason: &str| BotHappened {
        connection: None,
        source: Source::Supervisor,
        ..callback(&record, BotEvent::Absent { reason: reason.to_owned() })
    };
    lose_leases(fx).await;
    let before = everything(fx, &[ada]).await;
    let answer = fx.store.bot_event(absent("lost"), Some(lease), fx.now()).await;
    assert_eq!(answer.expect("bot_event"), EventAnswer::LeaseLost);
    assert_eq!(everything(fx, &[ada]).await, before);

    fx.advance(SECOND * 600);
    let lease = supervise(fx, &record).await;
    let answer = fx.store.bot_event(absent("no image"), Some(lease), fx.now()).await;
    let ended = changed(answer.expect("bot_event")).record;
    assert_eq!(ended.status, BotStatus::Failed);
    assert_eq!(ended.bot.end_reason.as_deref(), Some("no image"));
    assert_eq!(ended.bot.failure_stage.as_deref(), Some("requested"));
}

/// A session begins with the first sign that the bot runs, whatever that is, and only then.
pub async fn a_session_begins_once(fx: &Arc<Fixture>) {
    let Some(door) = fx.backdoor.clone() else { return };
    let ada = user(fx, "ada").await;
    let firsts = [
        (BotEvent::Started, true),
        (BotEvent::AtStage(Stage::Joining), true),
        (BotEvent::AtStage(Stage::AwaitingAdmission), true),
        (BotEvent::Joined, true),
        (BotEvent::Leaving, false),
        (exit(1), false),
    ];
    for (number, (first, begins)) in firsts.into_iter().enumerate() {
        let record = reserve(fx, ada, &number.to_string()).await;
        let id = record.meeting.id;
        assert_eq!(door.sessions(id).await, vec![]);
        fx.advance(SECOND);
        let began = fx.now();
        change(fx, &record, first.clone()).await;
        let expected = begins.then(|| (record.bot.connection_id.as_str().to_owned(), began));
        let expected: Vec<_> = expected.into_iter().collect();
        assert_eq!(door.sessions(id).await, expected, "{first:?}");
        for event in life() {
            fx.advance(SECOND);
            happen(fx, &record, event).await;
        }
        assert_eq!(door.sessions(id).await, expected, "{first:?}");
    }
}

/// How a bot ended is kept, and it has an end exactly when it is over.
pub async fn times_and_reasons_are_kept(fx: &Arc<Fixture>) {
    let ada = user(fx, "ada").await;
    let said = BotEvent::Exited(ExitReport {
        exit_code: Some(0),
        reason: Some("left_alone 'é' 😀".to_owned()),
        completion_reason: Some("left_alone".to_owned()),
        error_details: None,
    });
    let broke = BotEvent::Exited(ExitReport {
        exit_code: Some(-9),
        reason: None,
        completion_reason: None,
        error_details: Some(r#"{"stack":["a","b"]}"#.to_owned()),
    });
    let silent = BotEvent::Exited(ExitReport::default());
    let endings = [exit(0), exit(1), exit(137), said, broke, silent];
    for from in LIVE {
        for (number, ending) in endings.iter().enumerate() {
            let native_id = format!("{} {number}", from.as_str());
            let record = bot_in(fx, ada, &native_id, from).await;
            assert_eq!(record.meeting.end_time, None);
            fx.advance(SECOND);
            let expected = expect(fx, record.clone(), ending.clone(), Source::Callback).record;
            let ended = change(fx, &record, ending.clone()).await;
            assert_eq!(ended, expected);
            let ended = look(fx, record.meeting.id).await;
            assert_eq!(ended, expected, "from {} by {ending:?}", from.as_str());
            assert_eq!(ended.meeting.end_time, Some(fx.now()));
            assert_eq!(ended.meeting.start_time, record.meeting.start_time);
        }
    }
}

/// The work after a meeting is wished for once, and somebody clears the bot away.
pub async fn an_end_brings_one_finish(fx: &Arc<Fixture>) {
    let ada = user(fx, "ada").await;
    let record = bot_in(fx, ada, "a", BotStatus::Active).await;
    let id = record.meeting.id;
    let lease = supervise(fx, &record).await;
    fx.land(lease, done("1")).await;
    assert_eq!(jobs_of(fx, FINISH_KIND, id).await, vec![]);
    change(fx, &record, exit(0)).await;
    for _ in 0..3 {
        unchanged(happen(fx, &record, exit(0)).await);
    }
    for (kind_name, count) in [(FINISH_KIND, 1), (SUPERVISE_KIND, 2)] {
        let jobs = jobs_of(fx, kind_name, id).await;
        assert_eq!(jobs.len(), count, "{jobs:?}");
        let due = |job: &&Job| job.state(fx.now()) == JobState::Pending;
        assert_eq!(jobs.iter().filter(due).count(), 1, "{jobs:?}");
    }
}

/// A bot that once spoke the protocol with heartbeats is judged by them from then on.
pub async fn a_bot_that_has_heartbeats_is_known_by_it(fx: &Arc<Fixture>) {
    let ada = user(fx, "ada").await;
    let record = reserve(fx, ada, "a").await;
    let stock = |event: BotEvent| BotHappened { beats: false, ..callback(&record, event) };
    let started = changed(tell(fx, stock(BotEvent::Started)).await).record;
    assert!(!started.bot.beats);
    let joined = change(fx, &record, BotEvent::Joined).await;
    assert!(joined.bot.beats);
    let leaving = changed(tell(fx, stock(BotEvent::Leaving)).await).record;
    assert!(leaving.bot.beats);
    assert!(look(fx, record.meeting.id).await.bot.beats);
}

fn life() -> Vec<BotEvent> {
    vec![
        BotEvent::Started,
        BotEvent::AtStage(Stage::AwaitingAdmission),
        BotEvent::Joined,
        BotEvent::Leaving,
        exit(0),
    ]
}

/// What the rules make of an event of a bot that has heartbeats.
fn expect(fx: &Fixture, record: BotRecord, event: BotEvent, source: Source) -> bots::Change {
    let mut step = bots::change(record, event, source, fx.now()).expect("no event is refused");
    step.record.bot.beats = true;
    step.record = plain(step.record);
    step
}

fn assert_logged_since(
    fx: &Fixture,
    log: &[roundsman_core::effects::LoggedTransition],
    effects: &Effects,
) {
    assert_eq!(log.len(), effects.transitions.len());
    for (found, expected) in log.iter().zip(&effects.transitions) {
        assert_eq!(found.from_state, expected.from_state);
        assert_eq!(found.to_state, expected.to_state);
        assert_eq!((&found.cause, &found.detail), (&expected.cause, &expected.detail));
        assert_eq!(found.at, fx.now());
    }
}

fn orders(events: &[BotEvent]) -> Vec<Vec<BotEvent>> {
    if events.is_empty() {
        return vec![vec![]];
    }
    let mut all = Vec::new();
    for index in 0..events.len() {
        let mut rest = events.to_vec();
        let first = rest.remove(index);
        for mut order in orders(&rest) {
            order.insert(0, first.clone());
            all.push(order);
        }
    }
    all
}

fn workload(meeting: i64) -> WorkloadId {
    WorkloadId { meeting_id: MeetingId::new(meeting), attempt: 1 }
}

fn connection(text: &str) -> ConnectionId {
    ConnectionId::from_stored(text.to_owned())
}
