//! How speed changes with the length of the backlog: from a thousand jobs to a million.

use bench_support::{percentile, say};

use crate::Args;
use crate::backlog::{CLAIM_JOBS, claims};
use crate::database::{Bench, Target};
use crate::drain::drain;
use crate::enqueue::{Bulk, bulk};
use crate::report::Report;
use crate::support::grouped;

const SHORTEST: usize = 1_000;
const STEP: usize = 10;
/// No more than a tenth of the shortest backlog is claimed before it is drained.
const CLAIMS_MAX: usize = 100;

pub(crate) async fn measure(
    args: &Args,
    target: &Target,
    longest: usize,
    report: &mut Report,
) -> anyhow::Result<()> {
    let name = target.name();
    for jobs in lengths(longest) {
        let long = grouped(jobs);
        say(&format!("  {long} jobs"));
        let bench = Bench::open(target).await?;
        let rate = bulk(&bench, Bulk { jobs, batch: args.batch, tenants: 0 }).await?;
        report.add(name, &format!("{long}: bulk enqueue, jobs/s"), rate);
        bench.settle_down().await?;
        let count = (jobs / STEP / CLAIM_JOBS as usize).clamp(1, CLAIMS_MAX);
        let claims = claims(&bench, count).await?;
        let p50 = percentile(&claims.latencies, 0.5);
        report.add(name, &format!("{long}: claim of {CLAIM_JOBS} p50, ms"), p50);
        let rate = drain(&bench, args.slots, jobs - claims.jobs).await?;
        report.add(name, &format!("{long}: drain, jobs/s"), rate);
        bench.close().await;
    }
    Ok(())
}

fn lengths(longest: usize) -> Vec<usize> {
    let lengths = std::iter::successors(Some(SHORTEST), |length| length.checked_mul(STEP));
    let mut lengths: Vec<usize> = lengths.take_while(|length| *length < longest).collect();
    lengths.push(longest);
    lengths
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_curve_ends_with_the_longest() {
        assert_eq!(lengths(1_000_000), [1_000, 10_000, 100_000, 1_000_000]);
        assert_eq!(lengths(2_500), [1_000, 2_500]);
        assert_eq!(lengths(500), [500]);
    }
}
