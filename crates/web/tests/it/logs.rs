//! What the log says of requests: enough to find one, once, and no secret.

use std::cell::RefCell;
use std::io;
use std::sync::{Arc, Once};

use roundsman_core::ports::Database;
use serde_json::{Value, json};

use crate::app::{ADMIN_TOKEN, App, Setup};
use crate::app_bots::MEET;
use crate::app_transcripts::{AT_MEET, said};
use crate::server::{Broken, Fault};

thread_local! {
    static LINES: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// What the test's own thread logs, as lines of JSON. There is one subscriber for the process:
/// whether a line is wanted at all is decided once for all threads.
struct Log;

impl Log {
    fn start() -> Self {
        static ONCE: Once = Once::new();
        ONCE.call_once(|| {
            let subscriber = tracing_subscriber::fmt()
                .json()
                .with_max_level(tracing::Level::TRACE)
                .with_writer(|| Log)
                .finish();
            tracing::subscriber::set_global_default(subscriber).unwrap();
        });
        Log
    }

    #[expect(clippy::unused_self, reason = "only a log that was started can be read")]
    fn text(&self) -> String {
        LINES.with_borrow(|lines| String::from_utf8(lines.clone()).unwrap())
    }

    /// The lines about requests.
    fn requests(&self) -> Vec<Value> {
        let text = self.text();
        let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        lines.filter(|line| line["fields"]["request_id"].is_string()).collect()
    }
}

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        LINES.with_borrow_mut(|lines| lines.extend_from_slice(bytes));
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn a_request_is_logged_once_and_without_secrets() {
    let log = Log::start();
    let app = App::new();
    let token = app.token("ada@example.org", &[]).await;
    let ada = app.client().header("x-api-key", &token).header("x-request-id", "trace-7");
    ada.post("/jobs?api_key=s3cret", json!({"kind": "work", "payload": "s3cret"})).await;
    app.client().header("authorization", "Bearer s3cret").get("/jobs").await;
    app.admin().post("/admin/users/1/tokens", json!({})).await.expect(201);

    let lines = log.requests();
    assert_eq!(lines.len(), 3, "{}", log.text());
    let fields = &lines[0]["fields"];
    assert_eq!((&fields["method"], &fields["path"]), (&json!("POST"), &json!("/jobs")));
    assert_eq!((&fields["status"], &fields["request_id"]), (&json!(201), &json!("trace-7")));
    assert!(fields["ms"].is_number());
    assert_eq!(lines[1]["fields"]["code"], "unauthorized");
    assert!(lines.iter().all(|line| line["level"] == "DEBUG"), "nothing to wake anybody for");
    let secret = token.rsplit('_').next().unwrap();
    for hidden in [secret, "s3cret", ADMIN_TOKEN] {
        assert!(!log.text().contains(hidden), "{}", log.text());
    }
}

#[tokio::test]
async fn a_bots_token_is_in_no_line_of_the_log_and_in_no_answer() {
    let log = Log::start();
    let app = App::new();
    let ada = app.user("ada@example.org").await;
    let bot = app.start_bot(&ada, MEET).await;
    let (_, code) = bot.token.rsplit_once('_').unwrap();
    let mut answers = vec![
        bot.report_as_stock("status_change", json!({"status": "active"})).await.expect(200),
        bot.report_as_stock("status_change", json!({})).await.expect(422),
        bot.report_as_stock("vanished", json!({})).await.expect(404),
        bot.report_as_stock("exited/more", json!({})).await.expect(404),
        app.client()
            .get(&format!("/bots/internal/callback/{}/exited", bot.token))
            .await
            .expect(405),
        app.client().get(&format!("//bots/internal/callback/{}/x", bot.token)).await.expect(404),
        bot.report("joined", json!({})).await.expect(200),
    ];
    app.store.close().await;
    answers.push(bot.report_as_stock("exited", json!({"exit_code": 0})).await.expect(503));
    answers.push(bot.report("heartbeat", json!({})).await.expect(503));
    for answer in answers {
        assert!(!answer.text.contains(code), "{}", answer.text);
    }
    assert!(!log.text().contains(code), "{}", log.text());
    let paths: Vec<Value> =
        log.requests().iter().map(|line| line["fields"]["path"].clone()).collect();
    assert!(paths.contains(&json!("/bots/internal/callback/{token}/exited")), "{paths:?}");
}

#[tokio::test]
async fn a_key_in_an_address_and_the_secret_of_a_link_are_not_logged() {
    let log = Log::start();
    let app = App::new();
    let running = app.serve();
    let (ada, _, producer) = app.meeting_of("ada@example.org").await;
    let key = app.token("ada@example.org", &[]).await;
    let mut listener = running.socket(&format!("/ws?api_key={key}"), &[]).await;
    listener.subscribe().await;
    let mut stranger = running.socket("/ws?api_key=s3cret-and-wrong", &[]).await;
    assert_eq!(stranger.next().await["error"], "invalid_api_key");
    producer.say(&[said(1.0, "Ada", "w0rds that were said")]).await;
    listener.next().await;

    let shared = ada.post(&format!("{AT_MEET}/share"), json!({})).await.expect(200);
    let secret = shared.body["share_id"].as_str().unwrap();
    app.client().get(&format!("/public/transcripts/{secret}.txt")).await.expect(200);
    app.client().get(&format!("/public/transcripts/{secret}.exe")).await.expect(404);
    app.client().get(&format!("//public/transcripts/{secret}.txt")).await.expect(404);
    app.client().delete(&format!("/public/transcripts/{secret}.txt")).await.expect(405);
    app.store.close().await;
    app.client().get(&format!("/public/transcripts/{secret}.txt")).await.expect(503);
    let code = key.rsplit('_').next().unwrap();
    let signature = producer.token.rsplit('.').next().unwrap();
    for hidden in [code, "s3cret-and-wrong", secret, signature, "w0rds"] {
        assert!(!log.text().contains(hidden), "{hidden}: {}", log.text());
    }
    let lines = log.requests();
    let upgraded = lines.iter().filter(|line| line["fields"]["path"] == "/ws");
    assert!(upgraded.clone().all(|line| line["fields"]["status"] == 101));
    assert_eq!(upgraded.count(), 2, "{}", log.text());
    let shown = lines.iter().filter(|line| line["fields"]["path"] == "/public/transcripts/{token}");
    assert_eq!(shown.count(), 4);
}

#[tokio::test]
async fn a_server_error_is_logged_once_with_its_cause() {
    let log = Log::start();
    let ping = Some(Arc::new(Broken(|| Fault::Panics)) as Arc<dyn Database>);
    let app = App::with(Setup { ping, ..Setup::default() });
    let answer = app.client().get("/readyz").await;
    answer.expect_problem(500, "internal");
    let lines = log.requests();
    assert_eq!(lines.len(), 1, "{}", log.text());
    let fields = &lines[0]["fields"];
    assert_eq!(lines[0]["level"], "ERROR");
    assert_eq!(fields["request_id"], answer.body["request_id"]);
    assert!(fields["cause"].as_str().unwrap().contains("the secret of the database"));

    app.store.close().await;
    app.admin().get("/jobs").await.expect_problem(503, "storage_unavailable");
    let lines = log.requests();
    assert_eq!((lines.len(), &lines[1]["level"]), (2, &json!("ERROR")));
    assert_eq!(lines[1]["fields"]["code"], "storage_unavailable");
}
