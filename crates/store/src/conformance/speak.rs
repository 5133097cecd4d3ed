//! Short names for what the cases of transcripts do.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use roundsman_core::Timestamp;
use roundsman_core::bots::{BotRecord, BotStatus, MeetingId};
use roundsman_core::effects::Frame;
use roundsman_core::ports::{
    BotTarget, LiveMeeting, MessageAnswer, NewMessage, Rename, Rewritten, SettleRequest,
    SettledSegments, Taken, Transcript,
};
use roundsman_core::transcripts::{
    FilterConfig, Line, MessageBody, SpeakerEvent, SpeakerEventKind, ToldSegment,
    TranscriptionFilter, in_order, mutable_frames,
};
use roundsman_core::users::UserId;
use serde_json::Value;

use super::attend::{at_address, bot_in, by_number, frames_of, user};
use super::backdoor::Said;
use super::fixture::Fixture;

/// The session that a case speaks in unless it says otherwise.
pub(super) const UID: &str = "session-a";

/// What the filter never keeps.
pub(super) const NOISE: &str = "<no audio>";

/// A meeting in which something is said.
#[derive(Debug, Clone)]
pub(super) struct Room {
    pub(super) user: UserId,
    pub(super) meeting: MeetingId,
    pub(super) native_id: String,
    pub(super) bot: BotRecord,
}

/// A new user's meeting with a bot in it.
pub(super) async fn room(fx: &Fixture, name: &str) -> Room {
    let owner = user(fx, name).await;
    room_of(fx, owner, name, BotStatus::Active).await
}

pub(super) async fn room_of(fx: &Fixture, user: UserId, name: &str, status: BotStatus) -> Room {
    let bot = bot_in(fx, user, name, status).await;
    Room { user, meeting: bot.meeting.id, native_id: name.to_owned(), bot }
}

impl Room {
    pub(super) fn target(&self) -> BotTarget {
        by_number(self.meeting)
    }

    pub(super) fn address(&self) -> BotTarget {
        at_address(&self.native_id)
    }

    pub(super) fn message(&self, version: i64, body: MessageBody) -> NewMessage {
        NewMessage {
            meeting_id: self.meeting,
            user_id: self.user,
            token_issued_at: Timestamp::EPOCH,
            version,
            start_hint: None,
            body,
        }
    }

    /// Tells segments of the usual session.
    pub(super) fn says(&self, version: i64, segments: Vec<ToldSegment>) -> NewMessage {
        self.says_in(Some(UID), version, segments)
    }

    pub(super) fn says_in(
        &self,
        uid: Option<&str>,
        version: i64,
        segments: Vec<ToldSegment>,
    ) -> NewMessage {
        let uid = uid.map(ToOwned::to_owned);
        self.message(version, MessageBody::Transcription { uid, segments, refused: vec![] })
    }

    /// Declares when a session started, with a token that was made at `issued`.
    pub(super) fn starts(&self, uid: &str, start: Timestamp, issued: Timestamp) -> NewMessage {
        let body = MessageBody::SessionStart { uid: uid.to_owned(), start };
        NewMessage { token_issued_at: issued, ..self.message(0, body) }
    }

    pub(super) fn ends(&self, uid: &str) -> NewMessage {
        self.message(0, MessageBody::SessionEnd { uid: uid.to_owned() })
    }
}

pub(super) fn told(start_ms: i64, end_ms: i64, text: &str) -> ToldSegment {
    ToldSegment {
        start_ms,
        end_ms,
        text: text.to_owned(),
        language: Some("en".to_owned()),
        speaker: None,
        completed: Some(false),
        segment_id: None,
    }
}

pub(super) fn told_by(name: &str, start_ms: i64, end_ms: i64, text: &str) -> ToldSegment {
    ToldSegment { speaker: Some(name.to_owned()), ..told(start_ms, end_ms, text) }
}

pub(super) fn told_as(id: &str, start_ms: i64, end_ms: i64, text: &str) -> ToldSegment {
    ToldSegment { segment_id: Some(id.to_owned()), ..told(start_ms, end_ms, text) }
}

/// So many segments, a second each, none of which the filter refuses.
pub(super) fn speech(count: i64, word: &str) -> Vec<ToldSegment> {
    (0..count).map(|n| told(n * 1000, n * 1000 + 900, &format!("{word} number {n}"))).collect()
}

pub(super) async fn take(fx: &Fixture, messages: Vec<NewMessage>) -> Vec<MessageAnswer> {
    let count = messages.len();
    let answers = fx.store.take_messages(messages, fx.now()).await.expect("take_messages");
    assert_eq!(answers.len(), count, "one answer per message");
    answers
}

pub(super) fn taken(answer: MessageAnswer) -> Taken {
    match answer {
        MessageAnswer::Taken(taken) => taken,
        MessageAnswer::NoSuchMeeting => panic!("the meeting is there"),
    }
}

/// Tells one message, which must be taken.
pub(super) async fn hear(fx: &Fixture, message: NewMessage) -> Taken {
    taken(take(fx, vec![message]).await.remove(0))
}

/// The transcript of a room, in order.
pub(super) async fn read(fx: &Fixture, room: &Room) -> Transcript {
    read_since(fx, room, None).await
}

pub(super) async fn read_since(fx: &Fixture, room: &Room, since: Option<i64>) -> Transcript {
    let found = fx.store.transcript(room.user, room.target(), since).await;
    let mut found = found.expect("transcript").expect("it is theirs");
    assert_eq!(found.row.meeting.id, room.meeting);
    found.lines = in_order(found.lines);
    found.retracted = in_order(found.retracted);
    found
}

pub(super) async fn live_lines(fx: &Fixture, room: &Room) -> Vec<Line> {
    fx.store.live_lines(room.meeting).await.expect("live_lines")
}

pub(super) fn texts(lines: &[Line]) -> Vec<&str> {
    lines.iter().map(|line| line.segment.content.text.as_str()).collect()
}

pub(super) fn speakers(lines: &[Line]) -> Vec<Option<&str>> {
    lines.iter().map(|line| line.segment.content.speaker.as_deref()).collect()
}

/// Settles everything.
pub(super) fn all() -> SettleRequest {
    let filter = TranscriptionFilter::new(FilterConfig::default()).expect("the defaults are good");
    SettleRequest { stable_before: None, filter: Arc::new(filter), rows_max: 10_000 }
}

/// Settles everything, and refuses nothing but what is said twice.
pub(super) fn unfiltered() -> SettleRequest {
    let config = FilterConfig {
        min_chars: 0,
        noise_patterns: vec![],
        min_real_words: 0,
        drop_contained: false,
        repeated_chars_max: 0,
        ..FilterConfig::default()
    };
    let filter = TranscriptionFilter::new(config).expect("it has no patterns");
    SettleRequest { filter: Arc::new(filter), ..all() }
}

/// Settles what has not changed since.
pub(super) fn stable(before: Timestamp) -> SettleRequest {
    SettleRequest { stable_before: Some(before), ..all() }
}

pub(super) async fn settle(fx: &Fixture, room: &Room, request: SettleRequest) -> SettledSegments {
    let settled = fx.store.settle_segments(room.meeting, request, None, fx.now()).await;
    settled.expect("settle_segments")
}

/// Makes what a room has said final, a second later.
pub(super) async fn settle_all(fx: &Fixture, room: &Room) -> SettledSegments {
    fx.advance(Duration::from_secs(1));
    settle(fx, room, all()).await
}

pub(super) fn event(uid: &str, kind: SpeakerEventKind, name: &str, at_ms: i64) -> SpeakerEvent {
    SpeakerEvent {
        session_uid: uid.to_owned(),
        kind,
        participant: format!("id of {name}"),
        name: name.to_owned(),
        at_ms,
    }
}

/// Somebody speaks in the usual session from when to when.
pub(super) fn turn(name: &str, from_ms: i64, to_ms: i64) -> Vec<SpeakerEvent> {
    vec![
        event(UID, SpeakerEventKind::Start, name, from_ms),
        event(UID, SpeakerEventKind::End, name, to_ms),
    ]
}

pub(super) async fn keep_events(
    fx: &Fixture,
    meeting: Option<MeetingId>,
    events: impl IntoIterator<Item = SpeakerEvent>,
) {
    let events = events.into_iter().map(|event| (meeting, event)).collect();
    fx.store.keep_speaker_events(events, fx.now()).await.expect("keep_speaker_events");
}

pub(super) async fn rename(fx: &Fixture, room: &Room, from: &str, to: &str) -> Rewritten {
    let rename = Rename { from: from.to_owned(), to: to.to_owned() };
    let renamed = fx.store.rename_speaker(room.user, room.target(), rename, fx.now()).await;
    renamed.expect("rename_speaker").expect("it is theirs")
}

/// What a listener shows, by what it knows a segment by.
pub type Shown = BTreeMap<String, Value>;

/// What a listener shows who has read these lines.
pub fn shown(meeting: MeetingId, lines: &[Line]) -> Shown {
    let mut shown = Shown::new();
    for line in lines {
        let frame = mutable_frames(meeting, std::slice::from_ref(line), Timestamp::EPOCH).remove(0);
        let segment = frame.body.to_value()["payload"]["segments"][0].clone();
        let twice = shown.insert(name_of(&segment), rendered(segment));
        assert_eq!(twice, None, "a segment is there twice");
    }
    shown
}

/// What the listener shows after a frame.
pub fn apply(shown: &mut Shown, frame: &Frame) {
    let body = frame.body.to_value();
    let segments = body["payload"]["segments"].as_array().cloned().unwrap_or_default();
    match body["type"].as_str() {
        Some("transcript.mutable") => {
            shown
                .extend(segments.into_iter().map(|segment| (name_of(&segment), rendered(segment))));
        }
        Some("transcript.retracted") => {
            shown.retain(|name, _| segments.iter().all(|segment| name_of(segment) != *name));
        }
        _ => {}
    }
}

/// T4: the frames after a snapshot make it what is read now.
pub(super) async fn assert_replays(fx: &Fixture, room: &Room, earlier: &Transcript) {
    let mut replayed = shown(room.meeting, &earlier.lines);
    for frame in frames_of(fx, room.meeting).await {
        if frame.seq > earlier.seq {
            apply(&mut replayed, &frame);
        }
    }
    assert_eq!(replayed, shown(room.meeting, &read(fx, room).await.lines));
}

/// How sure it is who spoke is no part of what is rendered: it may change without a frame.
fn rendered(mut segment: Value) -> Value {
    if let Some(members) = segment.as_object_mut() {
        members.remove("speaker_mapping_status");
    }
    segment
}

fn name_of(segment: &Value) -> String {
    format!("{} {} {}", segment["session_uid"], segment["start"], segment["segment_id"])
}

/// Everything that an operation on a transcript could have written.
#[derive(Debug, PartialEq)]
pub(super) struct Spoken {
    seq: i64,
    lines: Vec<Line>,
    dropped: Vec<Line>,
    frames: Vec<Frame>,
    pub(super) live: Vec<LiveMeeting>,
    sessions: Vec<(String, Timestamp)>,
    said: Vec<(i64, Said)>,
}

pub(super) async fn spoken(fx: &Fixture, room: &Room) -> Spoken {
    let Transcript { seq, lines, .. } = read(fx, room).await;
    let (mut sessions, mut said) = (vec![], vec![]);
    if let Some(door) = &fx.backdoor {
        sessions = door.sessions(room.meeting).await;
        said = door.said(room.meeting).await;
    }
    Spoken {
        seq,
        lines,
        dropped: read_since(fx, room, Some(0)).await.retracted,
        frames: frames_of(fx, room.meeting).await,
        live: fx.store.live_meetings(None, 1000).await.expect("live_meetings"),
        sessions,
        said,
    }
}
