//! Outside workers: most finish what they take, some fail, some hand back, some vanish.

use roundsman_core::ports::Random;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::Client;
use super::api::{Answer, Api};
use super::ledger::{Ledger, Sort, number};

/// Jobs that a worker of the load takes at once.
const CLAIM_MAX: u64 = 6;
/// Jobs that a worker takes at once when everything must end.
const DRAIN_MAX: u64 = 20;

pub(super) async fn run(client: Client) {
    let name = format!("worker-{}", client.number);
    while client.goes_on() {
        let max = 1 + client.random.below(CLAIM_MAX);
        match client.user.post("/jobs/claim", &claim(&name, max)).await {
            Answer::Acked { body, .. } => {
                for job in jobs_of(&body) {
                    client.ledger.claimed(job);
                    work(&client, job).await;
                }
            }
            Answer::Refused { status, code } => {
                client.ledger.problem(format!("a claim was refused: {status} {code}"));
            }
            Answer::Lost(lost) => client.lost(lost).await,
        }
    }
}

/// Completes everything, until told to stop.
pub(super) async fn drain(api: &Api, ledger: &Ledger, number: usize, stop: &CancellationToken) {
    let name = format!("drain-{number}");
    while !stop.is_cancelled() {
        let answer = api.post("/jobs/claim", &claim(&name, DRAIN_MAX)).await;
        let Answer::Acked { body, .. } = answer else {
            ledger.problem(format!("while draining, a claim: {answer:?}"));
            return;
        };
        for job in jobs_of(&body) {
            ledger.claimed(job);
            let answer = complete(api, ledger, job).await;
            // A lease may end on a machine that stands still; the job comes round again.
            if let Answer::Lost(lost) = answer {
                ledger.problem(format!("while draining, a completion: {lost:?}"));
            }
        }
    }
}

async fn work(client: &Client, job: &Value) {
    let (id, lease_no) = (number(&job["id"]), number(&job["lease_no"]));
    let fickle = job["kind"] == Sort::Fickle.kind();
    let answer = match client.percent() {
        0..25 if fickle => cancel_own(client, id, lease_no).await,
        0..62 => complete(&client.user, &client.ledger, job).await,
        62..78 => {
            report(client, id, lease_no).await;
            complete(&client.user, &client.ledger, job).await
        }
        78..86 => fail(client, id, lease_no, false).await,
        86..89 => fail(client, id, lease_no, true).await,
        89..96 => settle(&client.user, id, "release", &json!({"lease_no": lease_no})).await,
        // Gone without a word: the lease ends by itself.
        _ => return,
    };
    match answer {
        Answer::Acked { .. } => {}
        // Taken away meanwhile: on a slow machine a lease of a second is short. And who wants to
        // cancel what has just ended is told so.
        Answer::Refused { status: 409, code }
            if ["lease_lost", "wrong_state"].contains(&&*code) => {}
        Answer::Refused { status, code } => {
            client.ledger.problem(format!("job {id} was refused: {status} {code}"));
        }
        Answer::Lost(lost) => client.lost(lost).await,
    }
}

/// Somebody cancels a job that runs: its worker hears of it and stops.
async fn cancel_own(client: &Client, id: i64, lease_no: i64) -> Answer {
    client.ledger.note(id, |known| known.cancelled_by_worker = true);
    let answer = settle(&client.user, id, "cancel", &json!({})).await;
    if let Answer::Acked { .. } = answer { report(client, id, lease_no).await } else { answer }
}

/// Signs of life. A worker that is told to stop says that it has.
async fn report(client: &Client, id: i64, lease_no: i64) -> Answer {
    let progress = json!({"percent": client.percent()});
    let body = json!({"lease_no": lease_no, "progress": progress});
    let verb = if client.percent() < 50 { "heartbeat" } else { "progress" };
    let answer = settle(&client.user, id, verb, &body).await;
    match &answer {
        Answer::Acked { body, .. } if body["cancel_requested"] == true => {
            settle(&client.user, id, "cancelled", &json!({"lease_no": lease_no})).await
        }
        _ => answer,
    }
}

async fn complete(api: &Api, ledger: &Ledger, job: &Value) -> Answer {
    let (id, lease_no) = (number(&job["id"]), number(&job["lease_no"]));
    let result = json!({"by": lease_no});
    let body = json!({"lease_no": lease_no, "result": result});
    let answer = settle(api, id, "complete", &body).await;
    match &answer {
        Answer::Acked { body, .. } => {
            if body["state"] != "completed" {
                ledger.problem(format!("job {id}: completed, yet it is {}", body["state"]));
            }
            ledger.completed(id, result);
        }
        Answer::Refused { .. } => {}
        Answer::Lost(_) => ledger.note(id, |known| known.maybe_done.push(result)),
    }
    answer
}

async fn fail(client: &Client, id: i64, lease_no: i64, fatal: bool) -> Answer {
    let error = json!({"code": "load", "message": "as planned"});
    let body = json!({"lease_no": lease_no, "error": error, "fatal": fatal});
    let answer = settle(&client.user, id, "fail", &body).await;
    match &answer {
        Answer::Acked { .. } if fatal => client.ledger.note(id, |known| known.failed = true),
        Answer::Lost(_) if fatal => client.ledger.note(id, |known| known.maybe_failed = true),
        _ => {}
    }
    answer
}

async fn settle(api: &Api, id: i64, verb: &str, body: &Value) -> Answer {
    api.post(&format!("/jobs/{id}/{verb}"), body).await
}

fn claim(worker: &str, max: u64) -> Value {
    let kinds = Sort::ALL.map(Sort::kind);
    json!({"worker": worker, "kinds": kinds, "max": max, "wait_secs": 1})
}

fn jobs_of(body: &Value) -> &[Value] {
    body["jobs"].as_array().map_or(&[][..], Vec::as_slice)
}
