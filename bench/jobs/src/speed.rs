//! The figures everybody asks for first: enqueueing, draining, pickup, beside the raw loop.

use bench_support::percentile;

use crate::Args;
use crate::database::{Bench, Target};
use crate::drain::drain;
use crate::enqueue::{Bulk, CALLERS, bulk, each_caller, single};
use crate::pickup::pickup;
use crate::raw;
use crate::report::Report;

pub(crate) async fn measure(
    args: &Args,
    target: &Target,
    jobs: usize,
    report: &mut Report,
) -> anyhow::Result<()> {
    let name = target.name();
    let bench = Bench::open(target).await?;
    report.add(name, "raw loop, jobs/s", raw::drain(&bench, jobs).await?);
    let rate = bulk(&bench, Bulk { jobs, batch: args.batch, tenants: 0 }).await?;
    report.add(name, "bulk enqueue, jobs/s", rate);
    bench.settle_down().await?;
    report.add(name, "drain, jobs/s", drain(&bench, args.slots, jobs).await?);
    let rate = single(&bench, args.singles).await?;
    report.add(name, &format!("single enqueue, jobs/s ({CALLERS} callers)"), rate);
    drain(&bench, args.slots, each_caller(args.singles) * CALLERS).await?;
    bench.settle_down().await?;
    let latencies = pickup(&bench, args.pickups).await?.acknowledged;
    report.add(name, "idle pickup p50, ms", percentile(&latencies, 0.5));
    report.add(name, "idle pickup p99, ms", percentile(&latencies, 0.99));
    bench.close().await;
    Ok(())
}
