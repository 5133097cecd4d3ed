//! Rows of an existing Vexa database: its words count, its bots end, its text is forgotten.
//!
//! These cases need a [`Backdoor`](super::Backdoor), for nobody else makes such rows.

use std::collections::BTreeSet;
use std::sync::Arc;

use roundsman_core::bots::{BotStatus, Meeting, MeetingId};
use roundsman_core::jobs::Json;
use roundsman_core::ports::{
    AnonymiseAnswer, MeetingFilter, MeetingPage, ReserveAnswer, StopAnswer,
};
use roundsman_core::users::UserId;

use super::attend::{
    at_address, bot_in, by_number, change, exit, find, log_of, look, meetings_of, new_bot,
    states_of, sweep, try_reserve, user, user_with_limit,
};
use super::backdoor::Said;
use super::fixture::{Fixture, at_once};
use super::wishes::{MINUTE, SECOND};

/// Every word that may be in the table, and whether a bot of that status lives.
const WORDS: [(&str, Option<BotStatus>); 10] = [
    ("requested", Some(BotStatus::Reserved)),
    ("reserved", Some(BotStatus::Reserved)),
    ("joining", Some(BotStatus::Starting)),
    ("awaiting_admission", Some(BotStatus::Starting)),
    ("active", Some(BotStatus::Active)),
    ("stopping", Some(BotStatus::Stopping)),
    ("completed", None),
    ("failed", None),
    ("error", None),
    ("open", None),
];

pub async fn words_of_an_existing_database_take_slots(fx: &Arc<Fixture>) {
    let Some(door) = fx.backdoor.clone() else { return };
    for (number, (word, status)) in (0i64..).zip(WORDS) {
        let owner = user_with_limit(fx, word, 1).await;
        // Far apart, so that none is the number that the database gives next.
        let id = MeetingId::new(900_000 + number * 1000);
        door.put_meeting(foreign(fx, owner, id, word)).await;
        let answer = try_reserve(fx, new_bot(owner, "elsewhere")).await;
        match status {
            Some(_) => {
                assert_eq!(answer, ReserveAnswer::LimitReached { live: 1, max: 1 }, "{word}");
            }
            None => assert!(matches!(answer, ReserveAnswer::Reserved(_)), "{word}: {answer:?}"),
        }
        let owner = user(fx, &format!("{word}-again")).await;
        let id = MeetingId::new(900_500 + number * 1000);
        door.put_meeting(foreign(fx, owner, id, word)).await;
        let answer = try_reserve(fx, new_bot(owner, "room")).await;
        match status {
            Some(_) => assert_eq!(answer, ReserveAnswer::AlreadyLive { meeting: id }, "{word}"),
            None => assert!(matches!(answer, ReserveAnswer::Reserved(_)), "{word}: {answer:?}"),
        }
    }
}

/// A live meeting without a bot of ours gets one, and with it an end.
pub async fn live_meetings_are_adopted(fx: &Arc<Fixture>) {
    let Some(door) = fx.backdoor.clone() else { return };
    let ada = user(fx, "ada").await;
    let ours = bot_in(fx, ada, "ours", BotStatus::Active).await;
    for (number, (word, _)) in (0i64..).zip(WORDS) {
        let id = MeetingId::new(900_000 + number);
        door.put_meeting(foreign(fx, ada, id, word)).await;
        if number % 2 == 1 {
            door.put_session(id, &format!("session-{number}-old"), fx.now() - SECOND).await;
            door.put_session(id, &format!("session-{number}"), fx.now()).await;
        }
    }
    fx.advance(SECOND);
    let mut counts = Vec::new();
    for _ in 0..3 {
        counts.push(fx.store.adopt_meetings(4, fx.now()).await.expect("adopt_meetings"));
    }
    assert_eq!(counts, [4, 2, 0]);
    for (number, (word, status)) in (0i64..).zip(WORDS) {
        let id = MeetingId::new(900_000 + number);
        let Some(status) = status else {
            assert_eq!(find(fx, id).await, None, "{word}");
            continue;
        };
        let record = look(fx, id).await;
        let uid =
            if number % 2 == 1 { format!("session-{number}") } else { format!("adopted-{id}") };
        assert_eq!(record.bot.connection_id.as_str(), uid);
        assert_eq!((record.status, record.meeting.status.as_str()), (status, word));
        let log = log_of(fx, id).await;
        assert_eq!(log.len(), 1);
        assert_eq!(log[0].from_state, None);
        assert_eq!((log[0].to_state.as_str(), log[0].cause.as_str()), (status.as_str(), "adopted"));
        let ended = change(fx, &record, exit(1)).await;
        assert_eq!(ended.status, BotStatus::Failed, "{word}");
        assert_eq!(states_of(fx, id).await, [status.as_str(), "failed"]);
    }
    assert_eq!(look(fx, ours.meeting.id).await, ours);
}

/// B5: one that nobody speaks for ends by the sweep.
pub async fn an_adopted_bot_that_is_silent_is_given_up(fx: &Arc<Fixture>) {
    let Some(door) = fx.backdoor.clone() else { return };
    let ada = user(fx, "ada").await;
    for (number, word) in (0i64..).zip(["requested", "awaiting_admission", "active", "stopping"]) {
        let id = MeetingId::new(900_000 + number);
        door.put_meeting(foreign(fx, ada, id, word)).await;
    }
    fx.store.adopt_meetings(100, fx.now()).await.expect("adopt_meetings");
    fx.advance(MINUTE * 60);
    assert_eq!(sweep(fx).await.len(), 4);
    let rows = meetings_of(fx, ada).await;
    assert!(rows.iter().all(|row| row.meeting.status == "failed"), "{rows:?}");
}

pub async fn of_many_who_adopt_at_once_one_does(fx: &Arc<Fixture>) {
    const MEETINGS: i64 = 20;
    let Some(door) = fx.backdoor.clone() else { return };
    let ada = user(fx, "ada").await;
    for number in 0..MEETINGS {
        let id = MeetingId::new(900_000 + number);
        door.put_meeting(foreign(fx, ada, id, "active")).await;
    }
    let callers = (0..6).map(|_| {
        let fx = Arc::clone(fx);
        async move { fx.store.adopt_meetings(100, fx.now()).await.expect("adopt_meetings") }
    });
    let mut adopted: u32 = at_once(callers).await.into_iter().sum();
    adopted += fx.store.adopt_meetings(100, fx.now()).await.expect("adopt_meetings");
    assert_eq!(i64::from(adopted), MEETINGS);
    let live = fx.store.live_bots(None, 100).await.expect("live_bots");
    assert_eq!(i64::try_from(live.len()), Ok(MEETINGS));
}

/// Wherever meetings are read, the old words mean what they mean now.
pub async fn old_words_are_understood_in_every_list(fx: &Arc<Fixture>) {
    let Some(door) = fx.backdoor.clone() else { return };
    let ada = user(fx, "ada").await;
    for (number, (word, _)) in (0i64..).zip(WORDS) {
        let mut meeting = foreign(fx, ada, MeetingId::new(900_000 + number), word);
        meeting.native_id = Some(word.to_owned());
        door.put_meeting(meeting).await;
    }
    let words = async |filter: MeetingFilter| {
        let page = MeetingPage { before: None, skip: 0, rows_max: 100 };
        let rows = fx.store.meetings(ada, filter, page).await.expect("meetings");
        rows.into_iter().map(|row| row.meeting.status).collect::<BTreeSet<_>>()
    };
    let all = words(MeetingFilter::default()).await;
    assert_eq!(all.len(), WORDS.len());
    let live = words(MeetingFilter { live: true, ..MeetingFilter::default() }).await;
    let expected = WORDS.iter().filter(|(_, status)| status.is_some());
    assert_eq!(live, expected.map(|(word, _)| (*word).to_owned()).collect());
    for (status, expected) in [
        (BotStatus::Reserved, vec!["requested", "reserved"]),
        (BotStatus::Starting, vec!["awaiting_admission", "joining"]),
        (BotStatus::Active, vec!["active"]),
        (BotStatus::Failed, vec!["error", "failed"]),
    ] {
        let found = words(MeetingFilter { status: Some(status), ..MeetingFilter::default() }).await;
        assert_eq!(found.into_iter().collect::<Vec<_>>(), expected);
    }
    // A meeting that never had a bot of ours is over for whoever wants to stop it.
    match fx.store.wish_stop(ada, at_address("completed"), "user", fx.now()).await {
        Ok(StopAnswer::Over(row)) => assert_eq!(row.bot, None),
        other => panic!("{other:?}"),
    }
}

/// What was said goes with the name of the meeting; what others said stays.
pub async fn what_was_said_is_forgotten(fx: &Arc<Fixture>) {
    let Some(door) = fx.backdoor.clone() else { return };
    let ada = user(fx, "ada").await;
    let ours = bot_in(fx, ada, "a", BotStatus::Completed).await.meeting.id;
    let other = bot_in(fx, ada, "b", BotStatus::Completed).await.meeting.id;
    let foreign_id = MeetingId::new(900_000);
    door.put_meeting(foreign(fx, ada, foreign_id, "completed")).await;
    for id in [ours, other, foreign_id] {
        for _ in 0..3 {
            let said = Said { end: 1.0, text: "secret".to_owned(), ..Said::default() };
            door.put_said(id, said).await;
        }
    }
    for id in [ours, foreign_id] {
        let answer = fx.store.anonymise_meeting(ada, by_number(id), fx.now()).await;
        assert_eq!(answer.expect("anonymise_meeting"), AnonymiseAnswer::Done);
        assert_eq!(door.count_said(id).await, 0);
        let again = fx.store.anonymise_meeting(ada, by_number(id), fx.now()).await;
        assert_eq!(again.expect("anonymise_meeting"), AnonymiseAnswer::Already);
    }
    assert_eq!(door.count_said(other).await, 3);
}

fn foreign(fx: &Fixture, user_id: UserId, id: MeetingId, status: &str) -> Meeting {
    Meeting {
        id,
        user_id,
        platform: "google_meet".to_owned(),
        native_id: Some("room".to_owned()),
        status: status.to_owned(),
        container_id: None,
        start_time: None,
        end_time: None,
        data: Json::from_stored(r#"{"name":"old"}"#.to_owned()),
        created_at: fx.now(),
        updated_at: fx.now(),
    }
}
