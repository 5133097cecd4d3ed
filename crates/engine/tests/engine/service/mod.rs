//! The job service, as its callers see it.

mod by_hand;
mod claim;
mod enqueue;
mod holding;
mod isolation;

use roundsman_core::jobs::{JobId, RunningJob};
use roundsman_core::users::{Authenticated, TokenId, UserId};
use roundsman_engine::Error;
use roundsman_engine::jobs::{ClaimWish, JobWish, Jobs};

/// A kind of a user's own.
const OWN: &str = "render";

fn user(number: i64) -> Authenticated {
    Authenticated::User {
        user_id: UserId::new(number),
        token_id: TokenId::new(number),
        scopes: vec![],
    }
}

fn ada() -> Authenticated {
    user(1)
}

fn wish(kind: &str) -> JobWish {
    JobWish { kind: kind.to_owned(), ..JobWish::default() }
}

fn keyed(kind: &str, key: &str) -> JobWish {
    JobWish { key: Some(key.to_owned()), ..wish(kind) }
}

fn claim_wish() -> ClaimWish {
    ClaimWish { worker: "outside".to_owned(), kinds: vec![OWN.to_owned()], ..ClaimWish::default() }
}

async fn enqueue(jobs: &Jobs, caller: &Authenticated, wish: JobWish) -> JobId {
    jobs.enqueue(caller, vec![wish], None).await.unwrap().jobs[0].id
}

/// Claims the one job there is.
async fn claim_one(jobs: &Jobs, caller: &Authenticated) -> RunningJob {
    let mut claimed = jobs.claim(caller, claim_wish()).await.unwrap();
    assert_eq!(claimed.len(), 1);
    claimed.remove(0)
}

/// The fields that a refused request is told of.
fn fields<T: std::fmt::Debug>(refused: Result<T, Error>) -> Vec<String> {
    match refused.unwrap_err() {
        Error::Invalid(problems) => {
            assert!(problems.iter().all(|problem| !problem.message.is_empty()));
            problems.into_iter().map(|problem| problem.field).collect()
        }
        other => panic!("not a refusal of fields: {other:?}"),
    }
}
