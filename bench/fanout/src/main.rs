//! Measures how fast the frames of one meeting reach everybody who listens, with the real server,
//! and beside it with Node's ws and with a bare loop of the parts that the server is made of: the
//! same listeners, the same frames, the same run.

mod contenders;
mod crowd;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, ensure};
use bench_support::table::{Table, print_line, shown};
use bench_support::{pause, per_second, percentile, process, say};
use clap::Parser;
use tokio::task::LocalSet;

use contenders::{Contender, Running};
use crowd::Crowd;

/// Measure how fast frames reach those who listen
#[derive(Debug, Parser)]
struct Args {
    /// The server's binary
    #[arg(long)]
    binary: PathBuf,
    /// Keep the embedded database in this folder
    #[arg(long, default_value = ".")]
    sqlite_in: PathBuf,
    /// The binary of the bare loop; without it there is no comparison with one
    #[arg(long)]
    bare: Option<PathBuf>,
    /// The script of the Node server; without it there is no comparison with one
    #[arg(long)]
    node: Option<PathBuf>,
    /// How many listen
    #[arg(long, value_delimiter = ',', default_values_t = [1000, 5000],
          value_parser = clap::value_parser!(u16).range(1..=9000))]
    listeners: Vec<u16>,
    /// The size of a frame
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u16).range(120..=10_000))]
    bytes: u16,
    /// Deliveries a second while the latency is measured
    #[arg(long, default_value_t = 20_000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    rate: u32,
    /// For how long
    #[arg(long, default_value_t = 15, value_parser = clap::value_parser!(u16).range(1..=600))]
    secs: u16,
    /// Frames that are published one by one, each when everybody has got the one before
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u16).range(1..=10_000))]
    frames: u16,
    /// Bursts, each waited for
    #[arg(long, default_value_t = 15, value_parser = clap::value_parser!(u16).range(1..=1000))]
    bursts: u16,
    /// Frames of a burst; a listener that has more than 64 to read at once gets them joined
    #[arg(long, default_value_t = 40, value_parser = clap::value_parser!(u16).range(1..=60))]
    burst_frames: u16,
    /// Runs; the median is shown
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..=100))]
    runs: u16,
    /// See that everything works, in seconds
    #[arg(long)]
    quick: bool,
}

const SPEED: &str = "deliveries/s, one by one";
const COST: &str = "per processor second, one by one";
const BURST_SPEED: &str = "deliveries/s, burst";
const BURST_COST: &str = "per processor second, burst";
const STEADY_COST: &str = "per processor second, steady";
const P99: &str = "steady, last receiver p99, ms";
const COLUMNS: [&str; 9] = [
    "frame, bytes",
    SPEED,
    COST,
    BURST_SPEED,
    BURST_COST,
    STEADY_COST,
    "steady, last receiver p50, ms",
    P99,
    "KiB a connection",
];
/// So many come and go before anything is measured: what a server needs once is not counted as
/// memory of a connection.
const EARLY_LISTENERS: usize = 100;
const EARLY_REST: Duration = Duration::from_millis(500);
/// What a process has open beside its connections.
const OTHER_FILES: usize = 200;

fn main() -> anyhow::Result<()> {
    let mut args = Args::parse();
    if args.quick {
        (args.listeners, args.runs) = (vec![200], 1);
        (args.secs, args.bursts, args.frames) = (2, 3, 20);
    }
    let most: usize = args.listeners.iter().copied().max().unwrap_or(0).into();
    let files = process::open_files_max()?;
    ensure!(
        files >= most + OTHER_FILES,
        "{files} open files are too few for {most} connections: raise the limit (ulimit -n)"
    );
    print_line(&format!("open files: at most {files}; load before: {}", process::load()?));
    // One thread: the server has the other processor.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let mut table = Table::new(&COLUMNS);
    let outcome = LocalSet::new().block_on(&runtime, run(&args, &mut table));
    table.print();
    print_ratios(&args, &table);
    outcome
}

async fn run(args: &Args, table: &mut Table) -> anyhow::Result<()> {
    let mut contenders = vec![Contender::Roundsman, Contender::RoundsmanIngest];
    contenders.extend(args.bare.clone().map(Contender::Bare));
    contenders.extend(args.node.clone().map(Contender::Node));
    for run in 1..=args.runs {
        for listeners in &args.listeners {
            for contender in &contenders {
                let name = row(contender.name(), *listeners);
                say(&format!("run {run} of {}: {name}", args.runs));
                let figures = measure(args, contender, (*listeners).into()).await;
                table.add(&name, &figures.context(name.clone())?);
            }
        }
    }
    Ok(())
}

fn row(contender: &str, listeners: u16) -> String {
    format!("{contender}, {listeners} listeners")
}

#[expect(clippy::cast_precision_loss, reason = "counts of a measurement are small")]
async fn measure(
    args: &Args,
    contender: &Contender,
    listeners: usize,
) -> anyhow::Result<[f64; COLUMNS.len()]> {
    let bytes = args.bytes.into();
    let mut server = Running::start(contender, &args.binary, &args.sqlite_in, bytes).await?;
    let pid = server.pid();
    let address = server.address().to_owned();
    let header = server.header().to_owned();
    drop(Crowd::gather(&address, &[&header], EARLY_LISTENERS).await?);
    pause(EARLY_REST).await;
    let empty_kib = process::resident_kib(pid)?;
    let crowd = Crowd::gather(&address, &[&header], listeners).await?;
    // Warms it up, and shows that everybody is there.
    bursts(&mut server, &crowd, 3, 10).await?;

    let cost = Cost::since(pid)?;
    let steady = steady(args, &mut server, &crowd, listeners).await?;
    let steady_cost = cost.until_now()?;
    let cost = Cost::since(pid)?;
    let one_by_one = bursts(&mut server, &crowd, args.frames.into(), 1).await?;
    let one_by_one_cost = cost.until_now()?;
    let cost = Cost::since(pid)?;
    let (count, size) = (args.bursts.into(), args.burst_frames.into());
    let burst = bursts(&mut server, &crowd, count, size).await?;
    let burst_cost = cost.until_now()?;
    let grown_kib = process::resident_kib(pid)? - empty_kib;

    let deliveries = |frames: usize| frames * listeners;
    Ok([
        steady.bytes as f64,
        per_second(deliveries(args.frames.into()), one_by_one),
        per_second(deliveries(args.frames.into()), one_by_one_cost),
        per_second(deliveries(count * size), burst),
        per_second(deliveries(count * size), burst_cost),
        per_second(deliveries(steady.latencies.len()), steady_cost),
        percentile(&steady.latencies, 0.5),
        percentile(&steady.latencies, 0.99),
        grown_kib / listeners.saturating_sub(EARLY_LISTENERS).max(1) as f64,
    ])
}

/// Processor time of the server.
struct Cost {
    pid: u32,
    before: Duration,
}

impl Cost {
    fn since(pid: u32) -> anyhow::Result<Cost> {
        Ok(Cost { pid, before: process::processor(pid)? })
    }

    fn until_now(&self) -> anyhow::Result<Duration> {
        Ok(process::processor(self.pid)?.saturating_sub(self.before))
    }
}

/// Publishes bursts, each when everybody has got the one before, and returns the time they took
/// together.
async fn bursts(
    server: &mut Running,
    crowd: &Crowd,
    count: usize,
    frames: usize,
) -> anyhow::Result<Duration> {
    let mut took = Duration::ZERO;
    for _ in 0..count {
        crowd.expect(frames);
        let started = crowd.now();
        server.publish(frames).await?;
        let delivered = crowd.delivered().await?;
        let last = delivered.last.into_iter().max().unwrap_or_default();
        took += last.saturating_sub(started);
    }
    Ok(took)
}

struct Steady {
    /// Milliseconds from publishing a frame to its last receiver, sorted.
    latencies: Vec<f64>,
    bytes: usize,
}

/// Publishes frames at a rate. Each is due at its time, and its latency counts from then.
async fn steady(
    args: &Args,
    server: &mut Running,
    crowd: &Crowd,
    listeners: usize,
) -> anyhow::Result<Steady> {
    let per_frame =
        Duration::from_secs_f64(f64::from(u32::try_from(listeners)?) / f64::from(args.rate));
    let frames = (f64::from(args.secs) / per_frame.as_secs_f64()).ceil();
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "seconds times frames a second, both bounded"
    )]
    let frames = frames as u32;
    crowd.expect(usize::try_from(frames)?);
    let started = crowd.now();
    for number in 0..frames {
        let early = (started + per_frame * number).saturating_sub(crowd.now());
        if !early.is_zero() {
            pause(early).await;
        }
        server.publish(1).await?;
    }
    let delivered = crowd.delivered().await?;
    let due = (0..frames).map(|number| started + per_frame * number);
    let mut latencies: Vec<f64> = delivered
        .last
        .iter()
        .zip(due)
        .map(|(last, due)| last.saturating_sub(due).as_secs_f64() * 1e3)
        .collect();
    latencies.sort_by(f64::total_cmp);
    Ok(Steady { latencies, bytes: delivered.bytes })
}

fn print_ratios(args: &Args, table: &Table) {
    let ours = Contender::Roundsman.name();
    let others = [Contender::Bare(PathBuf::new()), Contender::Node(PathBuf::new())];
    for listeners in &args.listeners {
        for other in &others {
            for column in [SPEED, COST, BURST_SPEED, BURST_COST, STEADY_COST, P99] {
                let median = |name: &str| table.median(&row(name, *listeners), column);
                let Some(ratio) = median(ours).zip(median(other.name())).map(|(a, b)| a / b) else {
                    continue;
                };
                let ratio = shown(ratio);
                print_line(&format!("{listeners} listeners, {column}: {ratio} × {}", other.name()));
            }
        }
    }
}
