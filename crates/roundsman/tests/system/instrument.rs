//! The instruments of these tests, tested: a comparison that finds nothing wrong with anything would
//! let every other test here pass.

use anyhow::{Context, Result, ensure};
use roundsman_core::jobs::{FinishedState, Job, JobId, Json};
use serde_json::json;

use crate::load::{self, Ledger, Plan, Sort, WhenLost};
use crate::site::{Site, Stored};

const REQUESTS: i64 = 300;

#[tokio::test]
async fn the_comparison_finds_what_is_lost_changed_or_doubled() {
    async fn run() -> Result<()> {
        let site = Site::sqlite()?;
        let mut node = site.start(site.options()).await?;
        let ledger = load::begin(&site, &node).await?;
        let plan = Plan::of_requests(REQUESTS, WhenLost::Complain, 1);
        load::run(&site, &ledger, &[node.base_url()], plan).await?;
        load::drain(&ledger, &node.base_url()).await?;
        node.stop().await?;
        let mut stored = site.stored().await?;
        load::verify_drained(&ledger, &stored)?;

        let index = completed(&stored).context("nothing was completed")?;
        let intact = stored.jobs[index].clone();
        stored.jobs.remove(index);
        expect(&ledger, &stored, "is lost")?;

        let mut changed = intact.clone();
        if let Job::Finished(job) = &mut changed {
            let result = Json::from_value(&json!({"by": "somebody else"}))?;
            job.state = FinishedState::Completed { result };
        }
        stored.jobs.push(changed);
        expect(&ledger, &stored, "it has another result")?;

        stored.jobs.pop();
        stored.jobs.push(Job::Waiting(roundsman_core::jobs::WaitingJob {
            facts: intact.facts().clone(),
            not_before: None,
        }));
        expect(&ledger, &stored, "it had ended")?;

        stored.jobs.pop();
        let mut double = intact.clone();
        if let Job::Finished(job) = &mut double {
            job.facts.id = JobId::new(i64::MAX);
        }
        stored.jobs.extend([intact, double]);
        expect(&ledger, &stored, "is stored 2 times")
    }
    run().await.unwrap();
}

fn expect(ledger: &Ledger, stored: &Stored, words: &str) -> Result<()> {
    let found = load::verify(ledger, stored);
    let text = found.err().map(|error| error.to_string()).unwrap_or_default();
    ensure!(text.contains(words), "expected {words:?}, found {text:?}");
    Ok(())
}

/// A plain job that was completed.
fn completed(stored: &Stored) -> Option<usize> {
    stored.jobs.iter().position(|job| match job {
        Job::Finished(finished) => {
            job.facts().kind.as_str() == Sort::Plain.kind()
                && matches!(finished.state, FinishedState::Completed { .. })
        }
        Job::Waiting(_) | Job::Running(_) => false,
    })
}

/// A server that shows a secret is found out.
#[tokio::test]
async fn a_secret_in_a_log_is_found() {
    async fn run() -> Result<()> {
        let site = Site::sqlite()?;
        let mut node = site.start(site.options()).await?;
        node.stop().await?;
        node.check_logs()?;
        // Everybody may see this word; as a secret it would be one that is shown.
        site.keep_secret("Roundsman");
        let found = node.check_logs();
        ensure!(found.is_err(), "a secret on standard output was not found");
        // The check at the end of the node would find it again.
        site.forget_secret("Roundsman");
        Ok(())
    }
    run().await.unwrap();
}
