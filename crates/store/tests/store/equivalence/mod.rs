//! The same random operations on every adapter and on the reference: every answer and everything
//! that can be seen afterwards must be the same. A failure is shrunk and shows its operations.

mod audits;
mod ops;
mod orders;
mod presence;
mod recordings;
mod rooms;
mod subject;
mod tasks;
mod transcripts;

use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use roundsman_core::Timestamp;
use roundsman_store::conformance::catalog;
use roundsman_store::postgres::PostgresStore;
use roundsman_testkit::TestDatabase;
use tokio::runtime::Runtime;

use self::ops::{Op, sequences};
use self::subject::Subject;
use crate::open;
use crate::reference::Reference;

const CASES: u32 = 64;
const OPS_MAX: usize = 60;
const START: Timestamp = Timestamp::from_micros(1_767_225_600_000_000);

#[test]
fn all_adapters_do_the_same() {
    let runtime = Runtime::new().expect("a runtime");
    let shared = runtime.block_on(SharedPostgres::new());
    let config = Config { cases: CASES, failure_persistence: None, ..Config::default() };
    // The same cases every time: a failure of the gate must be one that can be repeated.
    let random = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let mut runner = TestRunner::new_with_rng(config, random);
    let outcome = runner.run(&sequences(OPS_MAX), |(ordered, ops)| {
        runtime.block_on(async {
            shared.empty().await;
            let mut subjects = subjects(&shared).await;
            for subject in &mut subjects {
                subject.ordered = ordered;
            }
            compare(subjects, &ops).await
        })
    });
    if let Err(failure) = outcome {
        panic!("{failure}");
    }
}

/// One database for all cases: emptying it is faster than making another.
struct SharedPostgres {
    store: Arc<PostgresStore>,
    database: TestDatabase,
}

impl SharedPostgres {
    async fn new() -> Self {
        let (store, database) = open::postgres(catalog()).await;
        SharedPostgres { store: Arc::new(store), database }
    }

    async fn empty(&self) {
        const TABLES: &str = "SELECT string_agg(schemaname || '.' || quote_ident(tablename), ', ') \
             FROM pg_tables WHERE schemaname IN ('public', 'roundsman') \
              AND tablename NOT LIKE '%migration%'";
        // A row that is there from the beginning.
        const BEGIN: &str = "INSERT INTO roundsman.transcript_index (upto) VALUES (0)";
        let client = self.database.connect().await.expect("a connection");
        let tables: String = client.query_one(TABLES, &[]).await.expect("the tables").get(0);
        let truncate = format!("TRUNCATE {tables} RESTART IDENTITY; {BEGIN}");
        client.batch_execute(&truncate).await.expect("truncate");
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
            let name = subject.name;
            let fail = |error| TestCaseError::fail(format!("{name}, step {step} {op:?}: {error}"));
            let answer = subject.perform(op, now).await.map_err(fail)?;
            let visible = subject.look(now).await.map_err(fail)?;
            match &expected {
                None => expected = Some((answer, visible)),
                Some((expected_answer, expected_visible)) => {
                    prop_assert_eq!(&answer, expected_answer, "{}, step {} {:?}", name, step, op);
                    prop_assert_eq!(
                        &visible,
                        expected_visible,
                        "{}, after step {} {:?}",
                        name,
                        step,
                        op
                    );
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
