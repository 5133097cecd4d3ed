//! Many at once about the same rooms: one record, and the newest look is the last that wrote it.

use std::collections::BTreeSet;
use std::sync::Arc;

use roundsman_core::bots::MeetingId;
use roundsman_core::ports::{
    CommitAnswer, EndAnswer, InboxFilter, InboxOutcome, LookWritten, NewInboxEvent, OpenAnswer,
    PresenceFilter, PresencePrune, Scope,
};
use roundsman_core::presence::{DAILY, EndReason, Hint, HintKind, Look, LookReport, PresenceRules};
use roundsman_core::users::UserId;

use super::attend::{frames_of, states_of, user};
use super::fixture::{Fixture, Task, at_once, boxed};
use super::visit::{
    Snapshot, commit, end, failed, hint, judge, lease, look, meeting, meetings, new_meeting,
    note_joining, open, open_ids, report, room, room_name, room_with, seen, sessions, try_open,
};
use super::wishes::{MINUTE, SECOND, TTL};

/// R2, R3: of looks that are written at once only newer ones follow each other.
pub async fn of_many_lookers_the_newest_stays(fx: &Arc<Fixture>) {
    const LOOKERS: usize = 6;
    let id = room_with(fx, "weekly", &["z"]).await;
    for round in 0..fx.traits.start_rounds {
        fx.advance(MINUTE);
        let mut looks = Vec::new();
        for looker in 0..LOOKERS {
            let guard = lease(fx).await;
            let name = format!("{round}-{looker}");
            looks.push((guard, report(fx, guard, seen(fx, &["z", &name]), &[])));
        }
        let newest = looks[LOOKERS - 1].1.no;
        let lookers = looks.into_iter().map(|(guard, report)| {
            let fx = Arc::clone(fx);
            async move { commit(&fx, id, report, guard).await }
        });
        let mut written: Vec<LookWritten> = Vec::new();
        for answer in at_once(lookers).await {
            match answer {
                CommitAnswer::Written(one) => written.push(*one),
                other => assert_eq!(other, CommitAnswer::Unchanged),
            }
        }
        written.sort_by_key(|one| one.frames[0].seq);
        let numbers: Vec<i64> = written.iter().map(|one| one.meeting.looks.last_no).collect();
        assert!(numbers.is_sorted_by(|one, next| one < next), "{numbers:?}");
        assert_eq!(numbers.last(), Some(&newest));
        let last = &written[written.len() - 1].meeting;
        assert_eq!((meeting(fx, id).await, last.looks.last_no), (last.clone(), newest));
        assert_eq!(open_ids(fx, id).await.len(), last.num_clients as usize, "R4");
    }
    assert_no_hole(fx, id).await;
}

/// R3, R-6: whoever loses the lease writes nothing, and nobody who writes has lost it.
pub async fn a_look_and_a_sweep_never_both_have_it(fx: &Arc<Fixture>) {
    let id = room_with(fx, "weekly", &["a"]).await;
    for round in 0..30 {
        let guard = lease(fx).await;
        fx.advance(TTL + SECOND);
        let before = Snapshot::of(fx, id).await;
        let name = format!("s-{round}");
        let (looker, sweeper) = (Arc::clone(fx), Arc::clone(fx));
        let report = report(fx, guard, seen(fx, &["a", &name]), &[]);
        let late = report.clone();
        let tasks: Vec<Task<bool>> = vec![
            boxed(
                async move { commit(&looker, id, report, guard).await != CommitAnswer::LeaseLost },
            ),
            boxed(async move {
                sweeper.sweep().await;
                false
            }),
        ];
        let wrote = at_once(tasks).await.contains(&true);
        let after = Snapshot::of(fx, id).await;
        assert_eq!(after.sessions.contains_key(&name), wrote);
        assert_eq!(after == before, !wrote);
        // A sweep may have passed by a row that was being written; then the next one takes it.
        fx.sweep().await;
        assert_eq!(commit(fx, id, late, guard).await, CommitAnswer::LeaseLost);
        assert_eq!(Snapshot::of(fx, id).await, after);
        drain(fx).await;
    }
}

/// What its owner ends is over, whatever is seen at that moment.
pub async fn an_end_and_looks_at_once_agree(fx: &Arc<Fixture>) {
    for round in 0..fx.traits.start_rounds {
        let id = room_with(fx, &format!("room-{round}"), &["a", "b"]).await;
        fx.advance(MINUTE);
        let mut tasks: Vec<Task<()>> = Vec::new();
        for looker in 0..3 {
            let (fx, guard) = (Arc::clone(fx), lease(fx).await);
            let name = format!("late-{looker}");
            let report = report(&fx, guard, seen(&fx, &["a", &name]), &[]);
            tasks.push(boxed(async move {
                commit(&fx, id, report, guard).await;
            }));
        }
        let ender = Arc::clone(fx);
        tasks.push(boxed(async move {
            assert!(matches!(end(&ender, Scope::All, id).await, EndAnswer::Ended(_)));
        }));
        at_once(tasks).await;
        let over = meeting(fx, id).await;
        assert_eq!((over.is_active(), over.num_clients), (false, 0));
        assert_eq!(over.end_reason, Some(EndReason::Deactivated));
        assert_eq!(open_ids(fx, id).await, [""; 0]);
        assert_eq!(states_of(fx, id).await, ["open", "completed"]);
        assert_no_hole(fx, id).await;
    }
}

/// One opens the room, another one sees people in the meeting before: one meeting is open there.
pub async fn a_room_is_opened_or_healed(fx: &Arc<Fixture>) {
    let (ada, bob) = (user(fx, "ada").await, user(fx, "bob").await);
    for round in 0..fx.traits.start_rounds {
        let name = format!("room-{round}");
        let first = open(fx, ada, &name).await.id;
        fx.advance(PresenceRules::default().unused_for);
        assert!(matches!(judge(fx, first).await, CommitAnswer::Written(_)));
        let guard = lease(fx).await;
        let report = report(fx, guard, seen(fx, &["a"]), &[]);
        let (looker, opener) = (Arc::clone(fx), Arc::clone(fx));
        let wish = new_meeting(bob, &name);
        let tasks: Vec<Task<(bool, bool)>> = vec![
            boxed(async move {
                let answer = commit(&looker, first, report, guard).await;
                (matches!(answer, CommitAnswer::Written(_)), false)
            }),
            boxed(async move {
                let answer = try_open(&opener, wish).await;
                (false, matches!(answer, OpenAnswer::Opened(_)))
            }),
        ];
        let answers = at_once(tasks).await;
        let healed = answers.iter().any(|(healed, _)| *healed);
        let opened = answers.iter().any(|(_, opened)| *opened);
        assert!(healed != opened, "healed: {healed}, opened: {opened}");
        let there = PresenceFilter { active: Some(true), room: Some(room_name(&name)) };
        let there = meetings(fx, Scope::All, there).await;
        assert_eq!(there.iter().map(|one| one.id == first).collect::<Vec<_>>(), [healed]);
    }
}

/// Whoever is told that they are expected finds the meeting open.
pub async fn a_judgement_and_somebody_on_their_way_agree(fx: &Arc<Fixture>) {
    for round in 0..fx.traits.start_rounds {
        let id = empty_room(fx, &format!("room-{round}")).await;
        let guard = lease(fx).await;
        let (judging, joining) = (Arc::clone(fx), Arc::clone(fx));
        let tasks: Vec<Task<Option<bool>>> = vec![
            boxed(async move {
                let judged = judging.store.judge_presence(
                    id,
                    PresenceRules::default(),
                    guard,
                    judging.now(),
                );
                assert_ne!(judged.await.expect("judge_presence"), CommitAnswer::LeaseLost);
                None
            }),
            boxed(async move { Some(note_joining(&joining, id, "c-1", MINUTE).await) }),
        ];
        let expected = at_once(tasks).await.into_iter().flatten().next().expect("one joins");
        assert_eq!(meeting(fx, id).await.is_active(), expected, "round {round}");
    }
}

/// Whoever is seen while a meeting is judged is in an open one afterwards.
pub async fn a_judgement_and_a_look_agree(fx: &Arc<Fixture>) {
    for round in 0..fx.traits.start_rounds {
        let id = empty_room(fx, &format!("room-{round}")).await;
        let (one, two) = (lease(fx).await, lease(fx).await);
        let report = report(fx, two, seen(fx, &["b"]), &[]);
        let (judging, looker) = (Arc::clone(fx), Arc::clone(fx));
        let tasks: Vec<Task<()>> = vec![
            boxed(async move {
                let judged =
                    judging.store.judge_presence(id, PresenceRules::default(), one, judging.now());
                judged.await.expect("judge_presence");
            }),
            boxed(async move {
                let answer = commit(&looker, id, report, two).await;
                assert!(matches!(answer, CommitAnswer::Written(_)), "{answer:?}");
            }),
        ];
        at_once(tasks).await;
        let now = meeting(fx, id).await;
        assert_eq!((now.is_active(), now.num_clients, now.end_reason), (true, 1, None));
        assert_eq!(open_ids(fx, id).await, ["b"]);
        assert_no_hole(fx, id).await;
    }
}

/// looks at different rooms do not get into each other's way.
pub async fn looks_at_many_rooms_are_all_written(fx: &Arc<Fixture>) {
    const ROOMS: usize = 12;
    const LOOKS: usize = 5;
    let ada = user(fx, "ada").await;
    let lookers = (0..ROOMS).map(|number| {
        let fx = Arc::clone(fx);
        async move {
            let id = open(&fx, ada, &format!("room-{number}")).await.id;
            for round in 1..=LOOKS {
                let guard = lease(&fx).await;
                let names: Vec<String> = (0..round).map(|name| format!("s-{name}")).collect();
                let people: Vec<&str> = names.iter().map(String::as_str).collect();
                let report = report(&fx, guard, seen(&fx, &people), &[]);
                let answer = commit(&fx, id, report, guard).await;
                assert!(matches!(answer, CommitAnswer::Written(_)), "{answer:?}");
            }
            id
        }
    });
    for id in at_once(lookers).await {
        assert_eq!(meeting(fx, id).await.num_clients as usize, LOOKS);
        assert_eq!((sessions(fx, id).await.len(), frames_of(fx, id).await.len()), (LOOKS, LOOKS));
        assert_no_hole(fx, id).await;
    }
}

/// All operations on few rooms by many callers: no call fails, and what is left agrees.
pub async fn everything_at_once_fails_nobody(fx: &Arc<Fixture>) {
    const CALLERS: usize = 10;
    let ada = user(fx, "ada").await;
    let callers = (0..CALLERS).map(|caller| {
        let fx = Arc::clone(fx);
        async move {
            for round in 0..15 {
                do_something(&fx, ada, caller, round).await;
            }
        }
    });
    at_once(callers).await;
    let mut open_rooms = BTreeSet::new();
    for one in meetings(fx, Scope::All, PresenceFilter::default()).await {
        assert_eq!(open_ids(fx, one.id).await.len(), one.num_clients as usize, "R4");
        assert!(one.is_active() || one.num_clients == 0);
        assert!(!one.is_active() || open_rooms.insert(one.room), "two are open in a room");
        assert_no_hole(fx, one.id).await;
    }
    let open = fx.store.open_presences(None, 1000).await.expect("open_presences");
    assert_eq!(open.len(), open_rooms.len());
}

async fn do_something(fx: &Fixture, ada: UserId, caller: usize, round: usize) {
    let store = &fx.store;
    let name = format!("room-{}", (caller + round) % 3);
    let found = store.meetings_of_rooms(vec![room_name(&name)]).await.expect("meetings_of_rooms");
    let Some(id) = found[0] else {
        try_open(fx, new_meeting(ada, &name)).await;
        return;
    };
    let person = format!("s-{}", round % 4);
    match (caller * 5 + round) % 12 {
        0 => drop(end(fx, Scope::User(ada), id).await),
        1 => drop(try_open(fx, new_meeting(ada, &name)).await),
        2 => {
            let guard = lease(fx).await;
            let judged = store.judge_presence(id, PresenceRules::default(), guard, fx.now()).await;
            judged.expect("judge_presence");
        }
        3 => drop(note_joining(fx, id, &person, MINUTE).await),
        4 => drop(store.end_joining(id, person).await.expect("end_joining")),
        5 => {
            let guard = lease(fx).await;
            let look = if round.is_multiple_of(2) { Look::Gone } else { failed("503") };
            commit(fx, id, report(fx, guard, look, &[]), guard).await;
        }
        6 => {
            let event = NewInboxEvent {
                service: DAILY,
                event: person,
                kind: "participant.left".to_owned(),
                room: Some(name),
                outcome: InboxOutcome::Taken,
                reason: None,
                payload: String::new(),
            };
            store.keep_inbox(vec![event], fx.now()).await.expect("keep_inbox");
            store.inbox(InboxFilter::default(), None, 10).await.expect("inbox");
        }
        7 => {
            let all = fx.now() + MINUTE;
            let request = PresencePrune { inbox_before: all, joining_before: all, rows_max: 3 };
            store.prune_presence(request).await.expect("prune_presence");
        }
        _ => {
            let guard = lease(fx).await;
            let left = hint(fx, HintKind::Left, &person, fx.now(), Some(fx.now()));
            let other = format!("s-{}", caller % 4);
            let report: LookReport = report(fx, guard, seen(fx, &[&other]), &[left]);
            let answer = commit(fx, id, report, guard).await;
            assert_ne!(answer, CommitAnswer::LeaseLost);
        }
    }
}

/// Takes away what sweeps have put back, so that the next lease is a new one.
async fn drain(fx: &Fixture) {
    for job in fx.all_jobs().await {
        let cancelled = fx.store.cancel(Scope::All, job.facts().id, fx.now()).await;
        cancelled.expect("cancel");
    }
}

/// A meeting whose people have been away for long enough.
async fn empty_room(fx: &Fixture, name: &str) -> MeetingId {
    let id = room(fx, name).await;
    look(fx, id, seen(fx, &["a"]), &[]).await;
    fx.advance(MINUTE);
    let ended = Hint { what: HintKind::MeetingEnded, ..Hint::look("met-end", fx.now()) };
    look(fx, id, seen(fx, &[]), &[ended]).await;
    fx.advance(PresenceRules::default().empty_grace);
    id
}

/// The frames of a meeting follow each other.
async fn assert_no_hole(fx: &Fixture, id: MeetingId) {
    let seqs: Vec<i64> = frames_of(fx, id).await.iter().map(|frame| frame.seq).collect();
    assert_eq!(seqs, (1..).take(seqs.len()).collect::<Vec<_>>());
}
