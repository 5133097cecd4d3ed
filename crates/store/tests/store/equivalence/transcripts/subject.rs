//! One store under comparison, with what a listener of each of its meetings shows.

use std::any::Any;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use roundsman_core::Timestamp;
use roundsman_core::bots::{
    BotEvent, BotWish, ConnectionId, MeetingId, NewBot, Platform, Source, stream_of,
};
use roundsman_core::effects::Frame;
use roundsman_core::ports::{
    BotHappened, BotTarget, LiveMeeting, MessageAnswer, NewMessage, Rename, ReserveAnswer,
    Rewritten, SearchPage, SettleRequest, Store, StoreError, Taken, Transcript, TranscriptPrune,
};
use roundsman_core::transcripts::{
    FilterConfig, Line, MessageBody, SearchQuery, SeqRange, SpeakerEvent, SpeakerEventKind,
    ToldSegment, TranscriptionFilter, retracted_body,
};
use roundsman_core::users::{NewUser, UserId};
use roundsman_store::conformance::{Shown, apply, shown};

use super::super::START;
use super::ops::{Body, Event, Message, Op, Pick, Segment};

const SESSIONS: [Option<&str>; 4] = [Some("a"), Some("b"), Some("zoom_a"), None];
const NAMES: [&str; 3] = ["Ann", "Bob", "Cat"];
const TEXTS: [&str; 7] = [
    "ok",
    "<no audio>",
    "alpha bravo",
    "alpha bravo charlie",
    "charlie delta echo foxtrot",
    "the and for",
    "noooooo",
];
const QUERIES: [&str; 4] = ["alpha", "\"bravo charlie\"", "char*", "no"];

pub(super) struct Subject {
    pub(super) name: &'static str,
    pub(super) store: Arc<dyn Store>,
    users: Vec<UserId>,
    rooms: Vec<(UserId, MeetingId)>,
    /// What a listener shows who has heard every frame, and up to where.
    listeners: BTreeMap<MeetingId, (i64, Shown)>,
    filter: Arc<TranscriptionFilter>,
    _keep: Box<dyn Any>,
}

/// Everything that can be seen, in an order of its own.
#[derive(Debug, PartialEq)]
pub(super) struct Visible {
    rooms: Vec<Room>,
    live: Vec<LiveMeeting>,
    live_segments: u64,
    unpublished: Vec<(String, i64)>,
}

#[derive(Debug, PartialEq)]
struct Room {
    seq: i64,
    lines: Vec<Line>,
    /// The same with a place, half-way.
    since: Vec<Line>,
    retracted: Vec<(String, i64)>,
    live: Vec<Line>,
    frames: Vec<Told>,
}

/// A frame whose segments are sorted: where no message gives their order, it is nobody's business.
#[derive(Debug, Clone, PartialEq)]
struct Told {
    seq: i64,
    at: Timestamp,
    kind: String,
    segments: BTreeSet<String>,
}

impl Subject {
    pub(super) async fn new(name: &'static str, store: Arc<dyn Store>, keep: impl Any) -> Self {
        let (mut users, mut rooms) = (Vec::new(), Vec::new());
        for email in ["ada@example.org", "bob@example.org"] {
            let person = NewUser {
                email: email.to_owned(),
                name: None,
                image_url: None,
                max_concurrent_bots: 10,
            };
            let (user, _) = store.find_or_create_user(person, START).await.expect("a user");
            users.push(user.id);
        }
        for (number, user) in [users[0], users[0], users[1]].into_iter().enumerate() {
            rooms.push((user, begin(&*store, user, number).await));
        }
        let filter = TranscriptionFilter::new(FilterConfig::default()).expect("the defaults");
        let listeners = rooms.iter().map(|(_, id)| (*id, (0, Shown::new()))).collect();
        let (filter, keep) = (Arc::new(filter), Box::new(keep));
        Subject { name, store, users, rooms, listeners, filter, _keep: keep }
    }

    /// Does what `op` says and tells what was answered.
    pub(super) async fn perform(&mut self, op: &Op, now: Timestamp) -> Result<String, StoreError> {
        let store = &self.store;
        match op {
            Op::Advance { .. } => Ok(String::new()),
            Op::Take { messages } => {
                let messages = messages.iter().map(|message| self.message(message));
                let messages: Vec<NewMessage> = messages.collect();
                let answers = store.take_messages(messages.clone(), now).await?;
                let pairs = messages.iter().zip(answers);
                Ok(format!(
                    "{:?}",
                    pairs.map(|(message, answer)| said(message, answer)).collect::<Vec<_>>()
                ))
            }
            Op::Hear { events } => {
                let events = events.iter().map(|event| self.event(event)).collect();
                store.keep_speaker_events(events, now).await?;
                Ok(String::new())
            }
            Op::Settle { room, stable_secs, rows_max } => {
                let request = SettleRequest {
                    stable_before: stable_secs.map(|secs| now - Duration::from_secs(secs)),
                    filter: Arc::clone(&self.filter),
                    rows_max: *rows_max,
                };
                let (_, meeting) = self.room(*room);
                let mut settled = store.settle_segments(meeting, request, None, now).await?;
                settled.gone.sort();
                // Whether a session counts of which only the end was told is left to the store.
                settled.sessions.clear();
                let frames: Vec<Told> = settled.frames.iter().map(Told::of).collect();
                settled.frames.clear();
                Ok(format!("{settled:?} {}", words(&frames)))
            }
            Op::Rename { by, room, from, to } => {
                let rename = Rename { from: name(*from), to: name(*to) };
                let (_, meeting) = self.room(*room);
                let target = BotTarget::Meeting(meeting);
                let answer = store.rename_speaker(self.user(*by), target, rename, now).await?;
                Ok(rewritten(answer))
            }
            Op::Delete { by, room } => {
                let target = BotTarget::Meeting(self.room(*room).1);
                let answer = store.delete_transcript(self.user(*by), target, now).await?;
                Ok(rewritten(answer))
            }
            Op::Publish { room, back, more } => {
                let (_, meeting) = self.room(*room);
                let end = store.stream_ends(vec![meeting]).await?[0];
                let last = end - back;
                let range = SeqRange::new(last - more, last);
                store.frames_published(vec![(meeting, range)]).await?;
                Ok(end.to_string())
            }
            Op::Search { by, query } => self.search(*by, *query).await,
            Op::Prune { older_than_secs } => {
                let limit = now - Duration::from_secs(*older_than_secs);
                let request = TranscriptPrune {
                    speaker_events_before: limit,
                    dead_letters_before: limit,
                    shares_before: limit,
                    dropped_before: limit,
                    rows_max: 1000,
                };
                Ok(store.prune_transcripts(request).await?.to_string())
            }
        }
    }

    pub(super) async fn look(&self, now: Timestamp) -> Result<Visible, StoreError> {
        let mut rooms = Vec::new();
        for (user, meeting) in &self.rooms {
            let target = BotTarget::Meeting(*meeting);
            let read = async |since| {
                let found = self.store.transcript(*user, target.clone(), since).await?;
                let Transcript { seq, lines, retracted, .. } = found.expect("it is theirs");
                // What was dropped is of use only until it is told again.
                let gone = |line: &Line| (retracted_body(line).to_string(), line.segment.seq);
                let gone: Vec<_> = sorted(retracted).iter().map(gone).collect();
                Ok::<_, StoreError>((seq, sorted(lines), gone))
            };
            let (seq, lines, none) = read(None).await?;
            assert!(none.is_empty(), "nobody named a place");
            let (_, since, retracted) = read(Some(seq / 2)).await?;
            let frames = self.store.frames(stream_of(*meeting), 0, 10_000).await?;
            rooms.push(Room {
                seq,
                lines,
                since,
                retracted,
                live: self.store.live_lines(*meeting).await?,
                frames: frames.iter().map(Told::of).collect(),
            });
        }
        let unpublished = self.store.unpublished_frames(Timestamp::EPOCH, now, 10_000).await?;
        Ok(Visible {
            rooms,
            live: self.store.live_meetings(None, 100).await?,
            live_segments: self.store.live_segment_count().await?,
            unpublished: unpublished.into_iter().map(|frame| (frame.stream, frame.seq)).collect(),
        })
    }

    /// T4: whoever hears the frames shows what is read.
    pub(super) async fn follow(&mut self, visible: &Visible) -> Result<(), String> {
        for ((_, meeting), room) in self.rooms.iter().zip(&visible.rooms) {
            let (heard, state) = self.listeners.get_mut(meeting).expect("one for each");
            let frames = self.store.frames(stream_of(*meeting), *heard, 10_000).await;
            for frame in frames.map_err(|error| error.to_string())? {
                if frame.seq != *heard + 1 {
                    return Err(format!("{meeting}: {} follows {heard}", frame.seq));
                }
                apply(state, &frame);
                *heard = frame.seq;
            }
            let read = shown(*meeting, &room.lines);
            if *heard != room.seq || *state != read {
                let at = room.seq;
                return Err(format!(
                    "{meeting} at {at}: read\n{read:#?}\nshown at {heard}\n{state:#?}"
                ));
            }
        }
        Ok(())
    }

    async fn search(&self, by: Pick, query: Pick) -> Result<String, StoreError> {
        let query =
            SearchQuery::parse(QUERIES[usize::from(query) % QUERIES.len()]).expect("a query");
        let page = SearchPage { before: None, rows_max: 100 };
        let hits = self.store.search_transcripts(self.user(by), query, page).await?;
        let found = hits.into_iter().map(|hit| (hit.id.is_some(), hit.meeting_id, hit.line));
        let (kept, mut live): (Vec<_>, Vec<_>) = found.partition(|(is_kept, _, _)| *is_kept);
        live.sort_by(|(_, a, first), (_, b, second)| {
            a.cmp(b).then_with(|| first.segment.key.cmp(&second.segment.key))
        });
        Ok(format!("{live:?} {kept:?}"))
    }

    fn user(&self, pick: Pick) -> UserId {
        // Mostly the one who has two meetings.
        self.users[usize::from(pick.is_multiple_of(4))]
    }

    fn room(&self, pick: Pick) -> (UserId, MeetingId) {
        *self::pick(&self.rooms, pick)
    }

    fn message(&self, message: &Message) -> NewMessage {
        let (user, meeting_id) = self.room(message.room);
        let stranger = self.users.iter().copied().find(|other| *other != user).expect("two users");
        let seconds = |secs: u64| START - Duration::from_secs(100 - secs);
        let token = match &message.body {
            Body::Starts { token, .. } => *token,
            _ => 0,
        };
        NewMessage {
            meeting_id,
            user_id: if message.foreign { stranger } else { user },
            token_issued_at: seconds(token),
            version: message.version,
            start_hint: message.hint_secs.map(seconds),
            body: match &message.body {
                Body::Says { session, segments } => MessageBody::Transcription {
                    uid: pick(&SESSIONS, *session).map(ToOwned::to_owned),
                    segments: segments.iter().map(segment).collect(),
                    refused: vec![],
                },
                Body::Starts { session, secs, .. } => {
                    MessageBody::SessionStart { uid: uid(*session), start: seconds(*secs) }
                }
                Body::Ends { session } => MessageBody::SessionEnd { uid: uid(*session) },
            },
        }
    }

    fn event(&self, event: &Event) -> (Option<MeetingId>, SpeakerEvent) {
        let kind = if event.starts { SpeakerEventKind::Start } else { SpeakerEventKind::End };
        let told = SpeakerEvent {
            session_uid: uid(event.session),
            kind,
            participant: name(event.name),
            name: name(event.name),
            at_ms: event.at_ms,
        };
        (event.room.map(|room| self.room(room).1), told)
    }
}

impl Told {
    fn of(frame: &Frame) -> Self {
        let body = frame.body.to_value();
        let segments = body["payload"]["segments"].as_array().cloned().unwrap_or_default();
        Told {
            seq: frame.seq,
            at: frame.at,
            kind: body["type"].to_string(),
            segments: segments.iter().map(ToString::to_string).collect(),
        }
    }
}

fn words(frames: &[Told]) -> String {
    let words = frames.iter().map(|told| (told.seq, told.at, &told.kind, &told.segments));
    format!("{:?}", words.collect::<Vec<_>>())
}

/// What was answered to a message. Whether a hint that nobody needed was still believed is not said.
fn said(message: &NewMessage, answer: MessageAnswer) -> String {
    let MessageAnswer::Taken(Taken { changed, frames, live, session_start }) = answer else {
        return "no such meeting".to_owned();
    };
    let frames: Vec<Told> = frames.iter().map(Told::of).collect();
    let start = session_start.filter(|_| changed > 0 || message.start_hint.is_none());
    format!("{changed} {} {:?} {start:?}", words(&frames), sorted(live))
}

fn rewritten(answer: Option<Rewritten>) -> String {
    let Some(answer) = answer else { return "not theirs".to_owned() };
    let frames: Vec<Told> = answer.frames.iter().map(Told::of).collect();
    format!("{} {} {:?}", answer.changed, words(&frames), sorted(answer.live))
}

fn sorted(mut lines: Vec<Line>) -> Vec<Line> {
    lines.sort_by(|a, b| a.segment.key.cmp(&b.segment.key));
    lines
}

fn segment(segment: &Segment) -> ToldSegment {
    ToldSegment {
        start_ms: segment.start_ms,
        end_ms: segment.start_ms + segment.length_ms,
        text: (*pick(&TEXTS, segment.text)).to_owned(),
        language: segment.german.then(|| "de".to_owned()),
        speaker: segment.speaker.map(name),
        completed: segment.completed,
        segment_id: segment.id.map(|id| format!("id {id}")),
    }
}

fn uid(session: Pick) -> String {
    pick(&SESSIONS, session).unwrap_or("a").to_owned()
}

fn name(pick: Pick) -> String {
    (*self::pick(&NAMES, pick)).to_owned()
}

fn pick<T>(list: &[T], pick: Pick) -> &T {
    &list[usize::from(pick) % list.len()]
}

/// A meeting with a bot in it.
async fn begin(store: &dyn Store, user: UserId, number: usize) -> MeetingId {
    let bot = NewBot {
        user_id: user,
        platform: Platform::GoogleMeet,
        native_id: format!("room-{number}"),
        connection_id: ConnectionId::from_stored(format!("connection-{number}")),
        language: None,
        task: None,
        wish: BotWish::default(),
    };
    let reserved = store.reserve_bot(bot, START).await.expect("reserve_bot");
    let ReserveAnswer::Reserved(announced) = reserved else { panic!("{reserved:?}") };
    let happened = BotHappened {
        workload: announced.record.workload(),
        connection: None,
        event: BotEvent::Joined,
        source: Source::Callback,
        beats: false,
    };
    store.bot_event(happened, None, START).await.expect("bot_event");
    announced.record.meeting.id
}
