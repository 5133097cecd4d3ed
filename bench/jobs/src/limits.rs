//! What limits cost: the same backlog drained without a gate and with one that holds nothing back.

use bench_support::say;
use roundsman_core::jobs::{GateChange, GateLimits, GateName, Rate};
use roundsman_core::ports::{Clock, GateStore};

use crate::Args;
use crate::database::{Bench, Target};
use crate::drain::drain;
use crate::enqueue::{Bulk, bulk};
use crate::report::Report;
use crate::support::wish;

/// More than ever runs, or passes, so that what is measured is the looking.
const NEVER_REACHED: u32 = 1_000_000;
const TENANTS: usize = 100;
const WITHOUT: &str = "drain without limits, jobs/s";

/// What a kind asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Asks {
    Nothing,
    Concurrency,
    Rate,
    Fairness,
}

impl Asks {
    const ALL: [Asks; 4] = [Asks::Nothing, Asks::Concurrency, Asks::Rate, Asks::Fairness];

    fn name(self) -> &'static str {
        match self {
            Asks::Nothing => WITHOUT,
            Asks::Concurrency => "drain with a limit of running jobs, jobs/s",
            Asks::Rate => "drain with a rate, jobs/s",
            Asks::Fairness => "drain of 100 tenants in turn, jobs/s",
        }
    }

    fn tenants(self) -> usize {
        if self == Asks::Fairness { TENANTS } else { 0 }
    }

    /// Tenants are served in turn without anybody asking for it.
    fn limits(self) -> Option<GateLimits> {
        let rate = Rate { count: NEVER_REACHED, per_secs: 1, burst: NEVER_REACHED };
        let none = GateLimits::default();
        match self {
            Asks::Nothing | Asks::Fairness => None,
            Asks::Concurrency => Some(GateLimits { concurrency: Some(NEVER_REACHED), ..none }),
            Asks::Rate => Some(GateLimits { rate: Some(rate), ..none }),
        }
    }
}

pub(crate) async fn measure(
    args: &Args,
    target: &Target,
    jobs: usize,
    report: &mut Report,
) -> anyhow::Result<()> {
    let name = target.name();
    let mut without = f64::NAN;
    for asks in Asks::ALL {
        say(&format!("  {}", asks.name()));
        let bench = Bench::open(target).await?;
        if let Some(limits) = asks.limits() {
            let gate = GateName::of_lane(&wish(0, bench.clock.as_ref()).lane());
            let change = GateChange { limits: Some(limits), ..GateChange::default() };
            GateStore::change_gate(bench.store.as_ref(), gate, change, bench.clock.now()).await?;
        }
        bulk(&bench, Bulk { jobs, batch: args.batch, tenants: asks.tenants() }).await?;
        bench.settle_down().await?;
        let rate = drain(&bench, args.slots, jobs).await?;
        report.add(name, asks.name(), rate);
        if asks == Asks::Nothing {
            without = rate;
        } else {
            report.add(name, &asks.name().replace("jobs/s", "÷ without limits"), rate / without);
        }
        bench.close().await;
    }
    Ok(())
}
