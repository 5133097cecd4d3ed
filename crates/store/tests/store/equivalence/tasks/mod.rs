//! The same random histories of tasks and alarms on every adapter and on the reference: every answer
//! and everything that is read afterwards must be the same, and after every step each task that waits
//! has somebody who comes back for it (L1).

mod ops;
mod subject;

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use roundsman_core::ports::StoreError;
use roundsman_store::conformance::catalog;
use roundsman_testkit::env;
use tokio::runtime::Runtime;

use self::ops::{Op, histories};
use self::subject::Subject;
use super::{START, SharedPostgres};
use crate::open;
use crate::reference::Reference;

/// Histories on every change, and in a run of everything.
const CASES: (u32, u32) = (40, 1000);
const OPS_MAX: usize = 60;

/// What must be answered at some time: histories in which it never happens prove little.
const HAPPENS: [&str; 13] = [
    "Changed",
    "Unchanged",
    "Stale",
    "NoSlot",
    "NotFound",
    "LeaseLost",
    "hinted true",
    "rearmed true",
    "told true",
    "pruned true",
    "set true",
    "set false",
    "cancelled true",
];

#[test]
fn all_adapters_do_the_same_tasks() {
    let runtime = Runtime::new().expect("a runtime");
    let shared = runtime.block_on(SharedPostgres::new());
    run(|ops, happened| {
        runtime.block_on(async {
            shared.empty().await;
            let mut subjects = embedded().await;
            let postgres = Arc::clone(&shared.store);
            subjects.push(Subject::new("postgres", postgres, ()).await);
            compare(subjects, ops, happened).await
        })
    });
}

#[test]
fn the_embedded_adapter_does_the_tasks_of_the_reference() {
    let runtime = Runtime::new().expect("a runtime");
    run(|ops, happened| runtime.block_on(async { compare(embedded().await, ops, happened).await }));
}

/// What has been answered so far.
type Happened = RefCell<BTreeSet<&'static str>>;

fn run(compared: impl Fn(&[Op], &Happened) -> Result<(), TestCaseError>) {
    let happened = Happened::default();
    let cases = if env::full() { CASES.1 } else { CASES.0 };
    let config = Config { cases, failure_persistence: None, ..Config::default() };
    let random = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let mut runner = TestRunner::new_with_rng(config, random);
    if let Err(failure) = runner.run(&histories(OPS_MAX), |ops| compared(&ops, &happened)) {
        panic!("{failure}");
    }
    assert_eq!(happened.into_inner(), BTreeSet::from(HAPPENS));
}

async fn embedded() -> Vec<Subject> {
    let (file, folder) = open::sqlite(catalog());
    vec![
        Subject::new("reference", Arc::new(Reference::new(catalog())), ()).await,
        Subject::new("sqlite inline", Arc::new(open::sqlite_inline(catalog())), ()).await,
        Subject::new("sqlite", Arc::new(file), folder).await,
    ]
}

async fn compare(
    mut subjects: Vec<Subject>,
    ops: &[Op],
    happened: &Happened,
) -> Result<(), TestCaseError> {
    let mut now = START;
    for (step, op) in ops.iter().enumerate() {
        if let Op::Advance { secs } = op {
            now = now + Duration::from_secs(*secs);
        }
        let mut expected = None;
        for subject in &mut subjects {
            let place = format!("{}, step {step} {op:?}", subject.name);
            let fail = |error| TestCaseError::fail(format!("{place}: {error}"));
            let answer = subject.perform(op, now).await.map_err(fail)?;
            let visible = subject.look(now).await.map_err(fail)?;
            subject.nobody_is_left(now).await.map_err(TestCaseError::fail)?;
            match &expected {
                None => {
                    let told = HAPPENS.into_iter().filter(|word| answer.contains(word));
                    happened.borrow_mut().extend(told);
                    expected = Some((answer, visible));
                }
                Some((expected_answer, expected_visible)) => {
                    prop_assert_eq!(&answer, expected_answer, "{}", place);
                    prop_assert_eq!(&visible, expected_visible, "after {}", place);
                }
            }
        }
    }
    for subject in &mut subjects {
        // Whatever an operator has taken away, one sweep brings back.
        let fail = |error: StoreError| TestCaseError::fail(error.to_string());
        subject.perform(&Op::Rearm { rows_max: 7 }, now).await.map_err(fail)?;
        subject.nobody_is_left(now).await.map_err(TestCaseError::fail)?;
        let violations = subject.store.check().await;
        let violations = violations.map_err(fail)?;
        prop_assert!(violations.is_empty(), "{}: {:?}", subject.name, violations);
    }
    Ok(())
}
