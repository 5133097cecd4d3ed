//! A server process is started, observed, signalled and never left behind.

use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::time::Duration;

use roundsman_testkit::process::ServerOptions;
use serde_json::json;

const LIMIT: Duration = Duration::from_secs(20);

fn options() -> ServerOptions {
    ServerOptions::new(env!("CARGO_BIN_EXE_stand-in-server"))
}

#[tokio::test]
async fn a_ready_server_answers_and_its_output_is_kept() {
    let server = options().start().await.unwrap();
    assert!(server.data().is_dir());
    let line = server.wait_for_log("listening on", LIMIT).await.unwrap();
    assert!(line.ends_with(&format!("127.0.0.1:{}", server.port())), "{line}");
    assert_eq!(server.stdout().unwrap(), "");

    let client = server.client().unwrap().with_token("secret").unwrap();
    let answer = client.post("/echo?a=b", &json!({"n": 1})).await.unwrap();
    assert_eq!(answer.status, 200);
    assert_eq!(answer.header("x-stand-in"), Some("yes"));
    let expected = json!({
        "method": "POST", "path": "/echo?a=b", "authorization": "Bearer secret", "body": {"n": 1},
    });
    assert_eq!(answer.body, expected);
    let missing = client.get("/missing").await.unwrap();
    assert!(missing.expect_status(200).unwrap_err().to_string().contains("got 404"));
}

#[tokio::test]
async fn a_killed_server_starts_again_on_its_port_and_data() {
    let folder = tempfile::tempdir().unwrap();
    let mut server = options().data(folder.path().join("kept")).start().await.unwrap();
    let first = (server.pid().unwrap(), server.base_url());
    server.kill_9().await.unwrap();
    assert!(server.client().unwrap().get("/").await.is_err());
    assert!(server.pid().is_err());
    server.start_again().await.unwrap();
    assert_ne!(server.pid().unwrap(), first.0);
    assert_eq!(server.base_url(), first.1);
    assert_eq!(server.stderr().unwrap().matches("listening on").count(), 2);
    assert!(server.data().ends_with("kept"));
}

#[tokio::test]
async fn a_stopped_process_is_silent_until_it_continues() {
    let mut server = options().start().await.unwrap();
    let client = server.client().unwrap();
    server.sigstop().unwrap();
    let silent = tokio::time::timeout(Duration::from_millis(200), client.get("/")).await;
    assert!(silent.is_err(), "a stopped process answered");
    server.sigcont().unwrap();
    assert_eq!(client.get("/").await.unwrap().status, 200);
    server.sigterm().unwrap();
    let status = server.wait_exit(LIMIT).await.unwrap();
    assert_eq!(status.signal(), Some(15));
    assert!(server.sigterm().is_err());
}

#[tokio::test]
async fn a_failed_start_is_an_error_that_shows_the_log() {
    let error = options().arg("--fail").start().await.unwrap_err();
    let text = format!("{error:#}");
    assert!(text.contains("this server was told to fail"), "{text}");
    assert!(text.contains("exit status: 3"), "{text}");
}

#[tokio::test]
async fn waiting_for_the_end_is_bounded() {
    let mut server = options().start().await.unwrap();
    let error = server.wait_exit(Duration::from_millis(100)).await.unwrap_err();
    assert!(error.to_string().contains("still running"), "{error}");
    assert!(server.pid().is_ok());
}

#[tokio::test]
async fn a_dropped_server_is_killed() {
    let server = options().start().await.unwrap();
    let process = format!("/proc/{}", server.pid().unwrap());
    assert!(Path::new(&process).exists());
    drop(server);
    // Killed at once; it stays visible until the runtime has fetched its exit code.
    roundsman_testkit::eventually(LIMIT, async || {
        let status = std::fs::read_to_string(format!("{process}/status")).unwrap_or_default();
        (status.is_empty() || status.contains("State:\tZ")).then_some(())
    })
    .await
    .unwrap();
}
