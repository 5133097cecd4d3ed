//! Events of the provider are kept as they came, once, and for a while.

use std::sync::Arc;

use roundsman_core::Timestamp;
use roundsman_core::ports::{
    CommitAnswer, INBOX_PAYLOAD_BYTES_MAX, InboxEvent, InboxFilter, InboxOutcome, NewInboxEvent,
    PresencePrune,
};
use roundsman_core::presence::DAILY;

use super::fixture::{Fixture, at_once};
use super::visit::{judge, note_joining, room};
use super::wishes::{MINUTE, SECOND};

pub async fn events_are_kept_newest_first(fx: &Arc<Fixture>) {
    assert_eq!(inbox(fx, InboxFilter::default(), None, 10).await, vec![]);
    let events: Vec<NewInboxEvent> = (0..5).map(|number| event(&number.to_string())).collect();
    for pair in events.chunks(2) {
        assert_eq!(keep(fx, pair.to_vec()).await, vec![true; pair.len()]);
        fx.advance(SECOND);
    }
    let all = inbox(fx, InboxFilter::default(), None, 100).await;
    let newest_first: Vec<NewInboxEvent> = events.iter().rev().cloned().collect();
    assert_eq!(all.iter().map(|kept| kept.event.clone()).collect::<Vec<_>>(), newest_first);
    assert!(all.is_sorted_by(|one, next| one.id > next.id && one.at >= next.at));
    assert_eq!(all[0].at, fx.now() - SECOND);
    for (before, rows_max, from, to) in [
        (None, 2, 0, 2),
        (Some(1), 2, 2, 4),
        (Some(3), 10, 4, 5),
        (Some(4), 10, 5, 5),
        (None, 0, 0, 0),
    ] {
        let before = before.map(|place: usize| all[place].id);
        let page = inbox(fx, InboxFilter::default(), before, rows_max).await;
        assert_eq!(page, all[from..to], "{before:?}");
    }
    for kept in &all {
        assert_eq!(one(fx, kept.id).await.as_ref(), Some(kept));
    }
    for id in [0, -1, i64::MAX] {
        assert_eq!(one(fx, id).await, None);
    }
    assert_eq!(keep(fx, vec![]).await, Vec::<bool>::new());
}

/// R-2: the name of an event stands for it, however often it comes.
pub async fn an_event_is_kept_once(fx: &Arc<Fixture>) {
    let first = event("a");
    let again = NewInboxEvent {
        kind: "participant.left".to_owned(),
        outcome: InboxOutcome::Odd,
        room: None,
        payload: "other".to_owned(),
        ..first.clone()
    };
    let batch = vec![event("b"), first.clone(), again.clone(), event("B"), event("b")];
    assert_eq!(keep(fx, batch).await, [true, true, false, true, false]);
    fx.advance(SECOND);
    assert_eq!(keep(fx, vec![again, event("c"), first.clone()]).await, [false, true, false]);
    let all = inbox(fx, InboxFilter::default(), None, 100).await;
    let names: Vec<&str> = all.iter().map(|kept| kept.event.event.as_str()).collect();
    assert_eq!(names, ["c", "B", "a", "b"], "in the order in which they came");
    assert_eq!((&all[2].event, all[2].at), (&first, fx.now() - SECOND), "as it was");
}

pub async fn of_many_deliveries_at_once_one_is_new(fx: &Arc<Fixture>) {
    const CALLERS: usize = 8;
    for round in 0..20 {
        let callers = (0..CALLERS).map(|caller| {
            let fx = Arc::clone(fx);
            async move {
                let mut batch: Vec<_> =
                    (0..5).map(|number| event(&format!("{round}-{number}"))).collect();
                // In every order: batches that meet wait for each other and never for ever.
                batch.rotate_left(caller % 5);
                if caller.is_multiple_of(2) {
                    batch.reverse();
                }
                keep(&fx, batch).await.into_iter().filter(|new| *new).count()
            }
        });
        let new: usize = at_once(callers).await.into_iter().sum();
        assert_eq!(new, 5, "round {round}");
    }
    assert_eq!(inbox(fx, InboxFilter::default(), None, 1000).await.len(), 100);
}

pub async fn events_are_filtered(fx: &Arc<Fixture>) {
    let rooms = [None, Some("weekly"), Some("daily")];
    for number in 0..18 {
        let outcome = InboxOutcome::ALL[number % 3];
        let room = rooms[number / 3 % 3].map(ToOwned::to_owned);
        let reason = (outcome != InboxOutcome::Taken).then(|| format!("because {number}"));
        let kept = NewInboxEvent { outcome, room, reason, ..event(&number.to_string()) };
        keep(fx, vec![kept]).await;
    }
    let all = inbox(fx, InboxFilter::default(), None, 100).await;
    let outcomes = InboxOutcome::ALL.into_iter().map(Some).chain([None]);
    for outcome in outcomes {
        for room in [None, Some("weekly"), Some("daily"), Some("nowhere"), Some("WEEKLY")] {
            let filter = InboxFilter { outcome, room: room.map(ToOwned::to_owned) };
            let wanted = |kept: &&InboxEvent| {
                outcome.is_none_or(|outcome| kept.event.outcome == outcome)
                    && room.is_none_or(|room| kept.event.room.as_deref() == Some(room))
            };
            let expected: Vec<InboxEvent> = all.iter().filter(wanted).cloned().collect();
            assert_eq!(inbox(fx, filter.clone(), None, 100).await, expected, "{filter:?}");
            let (mut found, mut before): (Vec<InboxEvent>, _) = (Vec::new(), None);
            loop {
                let page = inbox(fx, filter.clone(), before, 2).await;
                let Some(last) = page.last() else { break };
                before = Some(last.id);
                found.extend(page);
            }
            assert_eq!(found, expected, "{filter:?} in pages");
        }
    }
}

pub async fn whatever_came_can_be_kept(fx: &Arc<Fixture>) {
    let payloads = [
        String::new(),
        "not JSON '\"; --".to_owned(),
        "😀 \u{202e} \u{feff} \u{1}".to_owned(),
        "x".repeat(INBOX_PAYLOAD_BYTES_MAX),
    ];
    for (number, payload) in payloads.into_iter().enumerate() {
        let odd = NewInboxEvent {
            kind: payload.chars().take(50).collect(),
            room: Some("no/room 😀".to_owned()),
            reason: Some(payload.chars().take(50).collect()),
            payload,
            ..event(&format!("{number} 😀'\"\\"))
        };
        assert_eq!(keep(fx, vec![odd.clone()]).await, [true]);
        assert_eq!(inbox(fx, InboxFilter::default(), None, 1).await[0].event, odd);
    }
    // Longer ones are cut, between characters.
    let long = format!("x{}", "ü".repeat(INBOX_PAYLOAD_BYTES_MAX));
    let kept = NewInboxEvent { payload: long.clone(), ..event("long") };
    keep(fx, vec![kept]).await;
    let payload = inbox(fx, InboxFilter::default(), None, 1).await.remove(0).event.payload;
    assert_eq!(payload.len(), INBOX_PAYLOAD_BYTES_MAX - 1);
    assert!(long.starts_with(&payload));
    // Not every database has a place for NUL: it is left out, and the event is still the same.
    let nul = NewInboxEvent { payload: "before\0after".to_owned(), ..event("nu\0l") };
    assert_eq!(keep(fx, vec![nul.clone(), nul]).await, [true, false]);
    let kept = inbox(fx, InboxFilter::default(), None, 1).await.remove(0).event;
    assert_eq!((kept.event.as_str(), kept.payload.as_str()), ("nul", "beforeafter"));
}

pub async fn old_events_are_pruned(fx: &Arc<Fixture>) {
    for number in 0..6 {
        keep(fx, vec![event(&number.to_string())]).await;
        fx.advance(MINUTE);
    }
    let limit = fx.now() - MINUTE;
    let request = PresencePrune { inbox_before: limit, ..keep_all(3) };
    assert_eq!(prune(fx, request).await, 3, "no more than it may");
    let left = inbox(fx, InboxFilter::default(), None, 100).await;
    assert_eq!(
        left.iter().map(|kept| kept.event.event.as_str()).collect::<Vec<_>>(),
        ["5", "4", "3"]
    );
    assert_eq!(prune(fx, request).await, 2);
    assert_eq!(prune(fx, request).await, 0);
    let left = inbox(fx, InboxFilter::default(), None, 100).await;
    assert_eq!((left.len(), left[0].at), (1, limit), "what is just as old stays");
    assert_eq!(keep(fx, vec![event("0"), event("5")]).await, [true, false], "it is new again");
    let newest = inbox(fx, InboxFilter::default(), None, 1).await.remove(0);
    assert!(newest.id > left[0].id, "numbers stay used");
}

pub async fn who_was_expected_is_pruned(fx: &Arc<Fixture>) {
    let id = room(fx, "weekly").await;
    for minutes in 1..=5 {
        let connection = format!("c-{minutes}");
        assert!(note_joining(fx, id, &connection, MINUTE * minutes).await);
    }
    keep(fx, vec![event("a")]).await;
    let request = PresencePrune { joining_before: fx.now() + MINUTE * 4, ..keep_all(2) };
    assert_eq!(prune(fx, request).await, 2, "no more than it may");
    assert_eq!(prune(fx, request).await, 1);
    assert_eq!(prune(fx, request).await, 0);
    for (connection, there) in [("c-1", false), ("c-2", false), ("c-3", false), ("c-4", true)] {
        let ended = fx.store.end_joining(id, connection.to_owned()).await;
        assert_eq!(ended.expect("end_joining"), there, "{connection}");
    }
    assert_eq!(inbox(fx, InboxFilter::default(), None, 100).await.len(), 1);
    // Each sort has its own limit.
    let both = PresencePrune {
        inbox_before: fx.now() + SECOND,
        joining_before: fx.now() + MINUTE * 10,
        rows_max: 1,
    };
    assert_eq!(prune(fx, both).await, 2);
    assert_eq!(judge(fx, id).await, CommitAnswer::Unchanged, "the meeting is another matter");
}

fn event(name: &str) -> NewInboxEvent {
    NewInboxEvent {
        service: DAILY,
        event: name.to_owned(),
        kind: "participant.joined".to_owned(),
        room: Some("weekly".to_owned()),
        outcome: InboxOutcome::Taken,
        reason: None,
        payload: format!(r#"{{"id":"{name}"}}"#),
    }
}

async fn keep(fx: &Fixture, events: Vec<NewInboxEvent>) -> Vec<bool> {
    let count = events.len();
    let new = fx.store.keep_inbox(events, fx.now()).await.expect("keep_inbox");
    assert_eq!(new.len(), count, "one answer per event");
    new
}

async fn inbox(
    fx: &Fixture,
    filter: InboxFilter,
    before: Option<i64>,
    rows_max: u32,
) -> Vec<InboxEvent> {
    fx.store.inbox(filter, before, rows_max).await.expect("inbox")
}

async fn one(fx: &Fixture, id: i64) -> Option<InboxEvent> {
    fx.store.inbox_event(id).await.expect("inbox_event")
}

async fn prune(fx: &Fixture, request: PresencePrune) -> u64 {
    fx.store.prune_presence(request).await.expect("prune_presence")
}

fn keep_all(rows_max: u32) -> PresencePrune {
    let never = Timestamp::EPOCH;
    PresencePrune { inbox_before: never, joining_before: never, rows_max }
}
