//! T-20: many meetings that change many times a second, and listeners that do not keep up.

use std::collections::BTreeMap;
use std::time::Duration;

use futures_util::future::join_all;
use roundsman_core::bots::MeetingId;
use roundsman_engine::transcripts::Listener;
use roundsman_testkit::env;
use serde_json::Value;

use super::{SESSION, Talk, reserve, said};
use crate::backend::{Backend, on_every_database};
use crate::support::soon;

on_every_database! {
    whoever_is_behind_gets_at_most_ten_frames_a_second_of_a_meeting
}

const MEETINGS: usize = 200;
const UPDATES_PER_SEC: u64 = 50;
/// How often those look that do not keep up, and the updates until then.
const LOOK_MS: u64 = 1400;
const UPDATES_PER_LOOK: u64 = UPDATES_PER_SEC * LOOK_MS / 1000;
const FRAMES_PER_SEC_MAX: u64 = 10;
/// A client listens to at most so many.
const SUBSCRIPTIONS_MAX: usize = 100;
const SEGMENTS: u64 = 5;

/// One who looks now and then, at half of the meetings.
struct Behind {
    listener: Listener,
    /// The place it has of each, and what it last heard of each segment.
    places: BTreeMap<MeetingId, i64>,
    texts: BTreeMap<(MeetingId, String), String>,
}

impl Behind {
    /// Takes all that is there up to these places; returns the most frames of one meeting.
    async fn look(&mut self, ends: &BTreeMap<MeetingId, i64>) -> u64 {
        let mut frames: BTreeMap<MeetingId, u64> = BTreeMap::new();
        while self.places.iter().any(|(meeting, place)| *place < ends[meeting]) {
            for delivery in soon(self.listener.next()).await.unwrap() {
                *frames.entry(delivery.meeting).or_default() += 1;
                self.places.insert(delivery.meeting, delivery.seq);
                let frame: Value = serde_json::from_slice(&delivery.text).unwrap();
                assert_eq!(frame["type"], "transcript.mutable", "nobody has to start over");
                for segment in frame["payload"]["segments"].as_array().unwrap() {
                    let key = (delivery.meeting, segment["start"].to_string());
                    self.texts.insert(key, segment["text"].as_str().unwrap().to_owned());
                }
            }
        }
        frames.into_values().max().unwrap_or_default()
    }
}

async fn whoever_is_behind_gets_at_most_ten_frames_a_second_of_a_meeting(backend: Backend) {
    let looks = if env::full() { 10 } else { 1 };
    let talk = Talk::new(backend).await;
    let mut meetings = vec![(talk.id(), talk.token())];
    for number in 1..MEETINGS {
        let record = reserve(&talk.world, talk.user, &format!("number-{number}")).await;
        meetings.push((record.meeting.id, talk.token_of(&record)));
    }
    let mut behind = Vec::new();
    for group in meetings.chunks(SUBSCRIPTIONS_MAX) {
        let mut listener = talk.transcripts.listen();
        let mut places = BTreeMap::new();
        for (meeting, _) in group {
            places.insert(*meeting, listener.add(*meeting, None).await.unwrap());
        }
        behind.push(Behind { listener, places, texts: BTreeMap::new() });
    }
    let mut quick = talk.reader().await;
    let from = quick.seq;
    let mut ends = BTreeMap::new();
    let mut last = String::new();
    for look in 0..looks {
        for update in 0..UPDATES_PER_LOOK {
            last = format!("update {update} of look {look}");
            let start = i64::try_from(update % SEGMENTS).unwrap() * 1000;
            let told = join_all(meetings.iter().map(async |(meeting, token)| {
                let message = said(token, Some(SESSION), &[(start, start + 900, &last)]);
                (*meeting, talk.ingest(&message).await.seq.unwrap())
            }));
            ends.extend(told.await);
            quick.hear_until(ends[&talk.id()]).await;
            talk.world.clock.advance(Duration::from_millis(1000 / UPDATES_PER_SEC));
        }
        for listener in &mut behind {
            let frames = listener.look(&ends).await;
            let frames_max = FRAMES_PER_SEC_MAX * LOOK_MS / 1000;
            assert!(frames <= frames_max, "{frames} frames of one meeting");
        }
    }
    let updates = i64::try_from(looks * UPDATES_PER_LOOK).unwrap();
    assert_eq!(quick.seq - from, updates);
    assert_eq!(quick.heard.len(), usize::try_from(updates).unwrap(), "who keeps up hears each");
    for listener in &behind {
        assert_eq!(listener.texts.len(), listener.places.len() * 5, "every segment is known");
        let latest = listener.texts.values().filter(|text| **text == last).count();
        assert_eq!(latest, listener.places.len(), "with its last words");
    }
    let metrics = talk.world.metrics.encode();
    assert!(metrics.contains("roundsman_listener_resets_total 0\n"), "{metrics}");
    talk.check().await;
}
