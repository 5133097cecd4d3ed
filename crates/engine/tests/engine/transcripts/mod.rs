//! Transcripts over a real database, with a clock that stands still: what producers tell, what
//! listeners hear, what is final. Streams and the cache are those in memory, which pass the same
//! suite as those over Redis.

mod crash;
mod finish;
mod ingest;
mod listen;
mod load;
mod manage;
mod mirror;
mod model;
mod outages;
mod persist;
mod property;
mod reader;
mod resume;
mod seed_001;
mod streams;
mod stress;
mod tokens;

use std::sync::Arc;
use std::time::Duration;

use roundsman_bus::memory::MemoryTranscriptCache;
use roundsman_bus::{BusLimits, LocalBus, TranscriptCacheOptions};
use roundsman_core::Timestamp;
use roundsman_core::bots::{
    BotRecord, BotWish, ConnectionId, MeetingGrant, MeetingId, MeetingTokens, NewBot, Platform,
    stream_of,
};
use roundsman_core::ports::{
    BotStore, BotTarget, Bus, Clock, EffectStore, ReserveAnswer, Transcript, TranscriptCache,
    UserStore,
};
use roundsman_core::transcripts::{FilterConfig, TranscriptionFilter, in_order};
use roundsman_core::users::{NewUser, UserId};
use roundsman_engine::bots::bot_specs;
use roundsman_engine::transcripts::{
    IngestError, Ingested, Listener, PersistOptions, PersistRound, Persister, TranscriptLimits,
    Transcripts, TranscriptsDeps, transcript_specs,
};
use roundsman_engine::webhooks::webhook_specs;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use self::reader::Reader;
use crate::backend::Backend;
use crate::support::{World, secs};

/// Signs the tokens of producers.
const KEY: &[u8] = b"0123456789abcdef0123456789abcdef";
/// A session's name.
const SESSION: &str = "session-1";
/// Segments are final after this.
const STABLE_AFTER: Duration = Duration::from_secs(30);

/// One meeting that is transcribed, over a fresh database.
struct Talk {
    world: World,
    bus: Arc<dyn Bus>,
    cache: Option<Arc<MemoryTranscriptCache>>,
    tokens: MeetingTokens,
    limits: TranscriptLimits,
    transcripts: Transcripts,
    user: UserId,
    record: BotRecord,
}

impl Talk {
    async fn new(backend: Backend) -> Self {
        Talk::with(backend, TranscriptLimits::default(), false).await
    }

    /// The same, with a cache that others read.
    async fn cached(backend: Backend) -> Self {
        Talk::with(backend, TranscriptLimits::default(), true).await
    }

    async fn with(backend: Backend, limits: TranscriptLimits, cached: bool) -> Self {
        let specs = bot_specs(16).into_iter().chain(webhook_specs()).chain(transcript_specs());
        Talk::over(World::on(backend, specs.collect()).await, limits, cached).await
    }

    async fn over(world: World, limits: TranscriptLimits, cached: bool) -> Self {
        let bus: Arc<dyn Bus> =
            Arc::new(LocalBus::new(&BusLimits::default(), &CancellationToken::new()));
        let cache = cached.then(|| {
            let options = TranscriptCacheOptions::default();
            Arc::new(MemoryTranscriptCache::new(world.clock.clone(), options))
        });
        let tokens = MeetingTokens::new(KEY);
        let transcripts = service(&world, &bus, cache.as_ref(), &tokens, limits);
        let user = new_user(&world, "ada@example.org").await;
        let record = reserve(&world, user, "abc-defg-hij").await;
        // Nobody publishes what the reservation told; here nobody needs it.
        transcripts.tick().await.unwrap();
        Talk { world, bus, cache, tokens, limits, transcripts, user, record }
    }

    /// A process that died and was started again: nothing but the database and Redis are left.
    fn restart(&mut self) {
        self.transcripts = self.another_node();
    }

    /// Another process on the same database and bus.
    fn another_node(&self) -> Transcripts {
        let Talk { world, bus, cache, tokens, limits, .. } = self;
        service(world, bus, cache.as_ref(), tokens, *limits)
    }

    /// Publishes over another bus from now on.
    fn use_bus(&mut self, bus: Arc<dyn Bus>) {
        self.bus = bus;
        self.restart();
    }

    fn id(&self) -> MeetingId {
        self.record.meeting.id
    }

    fn target(&self) -> BotTarget {
        BotTarget::Meeting(self.id())
    }

    fn now(&self) -> Timestamp {
        self.world.clock.now()
    }

    fn token(&self) -> String {
        self.token_of(&self.record)
    }

    /// A token for a meeting that was made now and holds for two hours.
    fn token_of(&self, record: &BotRecord) -> String {
        self.tokens.sign(&grant(record), self.now(), self.now() + secs(7200), "one")
    }

    async fn try_ingest(&self, message: &Value) -> Result<Ingested, IngestError> {
        self.transcripts.ingest(&message.to_string()).await
    }

    async fn ingest(&self, message: &Value) -> Ingested {
        self.try_ingest(message).await.unwrap()
    }

    /// Tells segments of the session: start and end in milliseconds, and the text.
    async fn say(&self, segments: &[(i64, i64, &str)]) -> Ingested {
        self.ingest(&self.said(SESSION, segments)).await
    }

    fn said(&self, session: &str, segments: &[(i64, i64, &str)]) -> Value {
        said(&self.token(), Some(session), segments)
    }

    /// The producer says when the session started.
    async fn start_session(&self, at: Timestamp) -> Ingested {
        self.ingest(&started(&self.token(), SESSION, at)).await
    }

    async fn transcript(&self) -> Transcript {
        self.transcript_since(None).await
    }

    async fn transcript_since(&self, since: Option<i64>) -> Transcript {
        let found = self.transcripts.transcript(self.user, self.target(), since).await.unwrap();
        found.expect("the meeting exists")
    }

    /// What is read, in order.
    async fn texts(&self) -> Vec<String> {
        let lines = in_order(self.transcript().await.lines);
        lines.into_iter().map(|line| line.segment.content.text).collect()
    }

    /// The frames of the meeting about what is said, with their places.
    async fn frames(&self) -> Vec<(i64, Value)> {
        let frames = self.world.store.frames(stream_of(self.id()), 0, 100_000).await.unwrap();
        let frames = frames.into_iter().map(|frame| (frame.seq, frame.body.to_value()));
        frames.filter(|(_, body)| body["type"] != "meeting.status").collect()
    }

    fn persister(&self) -> Persister {
        Persister::new(&self.transcripts, persist_options())
    }

    async fn persist(&self) -> PersistRound {
        self.persister().tick(None).await.unwrap()
    }

    /// Everything that was said becomes final.
    async fn settle(&self) -> PersistRound {
        self.world.clock.advance(STABLE_AFTER + secs(1));
        self.persist().await
    }

    /// One who listens from a place, with what it knows from REST.
    async fn reader(&self) -> Reader {
        Reader::bootstrap(self).await
    }

    async fn listen(&self, after: Option<i64>) -> Listener {
        let mut listener = self.transcripts.listen();
        listener.add(self.id(), after).await.unwrap();
        listener
    }

    fn cache(&self) -> &MemoryTranscriptCache {
        self.cache.as_ref().expect("this test has a cache")
    }

    /// What every test ends with: the database is sound.
    async fn check(&self) {
        self.world.check().await;
    }
}

fn service(
    world: &World,
    bus: &Arc<dyn Bus>,
    cache: Option<&Arc<MemoryTranscriptCache>>,
    tokens: &MeetingTokens,
    limits: TranscriptLimits,
) -> Transcripts {
    Transcripts::new(TranscriptsDeps {
        store: world.store.clone(),
        clock: world.clock.clone(),
        random: world.random.clone(),
        bus: bus.clone(),
        cache: cache.map(|cache| cache.clone() as Arc<dyn TranscriptCache>),
        metrics: world.metrics.clone(),
        tokens: tokens.clone(),
        filter: Arc::new(TranscriptionFilter::new(FilterConfig::default()).unwrap()),
        limits,
        tasks: world.tasks.clone(),
    })
}

fn persist_options() -> PersistOptions {
    PersistOptions { stable_after: STABLE_AFTER, ..PersistOptions::default() }
}

async fn new_user(world: &World, email: &str) -> UserId {
    let user = NewUser {
        email: email.to_owned(),
        name: None,
        image_url: None,
        max_concurrent_bots: 10_000,
    };
    world.store.find_or_create_user(user, world.clock.now()).await.unwrap().0.id
}

/// A meeting with a bot that nobody launches.
async fn reserve(world: &World, user_id: UserId, native_id: &str) -> BotRecord {
    let bot = NewBot {
        user_id,
        platform: Platform::GoogleMeet,
        native_id: native_id.to_owned(),
        connection_id: ConnectionId::draw(world.random.as_ref()),
        language: None,
        task: None,
        wish: BotWish::default(),
    };
    match world.store.reserve_bot(bot, world.clock.now()).await.unwrap() {
        ReserveAnswer::Reserved(announced) => announced.record,
        other => panic!("{other:?}"),
    }
}

fn grant(record: &BotRecord) -> MeetingGrant {
    MeetingGrant {
        meeting_id: record.meeting.id,
        user_id: record.meeting.user_id,
        platform: record.meeting.platform.clone(),
        native_meeting_id: record.meeting.native_id.clone().unwrap_or_default(),
    }
}

/// A transcription, as producers write it.
fn said(token: &str, session: Option<&str>, segments: &[(i64, i64, &str)]) -> Value {
    let segment = |(start, end, text): &(i64, i64, &str)| json!({ "start": seconds(*start), "end": seconds(*end), "text": text, "language": "en" });
    let segments: Vec<Value> = segments.iter().map(segment).collect();
    json!({ "type": "transcription", "token": token, "uid": session, "segments": segments })
}

fn started(token: &str, session: &str, at: Timestamp) -> Value {
    json!({
        "type": "session_start", "token": token, "uid": session,
        "start_timestamp": at.to_string(),
    })
}

fn ended(token: &str, session: &str) -> Value {
    json!({ "type": "session_end", "token": token, "uid": session })
}

fn seconds(ms: i64) -> String {
    roundsman_core::transcripts::field_of(ms)
}
