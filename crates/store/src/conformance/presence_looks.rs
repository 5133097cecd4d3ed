//! What looks make of the record. Every look of these cases is compared with the rules, in all that
//! it answers and writes; see `visit::look`.

use std::sync::Arc;

use roundsman_core::bots::MeetingId;
use roundsman_core::jobs::{JobId, JobState, LeaseNo, LeaseRef, Outcome};
use roundsman_core::ports::{CommitAnswer, SessionFilter};
use roundsman_core::presence::{
    ClosedBy, EndReason, Hint, HintKind, Look, LookReport, NAME_BYTES_MAX, POLL_KIND, Participant,
    PresenceRules, PresenceSession, SESSION_ID_BYTES_MAX, poll_wish, read_hints, write_hints,
};

use super::attend::{frames_of, jobs_of, lose_leases, meetings_of, reserve, user};
use super::fixture::Fixture;
use super::visit::{
    ALL_SESSIONS, Snapshot, commit, failed, find, hint, lease, look, meeting, open, open_ids,
    person, report, room, room_with, seen, sees, sessions, written,
};
use super::wishes::{MINUTE, SECOND};

/// R7, R-12: one row for each session, whatever people call themselves.
pub async fn whoever_is_seen_is_written(fx: &Arc<Fixture>) {
    let id = room(fx, "weekly").await;
    let names = [
        None,
        Some("אדה 🙂 \u{202e}x'); --".to_owned()),
        Some("n".repeat(NAME_BYTES_MAX)),
        Some("%s $1 ?1 \\ \"".to_owned()),
    ];
    let people = names.into_iter().enumerate().map(|(number, name)| Participant {
        session_id: format!("{number}-{}", "s".repeat(SESSION_ID_BYTES_MAX - 2)),
        user_id: name.clone(),
        user_name: name,
        joined_at: fx.now() - SECOND,
    });
    let people: Vec<Participant> = people.collect();
    fx.advance(SECOND);
    let written = look(fx, id, Look::Seen(people.clone()), &[]).await;
    assert_eq!((written.tally.joined, written.meeting.num_clients), (4, 4));
    assert_eq!(written.meeting.started_at, Some(people[0].joined_at));
    assert_eq!(written.frames.len(), 1);
    let found = sessions(fx, id).await;
    for person in people {
        let session = &found[&person.session_id];
        let shown = (&session.user_id, &session.user_name, session.joined_at);
        assert_eq!(shown, (&person.user_id, &person.user_name, person.joined_at));
    }
}

/// Most looks show what is known: they leave a trace in the meeting and nowhere else.
pub async fn a_look_that_shows_nothing_new_changes_nothing_else(fx: &Arc<Fixture>) {
    let id = room_with(fx, "weekly", &["a", "b"]).await;
    let ada = user(fx, "ada").await;
    let before = Snapshot::of(fx, id).await;
    let row = meetings_of(fx, ada).await;
    fx.advance(MINUTE);
    let written = sees(fx, id, &["a", "b"]).await;
    assert_eq!(written.frames, vec![]);
    let after = Snapshot::of(fx, id).await;
    assert_eq!(after.meeting.looks.looked_at, Some(fx.now()));
    assert_ne!(after.meeting.looks, before.meeting.looks);
    let same = Snapshot {
        meeting: roundsman_core::presence::PresenceMeeting {
            looks: before.meeting.looks.clone(),
            ..after.meeting.clone()
        },
        ..after
    };
    assert_eq!(same, before);
    assert_eq!(meetings_of(fx, ada).await, row, "not even when it was last changed");
}

/// R5: no error closes a session, however often there is one.
pub async fn nothing_but_an_answer_closes_a_session(fx: &Arc<Fixture>) {
    let id = room_with(fx, "weekly", &["a", "b"]).await;
    let since = fx.now() + MINUTE;
    for failures in 1..=4 {
        fx.advance(MINUTE);
        let reason = format!("503 for the {failures}th time: \"<html>\" 😀");
        let left = hint(fx, HintKind::Left, "a", fx.now(), None);
        look(fx, id, failed(&reason), std::slice::from_ref(&left)).await;
        let looks = meeting(fx, id).await.looks;
        assert_eq!((looks.failures, looks.failing_since), (failures, Some(since)));
        assert_eq!(looks.failure, Some(reason));
        assert_eq!(open_ids(fx, id).await, ["a", "b"]);
    }
    assert_eq!(fx.store.presence_counts().await.expect("presence_counts").failing, 1);
    sees(fx, id, &["a", "b"]).await;
    let looks = meeting(fx, id).await.looks;
    assert_eq!((looks.failures, looks.failing_since, looks.failure), (0, None, None));
    assert_eq!(fx.store.presence_counts().await.expect("presence_counts").failing, 0);
}

/// nobody believes at once that all have vanished.
pub async fn an_empty_answer_needs_a_second_look(fx: &Arc<Fixture>) {
    let id = room_with(fx, "weekly", &["a", "b"]).await;
    let lag = PresenceRules::default().lag;
    fx.advance(MINUTE);
    let first = sees(fx, id, &[]).await;
    assert_eq!((first.meeting.num_clients, first.again_at), (2, Some(fx.now() + lag)));
    assert_eq!(first.meeting.looks.empty_since, Some(fx.now()));
    fx.advance(lag.saturating_sub(SECOND));
    assert_eq!(sees(fx, id, &[]).await.meeting.num_clients, 2, "not late enough");
    fx.advance(SECOND);
    let second = sees(fx, id, &[]).await;
    assert_eq!((second.meeting.num_clients, second.tally.vanished), (0, 2));
    assert_eq!(second.meeting.last_left_at, Some(fx.now()));
    for session in sessions(fx, id).await.values() {
        assert_eq!(
            session.closed.map(|closed| (closed.at, closed.by)),
            Some((fx.now(), ClosedBy::Poll))
        );
    }
    // The event of the provider spares the second look.
    fx.advance(MINUTE);
    let id = room_with(fx, "daily", &["a"]).await;
    fx.advance(MINUTE);
    let ended = Hint { what: HintKind::MeetingEnded, ..Hint::look("met-end", fx.now()) };
    assert_eq!(look(fx, id, seen(fx, &[]), &[ended]).await.meeting.num_clients, 0);
}

/// R7: what an event closed and a look confirmed stays closed.
pub async fn a_leave_has_the_time_of_its_event_and_stays(fx: &Arc<Fixture>) {
    let id = room_with(fx, "weekly", &["a", "b"]).await;
    let joined = fx.now();
    fx.advance(MINUTE);
    let left_at = fx.now() - SECOND * 5;
    let left = hint(fx, HintKind::Left, "b", joined, Some(left_at));
    let shown = look(fx, id, seen(fx, &["a", "b"]), std::slice::from_ref(&left)).await;
    assert_eq!((shown.hints, shown.meeting.num_clients), (vec![left.clone()], 2));
    fx.advance(PresenceRules::default().lag);
    look(fx, id, seen(fx, &["a"]), &[left]).await;
    let closed = sessions(fx, id).await["b"].closed.expect("it is over");
    assert_eq!((closed.at, closed.by), (left_at, ClosedBy::Event));
    let again = sees(fx, id, &["a", "b"]).await;
    assert_eq!((again.meeting.num_clients, again.tally.reopened), (1, 0));
}

/// A session that is closed already is known when an event or a look names it.
pub async fn a_session_that_is_over_is_known_by_its_name(fx: &Arc<Fixture>) {
    let id = room_with(fx, "weekly", &["a", "b", "c"]).await;
    let joined = fx.now();
    fx.advance(MINUTE);
    sees(fx, id, &["a"]).await;
    // The event knows better when it was.
    let left_at = joined + SECOND * 20;
    let left = hint(fx, HintKind::Left, "b", joined, Some(left_at));
    look(fx, id, seen(fx, &["a"]), &[left]).await;
    let found = sessions(fx, id).await;
    let closed = found["b"].closed.expect("it is over");
    assert_eq!((found.len(), closed.at, closed.by), (3, left_at, ClosedBy::Event));
    assert_eq!(found["b"].user_name.as_deref(), Some("B"), "and not what a name is");
    // What only a look has closed is opened again by one, with its beginning and in the log.
    let again = sees(fx, id, &["a", "c"]).await;
    assert_eq!((again.tally.reopened, again.tally.joined), (1, 0));
    assert_eq!(sessions(fx, id).await["c"].joined_at, joined);
    let log = super::attend::log_of(fx, id).await;
    assert_eq!(log.last().map(|step| step.cause.as_str()), Some("session_reopened"));
}

/// who leaves and comes back, or is there twice, has a session for each.
pub async fn sessions_of_one_person_stay_apart(fx: &Arc<Fixture>) {
    let id = room(fx, "weekly").await;
    let as_ada =
        |session: &str| Participant { user_id: Some("ada".to_owned()), ..person(fx, session) };
    let both = Look::Seen(vec![as_ada("phone"), as_ada("laptop")]);
    assert_eq!(look(fx, id, both, &[]).await.meeting.num_clients, 2);
    fx.advance(MINUTE);
    let back = Look::Seen(vec![as_ada("phone"), as_ada("laptop-again"), as_ada("phone")]);
    let written = look(fx, id, back, &[]).await;
    assert_eq!((written.tally.joined, written.tally.left, written.meeting.num_clients), (1, 1, 2));
    // The same name in another room is another session.
    let other = room_with(fx, "other", &["phone"]).await;
    assert_eq!(sessions(fx, other).await.len(), 1);
    assert_eq!(sessions(fx, id).await.len(), 3);
}

pub async fn visits_between_looks_are_kept(fx: &Arc<Fixture>) {
    let id = room_with(fx, "weekly", &["a"]).await;
    fx.advance(MINUTE);
    let came = fx.now() - SECOND * 10;
    let hints = [
        Hint { name: Some("Bo".to_owned()), ..hint(fx, HintKind::Joined, "b", came, None) },
        hint(fx, HintKind::Left, "b", came, Some(came + SECOND)),
    ];
    let written = look(fx, id, seen(fx, &["a"]), &hints).await;
    assert_eq!((written.tally.visits, written.meeting.num_clients), (1, 1));
    let visit = sessions(fx, id).await["b"].clone();
    assert_eq!((visit.joined_at, visit.user_name.as_deref()), (came, Some("Bo")));
    let repeated = look(fx, id, seen(fx, &["a"]), &hints).await;
    assert_eq!((repeated.tally.visits, repeated.frames), (0, vec![]), "once");
}

/// a full room in one look, half of it gone in the next.
pub async fn five_hundred_people_are_taken_in_one_look(fx: &Arc<Fixture>) {
    const PEOPLE: usize = 500;
    let id = room(fx, "lecture").await;
    let names: Vec<String> = (0..PEOPLE).map(|number| format!("s-{number:03}")).collect();
    let all: Vec<&str> = names.iter().map(String::as_str).collect();
    let written = sees(fx, id, &all).await;
    assert_eq!((written.tally.joined, written.meeting.num_clients), (500, 500));
    assert_eq!(written.frames.len(), 1);
    fx.advance(MINUTE);
    let half = &all[..PEOPLE / 2];
    let written = sees(fx, id, half).await;
    assert_eq!((written.tally.left, written.meeting.num_clients), (250, 250));
    fx.advance(MINUTE);
    let late: Vec<Hint> =
        half.iter().map(|name| hint(fx, HintKind::Left, name, fx.now(), Some(fx.now()))).collect();
    let written = look(fx, id, seen(fx, &["one-more"]), &late).await;
    assert_eq!((written.tally.left, written.meeting.num_clients), (250, 1));
    assert_eq!(sessions(fx, id).await.len(), PEOPLE + 1);
    fx.advance(MINUTE);
    assert_eq!(sees(fx, id, &all).await.meeting.num_clients, 250, "those whom no event closed");
}

/// R2: a look that is not newer than the last one that was written is not.
pub async fn a_stale_look_changes_nothing(fx: &Arc<Fixture>) {
    let id = room_with(fx, "weekly", &["a"]).await;
    let (older, newer) = (lease(fx).await, lease(fx).await);
    fx.advance(MINUTE);
    let stale = report(fx, older, seen(fx, &["a", "b"]), &[]);
    let fresh = report(fx, newer, seen(fx, &["a", "c"]), &[]);
    written(commit(fx, id, fresh.clone(), newer).await);
    let before = Snapshot::of(fx, id).await;
    fx.advance(MINUTE);
    assert_eq!(commit(fx, id, stale, older).await, CommitAnswer::Unchanged);
    assert_eq!(commit(fx, id, fresh, newer).await, CommitAnswer::Unchanged, "nor the same again");
    assert_eq!(Snapshot::of(fx, id).await, before);
    assert_eq!(before.meeting.looks.last_no, newer.lease_no.get());
}

/// R3: what was seen under a lease that is lost is not written.
pub async fn a_look_needs_its_lease(fx: &Arc<Fixture>) {
    let id = room_with(fx, "weekly", &["a"]).await;
    let lost = lease(fx).await;
    lose_leases(fx).await;
    let before = Snapshot::of(fx, id).await;
    let jobs = fx.all_jobs().await;
    let never = LeaseRef { id: JobId::new(1), lease_no: LeaseNo::new(i64::MAX) };
    for guard in [lost, never, LeaseRef { id: JobId::new(1_000_000), ..lost }] {
        let newest = LookReport { no: i64::MAX, ..report(fx, guard, seen(fx, &["b"]), &[]) };
        assert_eq!(commit(fx, id, newest.clone(), guard).await, CommitAnswer::LeaseLost);
        let nowhere = MeetingId::new(1_000_000);
        assert_eq!(commit(fx, nowhere, newest, guard).await, CommitAnswer::LeaseLost);
    }
    assert_eq!(Snapshot::of(fx, id).await, before);
    assert_eq!(fx.all_jobs().await, jobs);
}

/// nobody makes a meeting by looking.
pub async fn a_look_at_no_meeting_is_none(fx: &Arc<Fixture>) {
    let ada = user(fx, "ada").await;
    let bot = reserve(fx, ada, "weekly").await;
    let guard = lease(fx).await;
    for id in [MeetingId::new(1_000_000), MeetingId::new(0), bot.meeting.id] {
        let report = report(fx, guard, seen(fx, &["a"]), &[]);
        assert_eq!(commit(fx, id, report, guard).await, CommitAnswer::NoSuchMeeting);
        let rules = PresenceRules::default();
        let judged = fx.store.judge_presence(id, rules, guard, fx.now()).await;
        assert_eq!(judged.expect("judge_presence"), CommitAnswer::NoSuchMeeting);
        assert_eq!(find(fx, id).await, None);
        assert_eq!(sessions(fx, id).await.len(), 0);
    }
    assert_eq!(super::attend::look(fx, bot.meeting.id).await, bot);
}

pub async fn a_room_that_is_gone_ends_its_meeting(fx: &Arc<Fixture>) {
    let id = room_with(fx, "weekly", &["a"]).await;
    let grace = PresenceRules::default().gone_grace;
    fx.advance(MINUTE);
    let gone_since = fx.now();
    let first = look(fx, id, Look::Gone, &[]).await;
    assert_eq!((first.meeting.num_clients, first.again_at), (1, Some(gone_since + grace)));
    fx.advance(grace);
    let second = look(fx, id, Look::Gone, &[]).await;
    assert_eq!(second.tally.ended, Some(EndReason::RoomGone));
    assert_eq!((second.meeting.num_clients, second.meeting.ended_at), (0, Some(fx.now())));
    let closed = sessions(fx, id).await["a"].closed.expect("it is over");
    assert_eq!((closed.at, closed.by), (gone_since, ClosedBy::RoomGone));
    let ada = user(fx, "ada").await;
    let row = meetings_of(fx, ada).await.remove(0).meeting;
    assert_eq!((row.status.as_str(), row.end_time), ("completed", Some(fx.now())));
    assert_eq!((row.start_time, row.updated_at), (second.meeting.started_at, fx.now()));
}

/// As a handler does it: under the lease of the meeting's own job, which runs again as it is told.
pub async fn a_look_runs_under_the_job_of_its_meeting(fx: &Arc<Fixture>) {
    let ada = user(fx, "ada").await;
    let id = open(fx, ada, "weekly").await.id;
    let heard = [hint(fx, HintKind::Joined, "a", fx.now(), None)];
    fx.join(poll_wish(id, &heard, fx.now())).await;
    let job = fx.claim_one(POLL_KIND).await;
    let hints = read_hints(&job.facts.payload.to_value());
    assert_eq!(hints, heard, "what was heard waits for the look");
    let (no, guard) = (job.lease.lease_no.get(), job.lease_ref());
    let report = LookReport { no, began_at: fx.now(), look: seen(fx, &["a"]), hints };
    let written = written(commit(fx, id, report, guard).await);
    assert_eq!(written.meeting.num_clients, 1);
    // Meanwhile something else was heard: it is not lost.
    let more = [hint(fx, HintKind::Joined, "b", fx.now(), None)];
    fx.put(poll_wish(id, &more, fx.now())).await;
    let payload = Some(write_hints(&written.hints));
    let at = written.again_at.expect("it may have been too early");
    let state = fx.land(guard, Outcome::Again { at, payload }).await;
    assert_eq!(state, JobState::Completed, "the one that waits has what it left");
    assert_eq!(jobs_of(fx, POLL_KIND, id).await.len(), 2);
    let next = fx.claim_one(POLL_KIND).await;
    assert!(next.lease.lease_no.get() > no, "and is newer than the last");
    assert_eq!(frames_of(fx, id).await, written.frames);
}

pub async fn sessions_are_listed_in_pages(fx: &Arc<Fixture>) {
    let id = room(fx, "weekly").await;
    for group in [vec!["c", "a"], vec!["c", "a", "b", "e"], vec!["a", "b", "d"]] {
        sees(fx, id, &group).await;
        fx.advance(MINUTE);
    }
    let list = async |open, after, rows_max| {
        let filter = SessionFilter { open, after, rows_max };
        fx.store.presence_sessions(id, filter).await.expect("presence_sessions")
    };
    let all = list(None, None, 100).await;
    let ids: Vec<&str> = all.iter().map(|session| session.session_id.as_str()).collect();
    assert_eq!(ids, ["a", "c", "b", "e", "d"], "by when they came, then by name");
    for open in [None, Some(true), Some(false)] {
        let wanted = |session: &&PresenceSession| open.is_none_or(|open| session.is_open() == open);
        let expected: Vec<PresenceSession> = all.iter().filter(wanted).cloned().collect();
        for rows_max in [1, 2, 5] {
            let (mut found, mut after) = (Vec::new(), None);
            loop {
                let page = list(open, after, rows_max).await;
                assert!(page.len() <= rows_max as usize);
                let Some(last) = page.last() else { break };
                after = Some((last.joined_at, last.session_id.clone()));
                found.extend(page);
            }
            assert_eq!(found, expected, "{open:?} by {rows_max}");
        }
    }
    let nowhere = fx.store.presence_sessions(MeetingId::new(1_000_000), ALL_SESSIONS).await;
    assert_eq!(nowhere.expect("presence_sessions"), vec![]);
    assert_eq!(list(None, None, 0).await, vec![]);
}
