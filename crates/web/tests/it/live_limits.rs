//! What clients of `/ws` may cost, and how those end that cost more.

use std::time::Duration;

use roundsman_core::ports::Database;
use roundsman_engine::users::TokenWish;
use roundsman_testkit::eventually;
use roundsman_web::LiveLimits;
use serde_json::json;
use tokio::io::AsyncWriteExt;
use tokio::time::timeout;
use tokio_tungstenite::tungstenite::Error;

use crate::app::{App, Setup};
use crate::app_live::{SOON, meet};
use crate::app_transcripts::said;
use crate::by_hand::{goodbye, masked, open_socket, rest_of};

/// Soon enough to see it in a test, and late enough for a busy machine.
const SHORTLY: Duration = Duration::from_millis(200);

/// Longer than a busy machine takes to let everybody have their turn.
pub(crate) const PATIENCE: Duration = Duration::from_secs(1);

pub(crate) fn app_with(live: LiveLimits) -> App {
    App::with(Setup { live, body_bytes_max: 1024 * 1024, ..Setup::default() })
}

pub(crate) async fn hits(app: &App, limit: &str) -> bool {
    let metrics = app.admin().get("/metrics").await.expect(200);
    metrics.text.contains(&format!("roundsman_limit_hits_total{{limit=\"{limit}\"}}"))
}

#[tokio::test]
async fn a_client_that_does_not_answer_a_ping_is_closed_with_its_place() {
    let app = app_with(LiveLimits { ping_every: PATIENCE / 2, ..LiveLimits::default() });
    let running = app.serve();
    let (_, bot, _) = app.meeting_of("ada@example.org").await;
    let key = app.token("ada@example.org", &[]).await;
    let mut silent = open_socket(running.address, &key).await;
    let wish = json!({"action": "subscribe", "meetings": [{"meeting_id": bot.meeting_id}]});
    silent.write_all(&masked(&wish.to_string())).await.unwrap();
    let (code, reason) = goodbye(&rest_of(&mut silent).await);
    assert_eq!(code, 1013);
    let expected = format!("no answer to a ping; last seq {}@", bot.meeting_id);
    assert!(reason.starts_with(&expected), "{reason}");

    // One that reads answers by itself, and stays.
    let mut alive = running.listen(&key).await;
    for _ in 0..2 {
        let quiet = timeout(PATIENCE, alive.next()).await;
        assert!(quiet.is_err(), "{quiet:?}");
    }
    assert_eq!(alive.ask(json!({"action": "ping"})).await["type"], "pong");
}

#[tokio::test]
async fn a_key_has_so_many_connections_and_no_more() {
    let app = app_with(LiveLimits { connections_per_key_max: 1, ..LiveLimits::default() });
    let running = app.serve();
    let key = app.token("ada@example.org", &[]).await;
    let mut first = running.listen(&key).await;
    assert_eq!(first.ask(json!({"action": "ping"})).await["type"], "pong");
    let mut second = running.listen(&key).await;
    assert_eq!(second.next().await["error"], "too_many_connections");
    assert_eq!(second.closed().await.0, 4429);
    assert!(hits(&app, "live_connections_per_key").await);
    let other = app.token("ada@example.org", &[]).await;
    let mut other = running.listen(&other).await;
    assert_eq!(other.ask(json!({"action": "ping"})).await["type"], "pong");
    drop(first);
    let again = eventually(SOON, async || {
        let mut again = running.listen(&key).await;
        let answer = again.ask(json!({"action": "ping"})).await;
        (answer["type"] == "pong").then_some(())
    });
    again.await.expect("the place is free again");
}

#[tokio::test]
async fn a_node_has_so_many_connections_and_no_more() {
    let app = app_with(LiveLimits { connections_max: 1, ..LiveLimits::default() });
    let running = app.serve();
    let key = app.token("ada@example.org", &[]).await;
    let mut first = running.listen(&key).await;
    assert_eq!(first.ask(json!({"action": "ping"})).await["type"], "pong");
    for path in ["/ws", "/ingest/ws"] {
        let refused = running.try_socket(path, &[("x-api-key", &key)]).await;
        match refused.err() {
            Some(Error::Http(response)) => assert_eq!(response.status().as_u16(), 429),
            other => panic!("{other:?}"),
        }
    }
    assert!(hits(&app, "live_connections").await);
}

#[tokio::test]
async fn a_connection_has_so_many_subscriptions_and_no_more() {
    let app = app_with(LiveLimits { subscriptions_max: 1, ..LiveLimits::default() });
    let running = app.serve();
    let (ada, first, _) = app.meeting_of("ada@example.org").await;
    app.allow_bots("ada@example.org", 2).await;
    let second = app.start_bot(&ada, "bbb-bbbb-bbb").await;
    let mut socket = running.listen(&app.token("ada@example.org", &[]).await).await;
    let meetings = json!([{"meeting_id": first.meeting_id}, {"meeting_id": second.meeting_id}]);
    let refused = socket.ask(json!({"action": "subscribe", "meetings": meetings})).await;
    assert_eq!(refused["error"], "invalid_subscribe_payload");
    assert_eq!(refused["details"], json!(["meetings[1] is one too many: the limit is 1"]));
    assert_eq!(socket.next().await["meetings"].as_array().unwrap().len(), 1);
    let left = json!({"action": "unsubscribe", "meetings": [{"meeting_id": first.meeting_id}]});
    assert_eq!(socket.ask(left).await["type"], "unsubscribed");
    let meetings = json!([{"meeting_id": second.meeting_id}]);
    let subscribed = socket.ask(json!({"action": "subscribe", "meetings": meetings})).await;
    assert_eq!(subscribed["meetings"][0]["meeting_id"], second.meeting_id);
}

#[tokio::test]
async fn commands_have_a_pace_and_a_size() {
    let app = app_with(LiveLimits { commands_per_sec_max: 3, ..LiveLimits::default() });
    let running = app.serve();
    let key = app.token("ada@example.org", &[]).await;
    let mut hasty = running.listen(&key).await;
    for _ in 0..3 {
        assert_eq!(hasty.ask(json!({"action": "ping"})).await["type"], "pong");
    }
    assert_eq!(hasty.ask(json!({"action": "ping"})).await["error"], "too_many_commands");
    assert_eq!(hasty.closed().await.0, 1008);

    let mut large = running.listen(&key).await;
    large.send_text(&format!("{{\"action\":\"{}\"}}", "x".repeat(17 * 1024))).await;
    assert_eq!(large.closed().await.0, 1009);
    // A frame that claims to be huge is refused before it is there.
    let mut liar = open_socket(running.address, &key).await;
    liar.write_all(&[0x81, 0xff, 0, 0, 0, 0, 0x40, 0, 0, 0, 1, 2, 3, 4]).await.unwrap();
    assert_eq!(goodbye(&rest_of(&mut liar).await).0, 1009);
    let mut unmasked = open_socket(running.address, &key).await;
    unmasked.write_all(b"\x81\x02{}").await.unwrap();
    assert_eq!(goodbye(&rest_of(&mut unmasked).await).0, 1002);
    let mut compressed = open_socket(running.address, &key).await;
    compressed.write_all(&[0xc1, 0x80, 0, 0, 0, 0]).await.unwrap();
    assert_eq!(goodbye(&rest_of(&mut compressed).await).0, 1002);
}

#[tokio::test]
async fn a_key_that_opens_nothing_any_more_is_closed() {
    let app = app_with(LiveLimits { recheck_every: SHORTLY, ..LiveLimits::default() });
    let running = app.serve();
    let (_, _, producer) = app.meeting_of("ada@example.org").await;
    let key = app.token("ada@example.org", &[]).await;
    let (mut revoked, mut stays) = (running.listen(&key).await, {
        let other = app.token("ada@example.org", &[]).await;
        running.listen(&other).await
    });
    revoked.subscribe().await;
    stays.subscribe().await;
    let id = key.split('_').nth(1).unwrap();
    app.admin().delete(&format!("/admin/tokens/{id}")).await.expect(204);
    assert_eq!(revoked.next().await, json!({"type": "error", "error": "invalid_api_key"}));
    assert_eq!(revoked.closed().await.0, 4401);
    producer.say(&[said(1.0, "Ada", "still here")]).await;
    assert_eq!(stays.next().await["type"], "transcript.mutable");

    // A database that cannot be asked takes nothing away from anybody.
    app.store.close().await;
    app.clock.advance(Duration::from_mins(5));
    let quiet = timeout(SHORTLY * 3, stays.next()).await;
    assert!(quiet.is_err(), "{quiet:?}");
    assert_eq!(stays.ask(json!({"action": "ping"})).await["type"], "pong");
}

#[tokio::test]
async fn a_key_that_ends_is_closed() {
    let app = app_with(LiveLimits { recheck_every: SHORTLY, ..LiveLimits::default() });
    let running = app.serve();
    app.meeting_of("ada@example.org").await;
    let user = app.state.users.user_by_email("ada@example.org").await.unwrap().id;
    let wish = TokenWish { expires_in: Some(Duration::from_secs(60)), ..TokenWish::default() };
    let key = app.state.users.issue_token(user, wish).await.unwrap().text;
    let mut socket = running.listen(&key).await;
    socket.subscribe().await;
    let quiet = timeout(SHORTLY * 2, socket.next()).await;
    assert!(quiet.is_err(), "{quiet:?}");
    app.clock.advance(Duration::from_secs(60));
    assert_eq!(socket.next().await["error"], "invalid_api_key");
    assert_eq!(socket.closed().await.0, 4401);
}

#[tokio::test]
async fn a_revoked_key_opens_nothing_new_even_before_it_is_closed() {
    let app = App::new();
    let running = app.serve();
    app.meeting_of("ada@example.org").await;
    let key = app.token("ada@example.org", &[]).await;
    let mut socket = running.listen(&key).await;
    assert_eq!(socket.ask(json!({"action": "ping"})).await["type"], "pong");
    let id = key.split('_').nth(1).unwrap();
    app.admin().delete(&format!("/admin/tokens/{id}")).await.expect(204);
    let refused = socket.ask(json!({"action": "subscribe", "meetings": [meet()]})).await;
    assert_eq!(refused["error"], "authorization_service_error");
    assert_eq!(refused["status"], 403);
    assert_eq!(refused["detail"], r#"{"detail":"Invalid API token"}"#);
    assert_eq!(socket.next().await["error"], "invalid_api_key");
    assert_eq!(socket.closed().await.0, 4401);
}

#[tokio::test]
async fn a_server_that_stops_says_so_and_waits_for_its_sockets() {
    let app = App::new();
    let running = app.serve();
    app.meeting_of("ada@example.org").await;
    let mut socket = running.listen(&app.token("ada@example.org", &[]).await).await;
    socket.subscribe().await;
    let mut producer = running.socket("/ingest/ws", &[]).await;
    app.stopping.cancel();
    running.shutdown.cancel();
    assert_eq!(socket.closed().await.0, 1012);
    assert_eq!(producer.closed().await.0, 1012);
    drop((socket, producer));
    running.ended().await;
}
