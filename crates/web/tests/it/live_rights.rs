//! T-18: whoever is connected and loses the right to a meeting hears no more of it.

use std::time::Duration;

use roundsman_web::LiveLimits;
use serde_json::json;

use crate::app::{App, Setup};
use crate::app_bots::MEET;
use crate::app_live::meet;
use crate::app_transcripts::{AT_MEET, said};

/// Soon enough to see it in a test.
const SHORTLY: Duration = Duration::from_millis(100);

/// Others write the table of meetings too, in an existing database: this one gives a meeting away.
fn give_away(folder: &std::path::Path, meeting_id: i64, email: &str) {
    let database = rusqlite::Connection::open(folder.join("test.db")).unwrap();
    let give = "UPDATE meetings SET user_id = (SELECT id FROM users WHERE email = ?2) \
                WHERE id = ?1";
    assert_eq!(database.execute(give, (meeting_id, email)).unwrap(), 1);
}

#[tokio::test]
async fn a_meeting_that_is_no_longer_theirs_is_heard_no_more() {
    let folder = tempfile::tempdir().unwrap();
    let live = LiveLimits { recheck_every: SHORTLY, ..LiveLimits::default() };
    let file = Some(folder.path().join("test.db"));
    let app = App::with(Setup { live, file, ..Setup::default() });
    let running = app.serve();
    let (ada, first, lost) = app.meeting_of("ada@example.org").await;
    app.user("bob@example.org").await;
    app.allow_bots("ada@example.org", 2).await;
    let second = app.start_bot(&ada, "bbb-bbbb-bbb").await;
    let kept = app.producer(&second).await;
    kept.start().await;

    let key = app.token("ada@example.org", &[]).await;
    let mut socket = running.listen(&key).await;
    let meetings = json!([meet(), {"meeting_id": second.meeting_id}]);
    let subscribed = socket.ask(json!({"action": "subscribe", "meetings": meetings})).await;
    assert_eq!(subscribed["meetings"].as_array().unwrap().len(), 2, "{subscribed}");
    let path = format!("{AT_MEET}/events");
    let mut events = app.events(&path, &[("x-api-key", &key)]).await;
    assert_eq!(events.data().await.1["type"], "subscribed");
    lost.say(&[said(1.0, "Ada", "while it is hers")]).await;
    assert_eq!(socket.next().await["meeting"]["id"], first.meeting_id);
    assert_eq!(events.data().await.0["event"], "transcript.mutable");

    give_away(folder.path(), first.meeting_id, "bob@example.org");
    let told = socket.next().await;
    assert_eq!(told["type"], "unsubscribed", "{told}");
    let left = told["meetings"].as_array().unwrap();
    assert_eq!((left.len(), &left[0]["native_id"]), (1, &json!(MEET)));
    while let Some(event) = events.next().await {
        assert!(!event.contains_key("data"), "the stream ends without a word more: {event:?}");
    }
    // What is said there is Bob's; what is hers she still hears.
    kept.say(&[said(1.0, "Ada", "still hers")]).await;
    assert_eq!(socket.next().await["meeting"]["id"], second.meeting_id);
    socket.is_silent().await;
    let refused = socket.ask(json!({"action": "subscribe", "meetings": [meet()]})).await;
    assert_eq!(refused["error"], "invalid_subscribe_payload", "{refused}");
}
