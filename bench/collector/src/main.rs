//! Measures how fast transcripts are collected, with the real server, and whether what is told of
//! them is exactly what has changed.
//!
//! Beside it in the same run: a consumer in Python that does the reference collector's operations in
//! Redis for each message. The measurement fails if a change is not told, is told twice, or if there
//! are more frames than messages.

mod peer;
mod requests;
mod stream;
mod told;
mod workload;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, ensure};
use bench_support::place::{Place, Target};
use bench_support::process;
use bench_support::server::Server;
use bench_support::table::{Table, print_line, shown};
use bench_support::{meetings, per_second, say};
use clap::Parser;
use roundsman_testkit::RedisServer;

use peer::Peer;
use stream::Producer;
use told::{Listener, Told, stored};
use workload::{Size, Workload};

/// Measure how fast transcripts are collected
#[derive(Debug, Parser)]
struct Args {
    /// The server's binary
    #[arg(long)]
    binary: PathBuf,
    /// Keep the embedded database in this folder (one that is on the disk you care about)
    #[arg(long, default_value = ".")]
    sqlite_in: PathBuf,
    /// A PostgreSQL URL with the right to create databases; without it PostgreSQL is not measured
    #[arg(long)]
    postgres: Option<String>,
    /// A Python with redis-py, for the comparison; without it there is none
    #[arg(long)]
    python: Option<PathBuf>,
    /// Meetings at the same time
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u16).range(1..=100))]
    meetings: u16,
    /// Meetings that the comparison gets, because it takes its time
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u16).range(1..=100))]
    peer_meetings: u16,
    /// Segments of a meeting
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u16).range(1..=1000))]
    segments: u16,
    /// How often a segment is told differently
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u16).range(1..=100))]
    revisions: u16,
    /// Connections that messages come on
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..=64))]
    connections: u16,
    /// Messages in one request
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u16).range(1..=500))]
    batch: u16,
    /// Runs; the median is shown
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..=100))]
    runs: u16,
    /// Only what has this word in its name
    #[arg(long, default_value = "")]
    only: String,
    /// See that everything works, in seconds
    #[arg(long)]
    quick: bool,
}

/// How messages come in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    /// So many messages in a request, on so many connections.
    Http {
        batch: usize,
        connections: usize,
    },
    WebSocket {
        connections: usize,
    },
    Redis,
}

const SPEED: &str = "segments/s";
const COLUMNS: [&str; 9] = [
    SPEED,
    "messages/s",
    "changes/s",
    "told ÷ changed",
    "frames ÷ messages",
    "processor, s",
    "µs per segment",
    "Redis processor, s",
    "peak MiB",
];
const PYTHON: &str = "Python asyncio, Redis alone";

/// What a run came to.
struct Seen {
    took: Duration,
    processor: Duration,
    redis_processor: Option<Duration>,
    peak_kib: f64,
    told: Told,
}

fn main() -> anyhow::Result<()> {
    let mut args = Args::parse();
    if args.quick {
        (args.meetings, args.peer_meetings, args.runs) = (10, 2, 1);
        (args.segments, args.revisions) = (10, 5);
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let mut table = Table::new(&COLUMNS);
    let outcome = runtime.block_on(run(&args, &mut table));
    print_line(&format!("load before: {}", process::load()?));
    table.print();
    print_ratios(&table);
    outcome
}

async fn run(args: &Args, table: &mut Table) -> anyhow::Result<()> {
    for run in 1..=args.runs {
        for (name, target, way) in contenders(args) {
            if !name.contains(&args.only) {
                continue;
            }
            say(&format!("run {run} of {}: {name}", args.runs));
            let workload =
                |user| Workload::new(args.size(args.meetings), |id| meetings::token(user, id));
            let (workload, seen) =
                measure(args, &target, way, workload).await.context(name.clone())?;
            ensure!(seen.told.segments == workload.changes(), "{name} told {:?}", seen.told);
            ensure!(seen.told.frames <= workload.messages(), "{name} told {:?}", seen.told);
            table.add(&name, &figures(&workload, &seen));
        }
        if let Some(python) = args.python.as_ref().filter(|_| PYTHON.contains(&args.only)) {
            say(&format!("run {run} of {}: {PYTHON}", args.runs));
            let workload =
                Workload::new(args.size(args.peer_meetings), |id| meetings::token(1, id));
            let seen = measure_peer(python, &workload).await.context(PYTHON)?;
            table.add(PYTHON, &figures(&workload, &seen));
        }
    }
    Ok(())
}

impl Args {
    fn size(&self, meetings: u16) -> Size {
        Size {
            meetings: meetings.into(),
            segments: self.segments.into(),
            revisions: self.revisions.into(),
        }
    }
}

fn contenders(args: &Args) -> Vec<(String, Target, Way)> {
    let sqlite = Target::Sqlite { folder: args.sqlite_in.clone() };
    let (connections, batch) = (args.connections.into(), args.batch.into());
    let http = Way::Http { batch, connections };
    let mut contenders = vec![
        (format!("SQLite, HTTP, {batch} messages a request"), sqlite.clone(), http),
        (
            "SQLite, HTTP, a message a request".to_owned(),
            sqlite.clone(),
            Way::Http { batch: 1, connections: 64 },
        ),
        ("SQLite, WebSocket".to_owned(), sqlite.clone(), Way::WebSocket { connections }),
        ("SQLite, Redis stream".to_owned(), sqlite, Way::Redis),
    ];
    if let Some(url) = args.postgres.clone() {
        let postgres = Target::Postgres { url };
        contenders.push((
            format!("PostgreSQL, HTTP, {batch} messages a request"),
            postgres.clone(),
            http,
        ));
        contenders.push(("PostgreSQL, Redis stream".to_owned(), postgres, Way::Redis));
    }
    contenders
}

async fn measure(
    args: &Args,
    target: &Target,
    way: Way,
    workload: impl FnOnce(i64) -> Workload,
) -> anyhow::Result<(Workload, Seen)> {
    // PostgreSQL has a Redis, as several nodes would; the embedded server only if it is asked to
    // read from there.
    let with_redis = way == Way::Redis || matches!(target, Target::Postgres { .. });
    let redis = if with_redis { Some(RedisServer::start().await?) } else { None };
    let place = Place::open(target, redis.as_ref().map(RedisServer::url), "collector").await?;
    // The first start makes the tables; meetings are filled in while nobody runs.
    let first = Server::start(&args.binary, &place, &[])?;
    let (user, key) = first.user().await?;
    drop(first);
    meetings::fill(&place, user, args.meetings.into()).await?;
    let workload = workload(user);

    let server = Server::start(&args.binary, &place, &[])?;
    let mut producer = match &redis {
        Some(redis) => Some(Producer::open(&redis.url()).await?),
        None => None,
    };
    match (&mut producer, way) {
        (Some(producer), Way::Redis) => {
            producer.start_sessions(&workload).await?;
            producer.tell_speakers(&workload).await?;
        }
        _ => requests::prepare(server.address(), &workload).await?,
    }
    let listener = match &redis {
        Some(redis) => Listener::on_redis(&redis.url()).await?,
        None => Listener::on_server(server.address(), &key, &workload).await?,
    };
    let before = process::processor(server.pid())?;
    let redis_before = redis_processor(&mut producer).await?;
    let took = send(way, &server, &mut producer, &workload).await?;
    let processor = process::processor(server.pid())?.saturating_sub(before);
    let redis_after = redis_processor(&mut producer).await?;
    let peak_kib = process::resident_peak_kib(server.pid())?;
    let heard = listener.heard(&workload).await?;
    drop(server);
    let told = stored(&place).await?;
    if redis.is_some() {
        ensure!(heard == told, "Redis heard {heard:?} of {told:?}");
    } else {
        // Somebody who is far behind is told several frames as one.
        ensure!(heard.segments <= told.segments, "a listener heard {heard:?} of {told:?}");
    }
    let redis_processor = redis_before.zip(redis_after).map(|(a, b)| b.saturating_sub(a));
    Ok((workload, Seen { took, processor, redis_processor, peak_kib, told }))
}

async fn send(
    way: Way,
    server: &Server,
    producer: &mut Option<Producer>,
    workload: &Workload,
) -> anyhow::Result<Duration> {
    match way {
        Way::Http { batch, connections } => {
            requests::over_http(server.address(), workload, connections, batch).await
        }
        Way::WebSocket { connections } => {
            requests::over_websockets(server.address(), workload, connections).await
        }
        Way::Redis => producer.as_mut().context("no Redis")?.produce(workload).await,
    }
}

async fn redis_processor(producer: &mut Option<Producer>) -> anyhow::Result<Option<Duration>> {
    match producer {
        Some(producer) => Ok(Some(producer.redis_processor().await?)),
        None => Ok(None),
    }
}

async fn measure_peer(python: &std::path::Path, workload: &Workload) -> anyhow::Result<Seen> {
    let redis = RedisServer::start().await?;
    let mut producer = Producer::open(&redis.url()).await?;
    let peer = Peer::start(python, &redis.url())?;
    producer.store_speakers(workload).await?;
    producer.start_sessions(workload).await?;
    let listener = Listener::on_redis(&redis.url()).await?;
    let before = process::processor(peer.pid())?;
    let redis_before = producer.redis_processor().await?;
    let took = producer.produce(workload).await?;
    let processor = process::processor(peer.pid())?.saturating_sub(before);
    let redis_processor = Some(producer.redis_processor().await?.saturating_sub(redis_before));
    let peak_kib = process::resident_peak_kib(peer.pid())?;
    let told = listener.heard(workload).await?;
    Ok(Seen { took, processor, redis_processor, peak_kib, told })
}

#[expect(clippy::cast_precision_loss, reason = "counts of a measurement are small")]
fn figures(workload: &Workload, seen: &Seen) -> [f64; COLUMNS.len()] {
    let ratio = |a: usize, b: usize| a as f64 / b as f64;
    [
        per_second(workload.told(), seen.took),
        per_second(workload.messages(), seen.took),
        per_second(workload.changes(), seen.took),
        ratio(seen.told.segments, workload.changes()),
        ratio(seen.told.frames, workload.messages()),
        seen.processor.as_secs_f64(),
        seen.processor.as_secs_f64() * 1e6 / workload.told() as f64,
        seen.redis_processor.map_or(f64::NAN, |time| time.as_secs_f64()),
        seen.peak_kib / 1024.0,
    ]
}

fn print_ratios(table: &Table) {
    let Some(python) = table.median(PYTHON, SPEED) else { return };
    for name in table.names().filter(|name| *name != PYTHON) {
        let ratio = table.median(name, SPEED).unwrap_or(f64::NAN) / python;
        print_line(&format!("{name}: {} times as many segments/s as {PYTHON}", shown(ratio)));
    }
}
