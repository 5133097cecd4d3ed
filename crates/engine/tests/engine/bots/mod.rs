//! Bots over a real database, with a clock that stands still and a runtime that does what a test
//! tells it.

mod callbacks;
mod launch;
mod launcher;
mod simulation;
mod stop;
mod sweep;
mod wishes;

use std::sync::Arc;
use std::time::Duration;

use roundsman_bus::{BusLimits, LocalBus};
use roundsman_core::bots::{
    BotEvent, BotRecord, BotStatus, BotTimeouts, CallbackKey, ExitReport, MeetingId, MeetingTokens,
    WorkloadId,
};
use roundsman_core::ports::{BotStore, BotTarget, Bus, Clock, StopAnswer, UserStore};
use roundsman_core::transcripts::{FilterConfig, TranscriptionFilter};
use roundsman_core::users::{NewUser, UserId};
use roundsman_engine::bots::{
    BotRound, BotSweepOptions, BotSweeper, BotWork, Bots, BotsDeps, LaunchOptions, StartError,
    StartWish, SuperviseOptions, bot_specs,
};
use roundsman_engine::jobs::{Handler, Worker};
use roundsman_engine::transcripts::{TranscriptLimits, Transcripts, TranscriptsDeps};
use roundsman_engine::webhooks::webhook_specs;
use tokio_util::sync::CancellationToken;

use self::launcher::FakeLauncher;
use crate::backend::Backend;
use crate::support::{World, secs, until_running};

const LEAVE_GRACE: Duration = Duration::from_secs(30);
const KILL_GRACE: Duration = Duration::from_secs(8);
/// What waits for a runtime is done this long after it answers again.
const BACK_WITHIN: Duration = Duration::from_secs(5);

/// Everything about bots over one fresh database, with one user who may have ten.
struct BotWorld {
    world: World,
    launcher: Arc<FakeLauncher>,
    bus: Arc<dyn Bus>,
    work: BotWork,
    bots: Bots,
    worker: Arc<Worker>,
    sweeper: BotSweeper,
    user: UserId,
    key: CallbackKey,
}

impl BotWorld {
    async fn new(backend: Backend) -> Self {
        Self::with_limit(backend, 10).await
    }

    async fn with_limit(backend: Backend, max_concurrent_bots: i32) -> Self {
        let specs = bot_specs(16).into_iter().chain(webhook_specs()).collect();
        let world = World::on(backend, specs).await;
        let launcher = Arc::new(FakeLauncher::default());
        let bus: Arc<dyn Bus> =
            Arc::new(LocalBus::new(&BusLimits::default(), &CancellationToken::new()));
        let key = CallbackKey::new(b"0123456789abcdef0123456789abcdef");
        let work = BotWork {
            store: world.store.clone(),
            clock: world.clock.clone(),
            random: world.random.clone(),
            bus: bus.clone(),
            wakes: world.wakes.clone(),
            metrics: world.metrics.clone(),
            launcher: launcher.clone(),
            transcripts: transcripts(&world, &bus),
            tasks: world.tasks.clone(),
        };
        let bots = service(&work, &key);
        let user = new_user(&world, "ada@example.org", max_concurrent_bots).await;
        let worker = world.worker(handlers(&work));
        let sweeper = work.sweeper(sweep_options());
        BotWorld { world, launcher, bus, work, bots, worker, sweeper, user, key }
    }

    /// A process that died and was started again: nothing but the database is left.
    fn restart(&mut self) {
        self.worker = self.world.worker(handlers(&self.work));
        self.sweeper = self.work.sweeper(sweep_options());
    }

    /// Announces over another bus from now on.
    fn use_bus(&mut self, bus: Arc<dyn Bus>) {
        self.work.transcripts = transcripts(&self.world, &bus);
        self.bus = bus.clone();
        self.work.bus = bus;
        self.bots = service(&self.work, &self.key);
        self.restart();
    }

    /// Runs every job that is due, and those that become due by it.
    async fn run_due(&self) {
        for _ in 0..1000 {
            self.worker.claim_tick().await.unwrap();
            if self.worker.running_count() == 0 {
                return;
            }
            until_running(&self.worker, 0).await;
            self.worker.settle_tick().await.unwrap();
        }
        panic!("there is always more to do");
    }

    /// Lets time pass, second by second, with every job run when it is due.
    async fn pass(&self, time: Duration) {
        for _ in 0..time.as_secs() {
            self.world.clock.advance(secs(1));
            self.run_due().await;
        }
    }

    async fn start(&self, native_id: &str) -> Result<BotRecord, StartError> {
        self.bots.start(self.user, wish(native_id)).await
    }

    /// A bot that was launched and has said nothing yet.
    async fn launched(&self) -> BotRecord {
        let record = self.start(&fresh_id(&self.world)).await.unwrap();
        self.run_due().await;
        assert!(self.launcher.is_running(record.workload()));
        record
    }

    /// A bot in its meeting.
    async fn active(&self) -> BotRecord {
        let record = self.launched().await;
        self.says(&record, BotEvent::Started).await;
        self.says(&record, BotEvent::Joined).await
    }

    /// A callback of a bot that speaks our protocol.
    async fn says(&self, record: &BotRecord, event: BotEvent) -> BotRecord {
        let connection = record.bot.connection_id.as_str();
        self.bots.callback(&self.token(record), connection, event, true).await.unwrap()
    }

    async fn beats(&self, record: &BotRecord) {
        let connection = record.bot.connection_id.as_str();
        self.bots.heartbeat(&self.token(record), connection, None, None).await.unwrap();
    }

    fn token(&self, record: &BotRecord) -> String {
        self.key.token(record.workload(), &record.bot.connection_id)
    }

    async fn stop(&self, record: &BotRecord) {
        let target = BotTarget::Meeting(record.meeting.id);
        let answer = self.bots.stop(self.user, target).await.unwrap();
        assert!(matches!(answer, StopAnswer::Wished(_)), "{answer:?}");
    }

    async fn record(&self, id: MeetingId) -> BotRecord {
        self.world.store.bot(id).await.unwrap().expect("the bot exists")
    }

    async fn status(&self, record: &BotRecord) -> BotStatus {
        self.record(record.meeting.id).await.status
    }

    async fn sweep(&self) -> BotRound {
        self.sweeper.tick().await.unwrap()
    }

    /// Lets time pass with a sweep every minute, and heartbeats of these every half.
    async fn minutes(&self, count: u64, alive: &[BotRecord]) {
        for _ in 0..2 * count {
            self.world.clock.advance(secs(30));
            for record in alive {
                self.beats(record).await;
            }
            self.run_due().await;
            if self.world.clock.monotonic().as_secs().is_multiple_of(60) {
                self.sweep().await;
                self.run_due().await;
            }
        }
    }

    /// What every test ends with: the database is sound, and no workload is left without a bot.
    async fn check(&self) {
        self.world.check().await;
        for workload in self.launcher.all() {
            let record = self.record(workload.meeting_id).await;
            assert!(!record.status.is_over(), "{workload:?} is left of {:?}", record.status);
        }
    }
}

fn service(work: &BotWork, key: &CallbackKey) -> Bots {
    Bots::new(BotsDeps {
        store: work.store.clone(),
        clock: work.clock.clone(),
        random: work.random.clone(),
        bus: work.bus.clone(),
        wakes: work.wakes.clone(),
        metrics: work.metrics.clone(),
        callback_key: key.clone(),
        transcripts: work.transcripts.clone(),
        tasks: work.tasks.clone(),
    })
}

/// Where listeners hear of bots.
fn transcripts(world: &World, bus: &Arc<dyn Bus>) -> Transcripts {
    Transcripts::new(TranscriptsDeps {
        store: world.store.clone(),
        clock: world.clock.clone(),
        random: world.random.clone(),
        bus: bus.clone(),
        cache: None,
        metrics: world.metrics.clone(),
        tokens: MeetingTokens::new(b"a key for tests"),
        filter: Arc::new(TranscriptionFilter::new(FilterConfig::default()).unwrap()),
        limits: TranscriptLimits::default(),
        tasks: world.tasks.clone(),
    })
}

fn handlers(work: &BotWork) -> Vec<Arc<dyn Handler>> {
    vec![work.supervisor(supervise_options()), work.finisher()]
}

fn supervise_options() -> SuperviseOptions {
    SuperviseOptions {
        leave_grace: LEAVE_GRACE,
        kill_grace: KILL_GRACE,
        attempts_max: 2,
        at_once_max: 16,
        launch: LaunchOptions {
            installation: "test".to_owned(),
            callback_url: "http://127.0.0.1:8080".to_owned(),
            redis_url: None,
            whisper_live_url: None,
            log_level: "info".to_owned(),
            heartbeat: secs(30),
            leave: LEAVE_GRACE,
            lifetime: secs(24 * 3600),
            waiting_room_timeout_ms: 300_000,
            no_one_joined_timeout_ms: 120_000,
            everyone_left_timeout_ms: 60_000,
            meeting_tokens: MeetingTokens::new(b"a key for tests"),
            callback_key: CallbackKey::new(b"0123456789abcdef0123456789abcdef"),
            extra_env: Vec::new(),
        },
    }
}

fn sweep_options() -> BotSweepOptions {
    BotSweepOptions {
        every: secs(60),
        timeouts: BotTimeouts::default(),
        rows_max: 1000,
        misses_max: 2,
    }
}

async fn new_user(world: &World, email: &str, max_concurrent_bots: i32) -> UserId {
    let user =
        NewUser { email: email.to_owned(), name: None, image_url: None, max_concurrent_bots };
    world.store.find_or_create_user(user, world.clock.now()).await.unwrap().0.id
}

fn wish(native_id: &str) -> StartWish {
    StartWish {
        platform: "google_meet".to_owned(),
        native_meeting_id: native_id.to_owned(),
        ..StartWish::default()
    }
}

/// A meeting that was not used before.
fn fresh_id(world: &World) -> String {
    let mut number = world.random.next_u64();
    let mut letters = |count: usize| -> String {
        (0..count)
            .map(|_| {
                let letter = u8::try_from(number % 26).unwrap();
                number /= 26;
                char::from(b'a' + letter)
            })
            .collect()
    };
    format!("{}-{}-{}", letters(3), letters(4), letters(3))
}

fn exit(code: i32) -> BotEvent {
    BotEvent::Exited(ExitReport { exit_code: Some(code), ..ExitReport::default() })
}

fn first(record: &BotRecord) -> WorkloadId {
    WorkloadId { meeting_id: record.meeting.id, attempt: 1 }
}
