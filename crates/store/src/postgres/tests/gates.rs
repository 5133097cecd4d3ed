//! Limits that are set while claims are under way.

use roundsman_core::jobs::{GateChange, GateLimits, GateName};
use roundsman_core::ports::{GateStore, SweepRequest};

use super::*;

/// A claim that began before the first limit of its kind was there does not write down what would be
/// counted. It is caught up with.
#[tokio::test]
async fn a_run_that_began_while_its_limit_was_set_is_counted_from_the_next_sweep_on() {
    let (store, database) = store().await;
    enqueue(&store, 9).await;
    assert_eq!(store.claim(claim(2), NOW).await.unwrap().jobs.len(), 2);
    let limits = GateLimits { concurrency: Some(3), ..GateLimits::default() };
    let change = GateChange { limits: Some(limits), ..GateChange::default() };
    store.change_gate(GateName::of_kind(&kind()), change, NOW).await.unwrap();
    // As such a claim leaves it.
    let operator = database.connect().await.unwrap();
    let uncounted = operator.execute("UPDATE roundsman.job_running SET lane = NULL", &[]);
    assert_eq!(uncounted.await.unwrap(), 2, "those that ran already were counted");
    let request = SweepRequest { rows_max: 10, serving_since: Timestamp::EPOCH, jitter: 0 };
    assert!(store.sweep(request, NOW).await.unwrap().rescued.is_empty());
    assert_eq!(store.claim(claim(9), NOW).await.unwrap().jobs.len(), 1);
}
