//! Whatever goes wrong, nobody is taken for gone (R-7, R-10).

use std::time::Duration;

use roundsman_core::ports::{NewRoom, RoomsError, VideoRecordings, VideoRooms};
use roundsman_core::recordings::RecordingId;
use roundsman_testkit::daily::{Fault, FaultRule, Route};

use super::{Pair, guest, room, secs, unlimited};

/// How long an answer is waited for that never comes.
const PATIENCE: Duration = Duration::from_millis(300);

#[derive(Debug, PartialEq, Eq)]
enum Told {
    Odd,
    Unavailable,
    Refused,
    RateLimited(Option<u64>),
    NotFound,
}

fn told(error: &RoomsError) -> Told {
    match error {
        RoomsError::Odd(_) => Told::Odd,
        RoomsError::Unavailable(_) => Told::Unavailable,
        RoomsError::Refused(_) => Told::Refused,
        RoomsError::RateLimited { after } => Told::RateLimited(after.map(|after| after.as_secs())),
        RoomsError::NotFound => Told::NotFound,
        RoomsError::NotConfigured => panic!("it is configured"),
    }
}

/// What goes wrong with any answer, and how it is told.
fn faults() -> Vec<(Fault, Told)> {
    let answer = |status, body: &str| Fault::Answer(status, body.to_owned());
    vec![
        (Fault::Status(500), Told::Unavailable),
        (Fault::Status(502), Told::Unavailable),
        (Fault::Status(503), Told::Unavailable),
        (Fault::Status(408), Told::Unavailable),
        (Fault::Hang, Told::Unavailable),
        (Fault::Slow(secs(20)), Told::Unavailable),
        (Fault::Reset, Told::Unavailable),
        (Fault::CutAfter(0), Told::Unavailable),
        (Fault::CutAfter(5), Told::Unavailable),
        (Fault::Html, Told::Odd),
        (Fault::Truncated, Told::Odd),
        (Fault::WrongTypes, Told::Odd),
        (Fault::Huge, Told::Odd),
        (answer(200, ""), Told::Odd),
        (answer(200, "null"), Told::Odd),
        (answer(200, "[1]"), Told::Odd),
        (answer(200, r#"{"error":"server-error","info":"x"}"#), Told::Odd),
        (answer(204, ""), Told::Odd),
        (answer(302, ""), Told::Odd),
        (answer(404, "<html>nothing here</html>"), Told::Odd),
        (answer(404, ""), Told::Odd),
        (answer(404, "{}"), Told::Odd),
        (Fault::Status(400), Told::Refused),
        (Fault::Status(401), Told::Refused),
        (Fault::Status(403), Told::Refused),
        (Fault::Status(418), Told::Refused),
        (Fault::TooManyRequests { retry_after_secs: None }, Told::RateLimited(None)),
        (Fault::TooManyRequests { retry_after_secs: Some(7) }, Told::RateLimited(Some(7))),
    ]
}

/// A client of its own for every fault: a refusal silences it for a while.
async fn with_two_people(route: Route, fault: Fault) -> Pair {
    let pair = Pair::with(|options| {
        options.limits = unlimited();
        if fault == Fault::Hang || fault == Fault::Slow(secs(20)) {
            options.request_max = PATIENCE;
        }
    })
    .await;
    pair.daily.join("room", guest("Ada"));
    pair.daily.join("room", guest("Bob"));
    pair.daily.add_fault(FaultRule::always(route, fault));
    pair
}

#[tokio::test]
async fn an_error_never_reads_as_an_empty_room() {
    let mut faults = faults();
    faults.extend([
        (Fault::EmptyObject, Told::Odd),
        (Fault::DuplicateIds, Told::Odd),
        (Fault::MissingIds, Told::Odd),
        (Fault::Partial, Told::Odd),
        (Fault::NotFound, Told::NotFound),
        (Fault::Expired, Told::NotFound),
        (
            Fault::Answer(
                400,
                r#"{"error":"invalid-request-error","info":"room has expired"}"#.into(),
            ),
            Told::NotFound,
        ),
        (Fault::Answer(400, r#"{"deleted":true,"error":"x"}"#.into()), Told::NotFound),
    ]);
    for (fault, expected) in faults {
        let pair = with_two_people(Route::RoomPresence, fault.clone()).await;
        let error = pair.look("room").await.expect_err(&format!("{fault:?}"));
        assert!(!format!("{error:?} {error}").contains(pair.daily.api_key()), "{error}");
        assert_eq!(told(&error), expected, "{fault:?}");
        pair.daily.clear_faults();
        pair.clock.advance(secs(60));
        assert_eq!(pair.ids("room").await, pair.daily.present("room"), "after {fault:?}");
    }
}

#[tokio::test]
async fn what_is_only_odd_about_a_person_is_no_error() {
    let pair = with_two_people(Route::RoomPresence, Fault::NullNames).await;
    let people = pair.look("room").await.unwrap();
    assert_eq!(people.len(), 2);
    assert!(people.iter().all(|p| p.user_id.is_none() && p.user_name.is_none()));

    let pair = with_two_people(Route::RoomPresence, Fault::Slow(Duration::from_millis(20))).await;
    assert_eq!(pair.look("room").await.unwrap().len(), 2);

    // These look like any other answer: what they mean is decided by those who know more.
    let pair = with_two_people(Route::RoomPresence, Fault::SpuriousEmpty).await;
    assert_eq!(pair.look("room").await, Ok(vec![]));
    let pair = with_two_people(Route::RoomPresence, Fault::Stale(secs(30))).await;
    assert_eq!(pair.look("room").await, Ok(vec![]));
    pair.clock.advance(secs(30));
    assert_eq!(pair.look("room").await.unwrap().len(), 2);
}

#[tokio::test]
async fn an_error_never_reads_as_an_empty_domain() {
    for (fault, expected) in faults() {
        let pair = with_two_people(Route::DomainPresence, fault.clone()).await;
        let error = pair.client.domain_presence().await.expect_err(&format!("{fault:?}"));
        assert_eq!(told(&error), expected, "{fault:?}");
    }
    for fault in [Fault::MissingIds, Fault::DuplicateIds] {
        let pair = with_two_people(Route::DomainPresence, fault.clone()).await;
        pair.daily.join("other", guest("Cyd"));
        let look = pair.client.domain_presence().await.unwrap();
        assert!(!look.rooms.contains_key("room"), "{fault:?}: it is looked at by itself");
        let record = pair.daily.present("room");
        assert!(look.differs("room", &record));
    }
}

#[tokio::test]
async fn an_error_never_reads_as_an_empty_list_of_recordings() {
    for (fault, expected) in faults() {
        let pair = with_two_people(Route::Recordings, fault.clone()).await;
        let error = pair.client.recordings_page(None).await.expect_err(&format!("{fault:?}"));
        assert_eq!(told(&error), expected, "{fault:?}");
    }
    let pair = with_two_people(Route::Recordings, Fault::EmptyObject).await;
    assert_eq!(told(&pair.client.recordings_page(None).await.unwrap_err()), Told::Odd);
    let body = r#"{"total_count":5,"data":[]}"#.to_owned();
    let pair = with_two_people(Route::Recordings, Fault::Answer(200, body)).await;
    assert_eq!(told(&pair.client.recordings_page(None).await.unwrap_err()), Told::Odd);
}

/// What does not say that something was done was not done. (Some deletions are answered with
/// nothing, which says it.)
#[tokio::test]
async fn an_error_never_reads_as_done() {
    let without_words = |fault: &Fault| matches!(fault, Fault::Answer(200 | 204, _));
    for (fault, expected) in faults().into_iter().filter(|(fault, _)| !without_words(fault)) {
        let pair = with_two_people(Route::RoomDelete, fault.clone()).await;
        let deleted = pair.client.delete_room(&room("room")).await;
        assert_eq!(told(&deleted.expect_err(&format!("{fault:?}"))), expected, "{fault:?}");
        pair.daily.add_fault(FaultRule::always(Route::Rooms, fault.clone()));
        pair.daily.add_fault(FaultRule::always(Route::Webhooks, fault.clone()));
        pair.clock.advance(secs(60));
        let wish = NewRoom { name: None, is_private: false, expires_at: None, recording: None };
        let made = pair.client.create_room(wish).await;
        assert_eq!(told(&made.expect_err(&format!("{fault:?}"))), expected, "{fault:?}");
        pair.clock.advance(secs(60));
        let subscriptions = pair.client.subscriptions().await;
        // An empty list is shorter than what comes through.
        if fault != Fault::CutAfter(5) {
            let error = subscriptions.expect_err(&format!("{fault:?}"));
            assert_eq!(told(&error), expected, "{fault:?}");
        }
    }
}

#[tokio::test]
async fn a_link_that_is_none_is_told() {
    let pair = Pair::new().await;
    let id = RecordingId::new("none").unwrap();
    assert_eq!(pair.client.access_link(&id, None).await, Err(RoomsError::NotFound));
    for text in
        ["recording is not available", "", "file:///etc/passwd", "javascript:alert(1)", "//x"]
    {
        pair.daily.clear_faults();
        let started_at = roundsman_core::Timestamp::EPOCH;
        let recording = roundsman_testkit::daily::NewRecording::cloud("room", started_at, vec![1]);
        let id = RecordingId::new(&pair.daily.record(recording)).unwrap();
        pair.daily
            .add_fault(FaultRule::always(Route::AccessLink, Fault::LinkError(text.to_owned())));
        let error = pair.client.access_link(&id, None).await.unwrap_err();
        assert_eq!(told(&error), Told::Odd, "{text}");
    }
}
