//! Transcripts as files.

use serde_json::{Value, json};

use crate::app::App;
use crate::app_transcripts::{AT_MEET, said};

#[tokio::test]
async fn a_transcript_is_exported_in_every_format() {
    let app = App::new();
    let (ada, bot, producer) = app.meeting_of("ada@example.org").await;
    producer
        .say(&[said(1.0, "Ada", "hello everybody"), said(3.0, "Bob", "=cmd|' /C calc'!A0")])
        .await;
    let cases = [
        ("txt", "text/plain; charset=utf-8", "Ada"),
        ("srt", "application/x-subrip; charset=utf-8", "-->"),
        ("vtt", "text/vtt; charset=utf-8", "WEBVTT"),
        ("json", "application/json", "\"segments\""),
        ("csv", "text/csv; charset=utf-8; header=present", ","),
        ("md", "text/markdown; charset=utf-8", "#"),
    ];
    for (format, content_type, part) in cases {
        let path = format!("{AT_MEET}/export?format={format}");
        let file = ada.get(&path).await.expect(200);
        assert_eq!(file.header("content-type"), content_type);
        let name = format!("attachment; filename=\"transcript-google_meet-abc-defg-hij.{format}\"");
        assert_eq!(file.header("content-disposition"), name);
        assert_eq!(file.header("x-content-type-options"), "nosniff");
        assert!(file.text.contains("hello everybody") && file.text.contains(part), "{}", file.text);
        let id = bot.meeting_id;
        let by_id = ada.get(&format!("/transcripts/by-id/{id}/export?format={format}")).await;
        assert_eq!(by_id.expect(200).text, file.text);
    }
    let plain = ada.get(&format!("{AT_MEET}/export")).await.expect(200);
    assert_eq!(plain.header("content-type"), "text/plain; charset=utf-8");
    let refused = ada.get(&format!("{AT_MEET}/export?format=exe")).await;
    refused.expect_invalid(&json!(["query", "format"]), "one of txt");
}

#[tokio::test]
async fn a_file_is_called_what_the_meeting_is_called() {
    let app = App::new();
    let (ada, _, producer) = app.meeting_of("ada@example.org").await;
    producer.say(&[said(1.0, "Ada", "hello everybody")]).await;
    let name = json!({"data": {"name": "Weekly <b>\"sync\"</b>"}});
    ada.patch("/meetings/google_meet/abc-defg-hij", name).await.expect(200);
    let file = ada.get(&format!("{AT_MEET}/export?format=json")).await.expect(200);
    let exported: Value = serde_json::from_str(&file.text).unwrap();
    assert_eq!(exported["meeting"]["title"], "Weekly <b>\"sync\"</b>");
    assert!(!file.header("content-disposition").contains("sync"), "a header holds no such text");
}
