//! The same random histories of transcripts on every adapter and on the reference: every answer and
//! everything that is read afterwards must be the same, and the frames of each step must make what
//! was read before what is read after (T4).

mod ops;
mod subject;

use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use roundsman_store::conformance::catalog;
use roundsman_testkit::env;
use tokio::runtime::Runtime;

use self::ops::{Op, histories};
use self::subject::Subject;
use super::{START, SharedPostgres};
use crate::open;
use crate::reference::Reference;

/// Histories on every change, and in a run of everything.
const CASES: (u32, u32) = (48, 1000);
const OPS_MAX: usize = 30;

#[test]
fn all_adapters_tell_the_same() {
    let runtime = Runtime::new().expect("a runtime");
    let shared = runtime.block_on(SharedPostgres::new());
    let cases = if env::full() { CASES.1 } else { CASES.0 };
    let config = Config { cases, failure_persistence: None, ..Config::default() };
    let random = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let mut runner = TestRunner::new_with_rng(config, random);
    let outcome = runner.run(&histories(OPS_MAX), |ops| {
        runtime.block_on(async {
            shared.empty().await;
            compare(subjects(&shared).await, &ops).await
        })
    });
    if let Err(failure) = outcome {
        panic!("{failure}");
    }
}

async fn subjects(shared: &SharedPostgres) -> Vec<Subject> {
    let (file, folder) = open::sqlite(catalog());
    let postgres = Arc::clone(&shared.store);
    vec![
        Subject::new("reference", Arc::new(Reference::new(catalog())), ()).await,
        Subject::new("sqlite inline", Arc::new(open::sqlite_inline(catalog())), ()).await,
        Subject::new("sqlite", Arc::new(file), folder).await,
        Subject::new("postgres", postgres, ()).await,
    ]
}

async fn compare(mut subjects: Vec<Subject>, ops: &[Op]) -> Result<(), TestCaseError> {
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
            let wrong = |wrong| TestCaseError::fail(format!("{place}: {wrong}"));
            subject.follow(&visible).await.map_err(wrong)?;
            match &expected {
                None => expected = Some((answer, visible)),
                Some((expected_answer, expected_visible)) => {
                    prop_assert_eq!(&answer, expected_answer, "{}", place);
                    prop_assert_eq!(&visible, expected_visible, "after {}", place);
                }
            }
        }
    }
    for subject in &subjects {
        let violations = subject.store.check().await;
        let violations = violations.map_err(|error| TestCaseError::fail(error.to_string()))?;
        prop_assert!(violations.is_empty(), "{}: {:?}", subject.name, violations);
    }
    Ok(())
}
