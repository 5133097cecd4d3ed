//! What users change of transcripts, and what is left when they delete them.

use serde_json::json;

use crate::app::App;
use crate::app_transcripts::{AT_MEET, NOT_FOUND, said, texts};

#[tokio::test]
async fn a_speaker_gets_another_name_in_all_that_was_and_will_be_said() {
    let app = App::new();
    let (ada, bot, producer) = app.meeting_of("ada@example.org").await;
    producer.say(&[said(1.0, "Speaker 1", "one of them"), said(3.0, "Bob", "another one")]).await;
    let path = format!("{AT_MEET}/speakers");
    let renamed = ada.patch(&path, json!({"from": "Speaker 1", "to": "Ada"})).await.expect(200);
    assert_eq!(renamed.body["changed"], 1);
    assert_eq!(renamed.body["meeting_id"], bot.meeting_id);
    producer.say(&[said(5.0, "Speaker 1", "and a third")]).await;
    let read = ada.get(AT_MEET).await.expect(200).body;
    let speakers: Vec<_> =
        read["segments"].as_array().unwrap().iter().map(|segment| &segment["speaker"]).collect();
    assert_eq!(speakers, ["Ada", "Bob", "Ada"]);

    let long = "x".repeat(256);
    for (from, to, field) in
        [("", "Ada", "from"), ("Bob", " ", "to"), ("Bob", "a\nb", "to"), ("Bob", &long, "to")]
    {
        let refused = ada.patch(&path, json!({"from": from, "to": to})).await;
        refused.expect_invalid(&json!(["body", field]), "name");
    }
    let missing = ada.patch(&path, json!({"from": "Bob"})).await;
    missing.expect_invalid(&json!(["body", "to"]), "field required");
    let reader = app.client().header("x-api-key", &app.token("ada@example.org", &["read"]).await);
    let refused = reader.patch(&path, json!({"from": "Bob", "to": "Rob"})).await;
    refused.expect_detail(403, "forbidden", "Insufficient scope for this endpoint");
    let writer = app.client().header("x-api-key", &app.token("ada@example.org", &["tx"]).await);
    writer.patch(&path, json!({"from": "Bob", "to": "Rob"})).await.expect(200);
}

#[tokio::test]
async fn a_deleted_transcript_is_gone_and_the_meeting_stays() {
    let app = App::new();
    let (ada, bot, producer) = app.meeting_of("ada@example.org").await;
    producer.say(&[said(1.0, "Ada", "secret plans")]).await;
    let before = ada.get(AT_MEET).await.expect(200).body;
    let shared = ada.post(&format!("{AT_MEET}/share"), json!({})).await.expect(200).body;
    let deleted = ada.delete(AT_MEET).await.expect(200).body;
    assert_eq!((&deleted["changed"], &deleted["meeting_id"]), (&json!(1), &json!(bot.meeting_id)));
    assert_eq!(deleted["message"], "Transcript of google_meet/abc-defg-hij deleted");
    let after = ada.get(AT_MEET).await.expect(200).body;
    assert_eq!(after["segments"], json!([]));
    assert!(after["seq"].as_i64() > before["seq"].as_i64(), "listeners are told");
    assert_eq!(
        ada.get("/transcripts/search?q=secret").await.expect(200).body["results"],
        json!([])
    );
    let link = format!("/public/transcripts/{}.txt", shared["share_id"].as_str().unwrap());
    app.client().get(&link).await.expect_problem(404, "not_found");

    producer.say(&[said(1.0, "Ada", "new plans")]).await;
    assert_eq!(texts(&ada.get(AT_MEET).await.expect(200).body), ["new plans"]);
    let reader = app.client().header("x-api-key", &app.token("ada@example.org", &["bot"]).await);
    reader.delete(AT_MEET).await.expect_problem(403, "forbidden");
}

#[tokio::test]
async fn forgetting_a_meeting_forgets_what_was_said_in_it() {
    let app = App::new();
    let (ada, bot, producer) = app.meeting_of("ada@example.org").await;
    producer.say(&[said(1.0, "Ada", "secret plans")]).await;
    let shared = ada.post(&format!("{AT_MEET}/share"), json!({})).await.expect(200).body;
    bot.join().await;
    bot.exit().await;
    ada.delete("/meetings/google_meet/abc-defg-hij").await.expect(200);
    ada.get(AT_MEET).await.expect_detail(404, "not_found", NOT_FOUND);
    let read = ada.get(&format!("/transcripts/by-id/{}", bot.meeting_id)).await.expect(200).body;
    assert_eq!((&read["segments"], &read["native_meeting_id"]), (&json!([]), &json!(null)));
    assert_eq!(
        ada.get("/transcripts/search?q=secret").await.expect(200).body["results"],
        json!([])
    );
    let link = format!("/public/transcripts/{}.txt", shared["share_id"].as_str().unwrap());
    app.client().get(&link).await.expect_problem(404, "not_found");
    // Nobody can tell anything about a meeting that has no name any more.
    let late = producer.send(json!({"segments": [said(5.0, "Ada", "late words")]})).await;
    late.expect_problem(422, "invalid_request");
}
