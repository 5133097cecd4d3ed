//! Links to transcripts: who has one can read, for a while.

use std::time::Duration;

use serde_json::{Value, json};

use crate::app::{App, Client};
use crate::app_transcripts::{AT_MEET, said};

async fn share(user: &Client, query: &str) -> Value {
    user.post(&format!("{AT_MEET}/share{query}"), json!({})).await.expect(200).body
}

fn link(share: &Value, format: &str) -> String {
    format!("/public/transcripts/{}.{format}", share["share_id"].as_str().unwrap())
}

#[tokio::test]
async fn a_link_opens_a_transcript_until_it_ends() {
    let app = App::new();
    let (ada, bot, producer) = app.meeting_of("ada@example.org").await;
    producer.say(&[said(1.0, "Ada", "for everybody")]).await;
    let host = ada.clone().header("host", "meetings.example.org");
    let made = share(&host, "").await;
    let secret = made["share_id"].as_str().unwrap();
    assert_eq!(made["url"], format!("http://meetings.example.org/public/transcripts/{secret}.txt"));
    assert_eq!(made["expires_in_seconds"], 900);
    assert_eq!(secret.len(), 43, "32 bytes");
    for format in ["txt", "json", "srt", "vtt", "csv", "md"] {
        let path = link(&made, format);
        let read = app.client().get(&path).await.expect(200);
        assert!(read.text.contains("for everybody"), "{}", read.text);
        assert_eq!(read.header("x-robots-tag"), "noindex");
        assert_eq!(read.header("cache-control"), "no-store");
        let exported = ada.get(&format!("{AT_MEET}/export?format={format}")).await.expect(200);
        assert_eq!(
            (read.text.as_str(), read.header("content-type")),
            (exported.text.as_str(), exported.header("content-type"))
        );
    }
    producer.say(&[said(3.0, "Ada", "and more")]).await;
    assert!(app.client().get(&link(&made, "txt")).await.expect(200).text.contains("and more"));

    app.clock.advance(Duration::from_secs(899));
    app.client().get(&link(&made, "txt")).await.expect(200);
    app.clock.advance(Duration::from_secs(1));
    let ended = app.client().get(&link(&made, "txt")).await;
    ended.expect_detail(404, "not_found", "Share not found or expired");
    assert!(!ended.text.contains(secret), "{}", ended.text);
    let unknown = app.client().get(&format!("/public/transcripts/{}.txt", "A".repeat(43))).await;
    unknown.expect_detail(404, "not_found", "Share not found or expired");
    let other_format = app.client().get(&link(&made, "exe")).await;
    other_format.expect_detail(404, "not_found", "Share not found or expired");
    app.client().get("/public/transcripts/x").await.expect_problem(404, "not_found");

    let by_number = share(&ada, &format!("?meeting_id={}", bot.meeting_id)).await;
    app.client().get(&link(&by_number, "txt")).await.expect(200);
    let elsewhere = format!("/transcripts/zoom/1234567890/share?meeting_id={}", bot.meeting_id);
    ada.post(&elsewhere, json!({})).await.expect_problem(404, "not_found");
}

#[tokio::test]
async fn a_link_lasts_as_long_as_asked_within_limits() {
    let app = App::new();
    let (ada, ..) = app.meeting_of("ada@example.org").await;
    for (asked, lasts) in [("59", 60), ("-1", 60), ("3600", 3600), ("999999", 86_400)] {
        let made = share(&ada, &format!("?ttl_seconds={asked}")).await;
        assert_eq!(made["expires_in_seconds"], lasts, "{asked}");
    }
    let refused = ada.post(&format!("{AT_MEET}/share?ttl_seconds=soon"), json!({})).await;
    refused.expect_invalid(&json!(["query", "ttl_seconds"]), "");
    let reader = app.client().header("x-api-key", &app.token("ada@example.org", &["read"]).await);
    reader.post(&format!("{AT_MEET}/share"), json!({})).await.expect_problem(403, "forbidden");
}

#[tokio::test]
async fn links_are_listed_without_their_secrets_and_ended() {
    let app = App::new();
    let (ada, bot, _) = app.meeting_of("ada@example.org").await;
    let path = format!("{AT_MEET}/shares");
    assert_eq!(ada.get(&path).await.expect(200).body, json!({"shares": []}));
    let first = share(&ada, "").await;
    let second = share(&ada, "").await;
    let listed = ada.get(&path).await.expect(200);
    let ids: Vec<_> =
        listed.body["shares"].as_array().unwrap().iter().map(|share| &share["id"]).collect();
    assert_eq!(ids, [&second["id"], &first["id"]]);
    assert_eq!(listed.body["shares"][0]["meeting_id"], bot.meeting_id);
    assert!(!listed.text.contains(first["share_id"].as_str().unwrap()), "{}", listed.text);

    let end = format!("/transcripts/shares/{}", first["id"]);
    let bob = app.user("bob@example.org").await;
    bob.delete(&end).await.expect_detail(404, "not_found", "Share not found");
    app.client().get(&link(&first, "txt")).await.expect(200);
    ada.delete(&end).await.expect(204);
    ada.delete(&end).await.expect_detail(404, "not_found", "Share not found");
    app.client().get(&link(&first, "txt")).await.expect_problem(404, "not_found");
    app.client().get(&link(&second, "txt")).await.expect(200);
}

#[tokio::test]
async fn whoever_guesses_is_held_back_and_whoever_knows_is_not() {
    let app = App::new();
    let (ada, _, producer) = app.meeting_of("ada@example.org").await;
    producer.say(&[said(1.0, "Ada", "for everybody")]).await;
    let made = share(&ada, "").await;
    let guess = format!("/public/transcripts/{}.txt", "A".repeat(43));
    for _ in 0..120 {
        app.client().get(&guess).await.expect_problem(404, "not_found");
    }
    let held = app.client().get(&guess).await;
    held.expect_problem(429, "too_many_refusals");
    assert!(!held.header("retry-after").is_empty());
    app.client().get(&link(&made, "txt")).await.expect(200);
    app.clock.advance(Duration::from_secs(2));
    app.client().get(&guess).await.expect_problem(404, "not_found");
}

#[tokio::test]
async fn the_address_of_links_can_be_configured() {
    let app = App::new();
    let (ada, ..) = app.meeting_of("ada@example.org").await;
    let mut state = app.state.clone();
    state.public_url = Some("https://meetings.example.org/".to_owned());
    let ada = ada.at(roundsman_web::router(state)).header("host", "evil.example.org");
    let url = share(&ada, "").await["url"].as_str().unwrap().to_owned();
    assert!(url.starts_with("https://meetings.example.org/public/transcripts/"), "{url}");
}
