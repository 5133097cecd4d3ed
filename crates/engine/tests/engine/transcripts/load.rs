//! T-20: many meetings that change many times a second, and listeners that do not keep up.

use std::collections::BTreeMap;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::join_all;
use roundsman_core::bots::MeetingId;
use roundsman_core::ports::Clock;
use roundsman_engine::transcripts::{Delivery, Listener};
use roundsman_testkit::env;
use serde_json::Value;

use super::reader::Reader;
use super::{SESSION, Talk, reserve, said};
use crate::backend::{Backend, on_every_database};

on_every_database! {
    whoever_is_behind_gets_at_most_ten_frames_a_second_of_a_meeting
    whoever_keeps_up_waits_for_nothing
}

const MEETINGS: usize = 200;
const UPDATE_MS: u64 = 20;
const UPDATES: u64 = 70;
/// The updates between two looks of those who do not keep up, each a little behind.
const UPDATES_PER_LOOK: [u64; 2] = [2, 7];
const FRAMES_PER_SEC_MAX: usize = 10;
/// A client listens to at most so many.
const SUBSCRIPTIONS_MAX: usize = 100;
const SEGMENTS: u64 = 5;

/// One who looks now and then, at half of the meetings.
struct Behind {
    listener: Listener,
    /// What it last heard of each segment, and when it was told anything of a meeting.
    texts: BTreeMap<(MeetingId, String), String>,
    told: BTreeMap<MeetingId, Vec<Duration>>,
    ends: BTreeMap<MeetingId, i64>,
}

impl Behind {
    async fn new(talk: &Talk, meetings: &[(MeetingId, String)]) -> Self {
        let mut listener = talk.transcripts.listen();
        let mut ends = BTreeMap::new();
        for (meeting, _) in meetings {
            ends.insert(*meeting, listener.add(*meeting, None).await.unwrap());
        }
        Behind { listener, texts: BTreeMap::new(), told: BTreeMap::new(), ends }
    }

    /// Takes what there is now, as one whose connection has taken the last of it.
    fn look(&mut self, now: Duration) {
        if let Some(deliveries) = self.listener.next().now_or_never() {
            self.apply(deliveries.unwrap(), now);
        }
    }

    fn apply(&mut self, deliveries: Vec<Delivery>, now: Duration) {
        for delivery in deliveries {
            self.told.entry(delivery.meeting).or_default().push(now);
            assert!(self.ends.insert(delivery.meeting, delivery.seq) < Some(delivery.seq));
            let frame: Value = serde_json::from_slice(&delivery.text).unwrap();
            assert_eq!(frame["type"], "transcript.mutable", "nobody has to start over");
            for segment in frame["payload"]["segments"].as_array().unwrap() {
                let key = (delivery.meeting, segment["start"].to_string());
                self.texts.insert(key, segment["text"].as_str().unwrap().to_owned());
            }
        }
    }

    /// The most frames of one meeting in any second.
    fn frames_per_sec(&self) -> usize {
        let most = |told: &Vec<Duration>| {
            let second = |from: Duration| from..from + Duration::from_secs(1);
            let within =
                |from: &Duration| told.iter().filter(|at| second(*from).contains(*at)).count();
            told.iter().map(within).max().unwrap_or_default()
        };
        self.told.values().map(most).max().unwrap_or_default()
    }

    /// Has the last words of every segment of every meeting.
    fn knows(&self, last: &BTreeMap<String, String>) {
        for meeting in self.ends.keys() {
            for (start, text) in last {
                assert_eq!(self.texts.get(&(*meeting, start.clone())), Some(text));
            }
        }
    }
}

/// They are never further behind than a few frames.
async fn whoever_is_behind_gets_at_most_ten_frames_a_second_of_a_meeting(backend: Backend) {
    let updates = if env::full() { UPDATES * 10 } else { UPDATES };
    let talk = Talk::new(backend).await;
    let mut meetings = vec![(talk.id(), talk.token())];
    for number in 1..MEETINGS {
        let record = reserve(&talk.world, talk.user, &format!("number-{number}")).await;
        meetings.push((record.meeting.id, talk.token_of(&record)));
    }
    let mut behind = Vec::new();
    for (group, pace) in meetings.chunks(SUBSCRIPTIONS_MAX).zip(UPDATES_PER_LOOK) {
        behind.push((Behind::new(&talk, group).await, pace));
    }
    let mut quick = talk.reader().await;
    let from = quick.seq;
    let clock = talk.world.clock.clone();
    let (mut ends, mut last) = (BTreeMap::new(), BTreeMap::new());
    for update in 0..updates {
        let text = format!("update {update}");
        let start = i64::try_from(update % SEGMENTS).unwrap() * 1000;
        let told = join_all(meetings.iter().map(async |(meeting, token)| {
            let message = said(token, Some(SESSION), &[(start, start + 900, &text)]);
            (*meeting, talk.ingest(&message).await.seq.unwrap())
        }));
        ends.extend(told.await);
        last.insert(format!("{}.0", start / 1000), text);
        quick.hear_until(ends[&talk.id()]).await;
        clock.advance(Duration::from_millis(UPDATE_MS));
        for (listener, pace) in &mut behind {
            if update % *pace == 0 {
                listener.look(clock.monotonic());
            }
        }
    }
    assert_eq!(quick.seq - from, i64::try_from(updates).unwrap());
    assert_eq!(quick.heard.len(), usize::try_from(updates).unwrap(), "who keeps up hears each");
    for (listener, pace) in &mut behind {
        let frames = listener.frames_per_sec();
        assert!(frames <= FRAMES_PER_SEC_MAX, "{frames} of one meeting, {pace} updates a look");
        // What was held back comes, if nothing else does.
        clock.advance(Duration::from_secs(1));
        listener.look(clock.monotonic());
        assert!(listener.ends.iter().all(|(meeting, end)| ends[meeting] == *end));
        listener.knows(&last);
    }
    let metrics = talk.world.metrics.encode();
    assert!(metrics.contains("roundsman_listener_resets_total 0\n"), "{metrics}");
    talk.check().await;
}

/// Also with frames that come in bursts, and after it was behind.
async fn whoever_keeps_up_waits_for_nothing(backend: Backend) {
    let talk = Talk::new(backend).await;
    talk.start_session(talk.now()).await;
    let mut reader = talk.reader().await;
    let mut words = 0..;
    let mut said = async |count: i64| {
        for start in 0..count {
            let text = format!("word number {}", words.next().unwrap());
            talk.say(&[(start * 1000, start * 1000 + 900, &text)]).await;
        }
    };
    let take = |reader: &mut Reader| {
        let deliveries = reader.listener.next().now_or_never().map(Result::unwrap);
        let frames = deliveries.as_ref().map(Vec::len);
        reader.apply(&deliveries.unwrap_or_default());
        frames
    };
    // No time passes. It asks for more each time before more is said.
    for count in [1, 1, 1, 20, 1, 30, 2, 2, 2] {
        said(count).await;
        assert_eq!(take(&mut reader), Some(usize::try_from(count).unwrap()));
        assert_eq!(take(&mut reader), None);
    }
    // It does not, and is behind: it gets few frames, then none for a while.
    let mut frames = Vec::new();
    for _ in 0..9 {
        said(3).await;
        frames.extend(take(&mut reader));
    }
    assert_eq!(frames, [3, 3, 1, 1], "as they are, while there are not many");
    let waited = talk.world.clock.monotonic();
    reader.hear_until(talk.transcript().await.seq).await;
    assert_eq!(talk.world.clock.monotonic(), waited, "a clock that stands holds nobody up");
    // Then it has everything, and is as quick as before.
    assert_eq!(take(&mut reader), None);
    said(9).await;
    assert_eq!(take(&mut reader), Some(9));
    reader.agrees(&talk).await;
    talk.check().await;
}
