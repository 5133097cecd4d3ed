//! What a long history costs: the same work before and after a million jobs have finished.

use bench_support::{percentile, say};
use roundsman_core::jobs::JobState;
use roundsman_core::ports::{Clock, JobStore, ListFilter, ListPage, Scope};

use crate::Args;
use crate::database::{Bench, Target};
use crate::drain::drain;
use crate::enqueue::{Bulk, CALLERS, bulk, each_caller, single};
use crate::pickup::pickup;
use crate::report::Report;
use crate::support::grouped;

/// Jobs enqueued and drained before and after: a tenth of the history.
const SHARE: usize = 10;
/// Pages of finished jobs that are looked at.
const PAGES: usize = 100;
const PAGE_ROWS: u32 = 100;

pub(crate) async fn measure(
    args: &Args,
    target: &Target,
    finished: usize,
    report: &mut Report,
) -> anyhow::Result<()> {
    let bench = Bench::open(target).await?;
    let few = (finished / SHARE).max(1);
    round(args, &bench, target, few, 0, report).await?;
    say(&format!("  {} jobs become history", grouped(finished)));
    bulk(&bench, Bulk { jobs: finished, batch: args.batch, tenants: 0 }).await?;
    drain(&bench, args.slots, finished).await?;
    round(args, &bench, target, few, finished, report).await?;
    pages(&bench, target, finished, report).await?;
    bench.close().await;
    Ok(())
}

async fn round(
    args: &Args,
    bench: &Bench,
    target: &Target,
    jobs: usize,
    finished: usize,
    report: &mut Report,
) -> anyhow::Result<()> {
    let name = target.name();
    let after = grouped(finished);
    bench.settle_down().await?;
    let rate = bulk(bench, Bulk { jobs, batch: args.batch, tenants: 0 }).await?;
    report.add(name, &format!("bulk enqueue after {after} finished, jobs/s"), rate);
    bench.settle_down().await?;
    let rate = drain(bench, args.slots, jobs).await?;
    report.add(name, &format!("drain after {after} finished, jobs/s"), rate);
    let rate = single(bench, args.singles).await?;
    report.add(name, &format!("single enqueue after {after} finished, jobs/s"), rate);
    drain(bench, args.slots, each_caller(args.singles) * CALLERS).await?;
    bench.settle_down().await?;
    let pickups = pickup(bench, args.pickups).await?.acknowledged;
    let p99 = percentile(&pickups, 0.99);
    report.add(name, &format!("idle pickup p99 after {after} finished, ms"), p99);
    Ok(())
}

/// Pages of what is done, from the newest back.
async fn pages(
    bench: &Bench,
    target: &Target,
    finished: usize,
    report: &mut Report,
) -> anyhow::Result<()> {
    let filter = ListFilter { state: Some(JobState::Completed), ..ListFilter::default() };
    let (mut before, mut latencies) = (None, Vec::with_capacity(PAGES));
    for _ in 0..PAGES {
        let asked = bench.clock.monotonic();
        let page = ListPage { before, rows_max: PAGE_ROWS };
        let now = Clock::now(bench.clock.as_ref());
        let jobs =
            JobStore::jobs(bench.store.as_ref(), Scope::All, filter.clone(), page, now).await?;
        latencies.push(bench.clock.monotonic().saturating_sub(asked).as_secs_f64() * 1e3);
        let Some(last) = jobs.last() else { break };
        before = Some(last.facts().id);
    }
    latencies.sort_by(f64::total_cmp);
    let what = format!("page of 100 among {} finished p99, ms", grouped(finished));
    report.add(target.name(), &what, percentile(&latencies, 0.99));
    Ok(())
}
