//! The transcriber against endpoints that answer as a test tells them.

use std::path::PathBuf;
use std::time::Duration;

use roundsman_core::ports::{MediaError, Transcriber};
use roundsman_core::recordings::HeardSegment;
use roundsman_providers::transcriber::{HttpTranscriber, TranscriberOptions};
use tempfile::TempDir;

use crate::stand_in::{Play, Seen, StandIn};

const AUDIO: &str = "RIFF    WAVEfmt and what was said\r\n--boundary?";

struct Lab {
    folder: TempDir,
}

impl Lab {
    fn new() -> Self {
        Lab { folder: tempfile::tempdir().unwrap() }
    }

    fn file(&self, content: &[u8]) -> PathBuf {
        let path = self.folder.path().join("0");
        std::fs::write(&path, content).unwrap();
        path
    }
}

fn transcriber(url: &str, change: impl FnOnce(&mut TranscriberOptions)) -> HttpTranscriber {
    let mut options = TranscriberOptions::new(url.to_owned());
    change(&mut options);
    HttpTranscriber::new(&options).unwrap()
}

/// The fields of a form, and the head and content of its file.
fn form(seen: &Seen) -> (Vec<(String, String)>, String, String) {
    let boundary = seen.header("content-type").unwrap();
    let boundary = boundary.strip_prefix("multipart/form-data; boundary=").unwrap();
    let body = seen.body.strip_suffix(&format!("\r\n--{boundary}--\r\n")).unwrap();
    let body = body.strip_prefix(&format!("--{boundary}\r\n")).unwrap();
    let (mut fields, mut file) = (Vec::new(), None);
    for part in body.split(&format!("\r\n--{boundary}\r\n")) {
        let (head, content) = part.split_once("\r\n\r\n").unwrap();
        let name = head.split("name=\"").nth(1).unwrap().split('"').next().unwrap();
        if head.contains("filename") {
            file = Some((head.to_owned(), content.to_owned()));
        } else {
            fields.push((name.to_owned(), content.to_owned()));
        }
    }
    let (head, content) = file.unwrap();
    (fields, head, content)
}

#[tokio::test]
async fn a_file_is_sent_and_what_was_heard_comes_back() {
    let answer = r#"{"text":"hello there","language":"english","duration":2.5,"segments":[
        {"id":0,"start":0.0,"end":1.25,"text":" hello"},{"id":1,"start":1.5,"end":2.5,"text":" there"}]}"#;
    let endpoint = StandIn::answering(move |_| Play::Answer(200, answer.to_owned())).await;
    let lab = Lab::new();
    let transcriber = transcriber(&format!("{}/v1/", endpoint.url()), |options| {
        options.api_key = Some("k-1".to_owned().into());
        options.language = Some("en".to_owned());
        options.model = "base".to_owned();
    });
    let heard = transcriber.transcribe(&lab.file(AUDIO.as_bytes())).await.unwrap();
    let segment =
        |start_ms, end_ms, text: &str| HeardSegment { start_ms, end_ms, text: text.to_owned() };
    assert_eq!(heard, [segment(0, 1250, " hello"), segment(1500, 2500, " there")]);

    let seen = &endpoint.seen()[0];
    assert!(seen.is("POST", "/v1/audio/transcriptions"), "{seen:?}");
    assert_eq!(seen.header("authorization"), Some("Bearer k-1"));
    let (fields, head, content) = form(seen);
    let expected = [
        ("model", "base"),
        ("response_format", "verbose_json"),
        ("timestamp_granularities[]", "segment"),
        ("language", "en"),
    ];
    assert_eq!(fields, expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
    assert!(head.contains("name=\"file\"; filename=\"recording.wav\""), "{head}");
    assert!(head.contains("content-type: audio/wav"), "{head}");
    assert_eq!(content, AUDIO);
}

#[tokio::test]
async fn a_long_file_goes_through_as_it_is() {
    let endpoint = StandIn::answering(|_| Play::Answer(200, r#"{"text":""}"#.to_owned())).await;
    let lab = Lab::new();
    let long: String = "0123456789abcde\n".repeat(500_000);
    let heard = transcriber(&endpoint.url(), |_| {}).transcribe(&lab.file(long.as_bytes())).await;
    assert_eq!(heard, Ok(vec![]));
    let seen = &endpoint.seen()[0];
    assert_eq!(seen.header("authorization"), None);
    assert!(form(seen).2 == long);
}

#[tokio::test]
async fn what_the_endpoint_says_decides_whether_to_try_again() {
    let lab = Lab::new();
    let file = lab.file(AUDIO.as_bytes());
    for status in [400, 401, 403, 404, 413, 415, 422, 408, 429, 500, 502, 503, 302] {
        let answer = r#"{"error":{"message":"it is so"}}"#.to_owned();
        let endpoint = StandIn::answering(move |_| Play::Answer(status, answer.clone())).await;
        let heard = transcriber(&endpoint.url(), |_| {}).transcribe(&file).await;
        let is_final = !matches!(status, 302 | 408 | 429 | 500..);
        match heard.unwrap_err() {
            MediaError::Refused(said) if is_final => assert!(said.ends_with("it is so"), "{said}"),
            MediaError::Failed(said) if !is_final => assert!(said.contains("it is so"), "{said}"),
            other => panic!("{status}: {other:?}"),
        }
    }
    for play in [
        Play::Answer(200, "WEBVTT".to_owned()),
        Play::Raw(b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{\"text\":\"a\"}".to_vec()),
        Play::Raw(Vec::new()),
        Play::Hang,
    ] {
        let shown = format!("{play:?}");
        let endpoint = StandIn::answering(move |_| play.clone()).await;
        let transcriber = transcriber(&endpoint.url(), |options| {
            options.time_max = Duration::from_millis(300);
        });
        let heard = transcriber.transcribe(&file).await;
        assert!(matches!(heard, Err(MediaError::Failed(_))), "{shown}: {heard:?}");
    }
    let missing = transcriber("http://127.0.0.1:1", |_| {});
    let heard = missing.transcribe(&lab.folder.path().join("missing")).await;
    assert_eq!(heard, Err(MediaError::NotFound));
}
