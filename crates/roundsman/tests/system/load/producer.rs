//! Clients that ask for jobs, and change their minds about some.

use std::collections::BTreeMap;

use roundsman_core::ports::Random;
use serde_json::{Value, json};

use super::ledger::{Idempotent, OwnersWord, Sort, number};
use super::{Answer, Client, operators};
use crate::site::PAYLOAD_CANARY;

/// Keys per client; few, so that triggers meet waiting and running jobs.
const KEYS: u64 = 3;
/// Jobs in one request at most.
const BULK_MAX: u64 = 12;
/// Enough that kills and lost leases rarely use them all up.
const MANY_ATTEMPTS: u64 = 30;
/// Makes pages, and so the log of an embedded database, fill.
const PADDING_BYTES: usize = 700;
/// A day that no test sees: a fickle job that nobody works on.
const FAR_FUTURE: &str = "2199-01-01T00:00:00Z";

pub(super) async fn run(client: Client) {
    while client.goes_on() {
        match client.percent() {
            0..30 => single(&client).await,
            30..42 => bulk(&client).await,
            42..62 => idempotent(&client).await,
            62..82 => keyed(&client).await,
            82..94 => fickle(&client).await,
            94..98 => operators::users_and_tokens(&client).await,
            _ => resend(&client).await,
        }
    }
}

async fn single(client: &Client) {
    let wish = wish(client, Sort::Plain);
    match client.user.post("/jobs", &wish).await {
        Answer::Acked { status, body } => {
            if status != 201 {
                client.ledger.problem(format!("a job without a key was answered {status}"));
            }
            client.ledger.enqueued(number(&body["id"]), Sort::Plain, marker(&wish));
        }
        other => lost_wishes(client, other, &[wish]).await,
    }
}

async fn bulk(client: &Client) {
    let count = 2 + client.random.below(BULK_MAX - 1);
    let wishes: Vec<Value> = (0..count).map(|_| wish(client, Sort::Plain)).collect();
    match client.user.post("/jobs", &json!({"jobs": wishes})).await {
        Answer::Acked { body, .. } => {
            let jobs = body["jobs"].as_array().map_or(&[][..], Vec::as_slice);
            if jobs.len() != wishes.len() {
                client.ledger.problem(format!("{} wishes, {} jobs", wishes.len(), jobs.len()));
            }
            for (wish, job) in wishes.iter().zip(jobs) {
                client.ledger.enqueued(number(&job["id"]), Sort::Plain, marker(wish));
            }
        }
        other => lost_wishes(client, other, &wishes).await,
    }
}

/// A request that a careful client sends again until it is answered, and sometimes once more.
async fn idempotent(client: &Client) {
    let body = wish(client, Sort::Plain);
    let request = Idempotent { key: format!("key-{}", marker(&body)), body };
    match operators::send_idempotent(&client.user, &client.ledger, &request).await {
        Ok(()) => {
            if client.percent() < 20 {
                // What was answered is answered again, and not done again.
                let again = operators::send_idempotent(&client.user, &client.ledger, &request);
                if let Err(lost) = again.await {
                    client.lost(lost).await;
                }
            }
        }
        Err(lost) => {
            client.ledger.entries().unanswered.push(request);
            client.lost(lost).await;
        }
    }
}

async fn keyed(client: &Client) {
    let trigger = client.ledger.number();
    let key = format!("client-{}-{}", client.number, client.random.below(KEYS));
    let body = json!({
        "kind": Sort::Keyed.kind(), "key": key, "max_attempts": MANY_ATTEMPTS,
        "payload": {"trigger": trigger, "canary": PAYLOAD_CANARY},
    });
    match client.user.post("/jobs", &body).await {
        Answer::Acked { body, .. } => client.ledger.triggered(number(&body["id"]), trigger),
        Answer::Refused { status, code } => refused(client, "a trigger", status, &code),
        Answer::Lost(lost) => client.lost(lost).await,
    }
}

/// Enqueues, cancels, and sometimes retries.
async fn fickle(client: &Client) {
    let mut wish = wish(client, Sort::Fickle);
    if client.percent() < 60 {
        wish["run_at"] = json!(FAR_FUTURE);
    }
    let id = match client.user.post("/jobs", &wish).await {
        Answer::Acked { body, .. } => number(&body["id"]),
        other => return lost_wishes(client, other, &[wish]).await,
    };
    client.ledger.enqueued(id, Sort::Fickle, marker(&wish));
    if client.percent() < 85 && decide(client, id, "cancel").await && client.percent() < 50 {
        decide(client, id, "retry").await;
    }
}

/// Cancels or retries a job; whether it is now certain what the owner wants.
async fn decide(client: &Client, id: i64, verb: &str) -> bool {
    let path = format!("/jobs/{id}/{verb}");
    let answer = client.user.post(&path, &json!({})).await;
    let (word, lost) = match &answer {
        Answer::Acked { body, .. } if verb == "retry" => {
            let pending = body["state"] != "cancelled";
            (if pending { OwnersWord::Retried } else { OwnersWord::Unclear }, None)
        }
        Answer::Acked { body, .. } if body["state"] == "cancelled" => (OwnersWord::Cancelled, None),
        // A worker has it: it decides. Or it has ended: nothing was done.
        Answer::Acked { .. } | Answer::Refused { .. } => (OwnersWord::Unclear, None),
        Answer::Lost(lost) => (OwnersWord::Unclear, Some(*lost)),
    };
    client.ledger.note(id, |known| known.owners_word = word);
    if let Some(lost) = lost {
        client.lost(lost).await;
    }
    word != OwnersWord::Unclear
}

async fn resend(client: &Client) {
    if let Err(lost) = operators::resend_one(&client.user, &client.ledger).await {
        client.lost(lost).await;
    }
}

fn wish(client: &Client, sort: Sort) -> Value {
    let marker = format!("wish-{}", client.ledger.number());
    let padding = "x".repeat(PADDING_BYTES);
    let mut wish = json!({
        "kind": sort.kind(),
        "payload": {"marker": marker, "canary": PAYLOAD_CANARY, "padding": padding},
    });
    // The others have the three attempts that the configuration gives everybody.
    if client.percent() < 80 {
        wish["max_attempts"] = json!(MANY_ATTEMPTS);
    }
    if client.percent() < 20 {
        wish["priority"] = json!(client.random.below(200).cast_signed() - 100);
    }
    wish
}

pub(super) fn marker(wish: &Value) -> &str {
    wish["payload"]["marker"].as_str().unwrap_or_default()
}

async fn lost_wishes(client: &Client, answer: Answer, wishes: &[Value]) {
    match answer {
        Answer::Acked { .. } => {}
        Answer::Refused { status, code } => refused(client, "a job", status, &code),
        Answer::Lost(lost) => {
            for wish in wishes {
                client.ledger.maybe_enqueued(marker(wish));
            }
            client.lost(lost).await;
        }
    }
}

fn refused(client: &Client, what: &str, status: u16, code: &str) {
    client.ledger.problem(format!("{what} was refused: {status} {code}"));
}

/// Which trigger each keyed payload carries, by job.
pub(super) fn trigger(payload: &Value) -> u64 {
    payload["trigger"].as_u64().unwrap_or_default()
}

/// For the comparison: how often each marker is stored.
pub(super) fn count_markers<'a>(
    markers: impl Iterator<Item = &'a str>,
) -> BTreeMap<&'a str, usize> {
    let mut counts = BTreeMap::new();
    for marker in markers {
        *counts.entry(marker).or_default() += 1;
    }
    counts
}
