//! Whatever happens: frames applied to what REST shows give what REST shows next.

use futures_util::FutureExt;
use roundsman_core::ports::{Random, Rename};
use roundsman_engine::transcripts::TranscriptLimits;
use roundsman_testkit::SeededRandom;
use serde_json::{Value, json};

use super::reader::{Reader, apply, render};
use super::{SESSION, Talk, ended, started};
use crate::backend::{Backend, on_every_database};
use crate::support::{let_others_run, secs};

on_every_database! {
    frames_applied_to_a_snapshot_are_the_next_snapshot
    listeners_that_join_frames_or_start_over_end_where_all_do
}

const SESSIONS: [Option<&str>; 4] =
    [Some(SESSION), Some("session-2"), Some("teams_session-2"), None];
const TEXTS: [&str; 8] = [
    "",
    "hm",
    "good morning everybody",
    "good morning everybody, let us begin",
    "[BLANK_AUDIO]",
    "the numbers of this quarter",
    "aaaaaaaaaaaa",
    "שלום \u{202e}everybody",
];
const SPEAKERS: [&str; 3] = ["Ann", "Bob", "spk_3"];

/// Something happens to a meeting.
async fn happen(talk: &Talk, random: &SeededRandom) {
    let pick = |bound: usize| usize::try_from(random.below(bound as u64)).unwrap();
    let session = SESSIONS[pick(SESSIONS.len())];
    let token = talk.token();
    match pick(20) {
        0 => {
            let at = talk.now() - secs(random.below(100));
            talk.ingest(&started(&token, session.unwrap_or(SESSION), at)).await;
        }
        1 => drop(talk.ingest(&ended(&token, session.unwrap_or(SESSION))).await),
        2 | 3 => {
            let kind = ["SPEAKER_START", "SPEAKER_END"][pick(2)];
            let event = json!({
                "type": "speaker_activity", "token": token,
                "payload": {
                    "uid": session.unwrap_or(SESSION),
                    "relative_client_timestamp_ms": random.below(20_000),
                    "event_type": kind,
                    "participant_name": SPEAKERS[pick(3)],
                },
            });
            talk.ingest(&event).await;
        }
        4 | 5 => {
            talk.world.clock.advance(secs(random.below(40)));
            talk.persist().await;
        }
        6 => {
            let rename =
                Rename { from: SPEAKERS[pick(3)].to_owned(), to: SPEAKERS[pick(3)].to_owned() };
            talk.transcripts.rename_speaker(talk.user, talk.target(), rename).await.unwrap();
        }
        7 if pick(10) == 0 => {
            talk.transcripts.delete(talk.user, talk.target()).await.unwrap();
        }
        _ => {
            let segments: Vec<Value> = (0..=pick(4)).map(|_| segment(random, &pick)).collect();
            let message = json!({ "token": token, "uid": session, "segments": segments });
            talk.ingest(&message).await;
            talk.world.clock.advance(secs(random.below(3)));
        }
    }
}

fn segment(random: &SeededRandom, pick: &impl Fn(usize) -> usize) -> Value {
    let start = random.below(20) * 1000 + random.below(60);
    let language = ["en", "de"][pick(2)];
    let mut segment = json!({
        "start": super::seconds(i64::try_from(start).unwrap()),
        "end": super::seconds(i64::try_from(start + 1 + random.below(3000)).unwrap()),
        "text": TEXTS[pick(TEXTS.len())],
        "language": language,
        "completed": pick(2) == 0,
    });
    if pick(4) == 0 {
        segment["speaker"] = SPEAKERS[pick(3)].into();
    }
    if pick(5) == 0 {
        segment["segment_id"] = format!("id-{}", pick(4)).into();
    }
    segment
}

async fn frames_applied_to_a_snapshot_are_the_next_snapshot(backend: Backend) {
    let histories = if backend == Backend::Sqlite { 40 } else { 10 };
    for seed in 0..histories {
        let talk = Talk::new(backend).await;
        let random = SeededRandom::new(seed);
        let mut rendered = render(&talk.transcript().await);
        let mut seq = talk.transcript().await.seq;
        for step in 0..60 {
            happen(&talk, &random).await;
            let next = talk.transcript().await;
            for (place, frame) in talk.frames().await {
                if place > seq {
                    apply(&mut rendered, &frame);
                }
            }
            seq = next.seq;
            assert_eq!(rendered, render(&next), "seed {seed}, step {step}");
            // The same from what has changed since some place before.
            let since = talk.transcript_since(Some(seq)).await;
            assert!(since.lines.is_empty() && since.retracted.is_empty());
        }
        talk.check().await;
    }
}

async fn listeners_that_join_frames_or_start_over_end_where_all_do(backend: Backend) {
    let histories = if backend == Backend::Sqlite { 15 } else { 5 };
    let limits = TranscriptLimits {
        ring_frames_max: 20,
        coalesce_frames_min: 3,
        ..TranscriptLimits::default()
    };
    for seed in 100..100 + histories {
        let mut talk = Talk::with(backend, limits, true).await;
        let random = SeededRandom::new(seed);
        let mut readers: Vec<Reader> = Vec::new();
        for _ in 0..3 {
            readers.push(talk.reader().await);
        }
        for _ in 0..150 {
            happen(&talk, &random).await;
            for reader in &mut readers {
                match random.below(30) {
                    0 => reader.reconnect(&talk).await,
                    1..=9 => {
                        if let Some(deliveries) = reader.listener.next().now_or_never() {
                            reader.apply(&deliveries.unwrap());
                        }
                    }
                    _ => {}
                }
            }
            if random.below(60) == 0 {
                talk.restart();
                for reader in &mut readers {
                    reader.reconnect(&talk).await;
                }
            }
        }
        let_others_run().await;
        let end = talk.transcript().await.seq;
        for reader in &mut readers {
            reader.hear_until(end).await;
            reader.agrees(&talk).await;
        }
        talk.check().await;
    }
}
