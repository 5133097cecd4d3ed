//! A client as the documents describe it: reads the transcript once, then applies every frame.

use std::collections::BTreeMap;

use roundsman_core::bots::MeetingId;
use roundsman_core::ports::Transcript;
use roundsman_core::transcripts::line_body;
use roundsman_engine::transcripts::{Delivery, Listener};
use serde_json::Value;

use super::Talk;
use crate::support::soon;

/// What tells segments apart: session, start, the producer's name.
type Name = (Option<String>, String, Option<String>);

/// What a client renders of a transcript.
pub(super) type Rendered = BTreeMap<Name, Value>;

/// One client.
pub(super) struct Reader {
    pub(super) listener: Listener,
    pub(super) meeting: MeetingId,
    /// The last place it has.
    pub(super) seq: i64,
    pub(super) rendered: Rendered,
    /// What it was given, by type.
    pub(super) heard: Vec<(i64, String)>,
}

impl Reader {
    /// Reads the transcript, then listens from there.
    pub(super) async fn bootstrap(talk: &Talk) -> Self {
        let snapshot = talk.transcript().await;
        let listener = talk.listen(Some(snapshot.seq)).await;
        let rendered = render(&snapshot);
        Reader { listener, meeting: talk.id(), seq: snapshot.seq, rendered, heard: Vec::new() }
    }

    /// Loses its connection and comes back with the place it has.
    pub(super) async fn reconnect(&mut self, talk: &Talk) {
        self.listener = talk.listen(Some(self.seq)).await;
    }

    /// Waits for the next frames and applies them.
    pub(super) async fn hear(&mut self) -> usize {
        let deliveries = soon(self.listener.next()).await.unwrap();
        assert!(!deliveries.is_empty());
        self.apply(&deliveries);
        deliveries.len()
    }

    /// Hears until it has got this far.
    pub(super) async fn hear_until(&mut self, seq: i64) {
        while self.seq < seq {
            self.hear().await;
        }
        assert_eq!(self.seq, seq);
    }

    pub(super) fn apply(&mut self, deliveries: &[Delivery]) {
        for delivery in deliveries {
            assert_eq!(delivery.meeting, self.meeting, "a frame of another meeting");
            let frame: Value = serde_json::from_slice(&delivery.text).unwrap();
            assert_eq!(frame["seq"], delivery.seq, "{frame}");
            let kind = frame["type"].as_str().unwrap().to_owned();
            if kind != "transcript.reset" {
                assert!(delivery.seq > self.seq, "{} after {}: {frame}", delivery.seq, self.seq);
            }
            self.seq = delivery.seq;
            apply(&mut self.rendered, &frame);
            self.heard.push((delivery.seq, kind));
        }
    }

    /// Is as the transcript says.
    pub(super) async fn agrees(&self, talk: &Talk) {
        let snapshot = talk.transcript().await;
        assert_eq!(self.seq, snapshot.seq, "it has heard everything");
        assert_eq!(self.rendered, render(&snapshot));
    }
}

pub(super) fn render(transcript: &Transcript) -> Rendered {
    let rows = transcript.lines.iter().map(line_body);
    rows.map(|row| (name(&row), shown(&row, &row["end"]))).collect()
}

pub(super) fn apply(rendered: &mut Rendered, frame: &Value) {
    let segments = || frame["payload"]["segments"].as_array().unwrap().iter();
    match frame["type"].as_str().unwrap() {
        "transcript.mutable" => {
            rendered.extend(segments().map(|row| (name(row), shown(row, &row["end_time"]))));
        }
        "transcript.retracted" => segments().for_each(|row| drop(rendered.remove(&name(row)))),
        "transcript.reset" => {
            *rendered = segments().map(|row| (name(row), shown(row, &row["end_time"]))).collect();
        }
        "meeting.status" => {}
        other => panic!("nobody expects {other}"),
    }
}

fn name(row: &Value) -> Name {
    let text = |field: &str| row[field].as_str().map(str::to_owned);
    (text("session_uid"), row["start"].to_string(), text("segment_id"))
}

fn shown(row: &Value, end: &Value) -> Value {
    let fields = ["text", "speaker", "language", "absolute_start_time", "absolute_end_time"];
    let mut shown: Vec<Value> = fields.iter().map(|field| row[*field].clone()).collect();
    shown.push(end.clone());
    Value::Array(shown)
}
