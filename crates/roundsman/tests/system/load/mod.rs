//! A mixed load over HTTP that remembers what it was told: producers, outside workers, cancels,
//! retries, users and tokens. Bounded in requests and in time.

mod api;
mod ledger;
mod operators;
mod producer;
mod verify;
mod worker;

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use anyhow::{Context, Result};
use futures_util::FutureExt;
use futures_util::future::join_all;
use roundsman_core::ports::Random;
use roundsman_testkit::{JsonClient, SeededRandom, eventually};
use serde_json::json;
use tokio_util::sync::CancellationToken;

pub(crate) use self::api::{Answer, Api, Lost};
pub(crate) use self::ledger::{Ledger, Sort, number};
pub(crate) use self::verify::{verify, verify_access, verify_drained};
use crate::site::{ADMIN_TOKEN, Node, Site};

/// How long the load waits for a server that does not answer, where it waits at all.
const BACK_WITHIN: Duration = Duration::from_secs(60);
/// Workers at the end of a test, and how long they may take for all that is left.
const DRAINERS: usize = 4;
const DRAINED_WITHIN: Duration = Duration::from_secs(60);

/// How much load there is and what its clients do when an answer is lost.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Plan {
    pub(crate) requests_max: i64,
    pub(crate) time_max: Duration,
    pub(crate) producers: usize,
    pub(crate) workers: usize,
    pub(crate) when_lost: WhenLost,
    /// Decides what is asked in which order.
    pub(crate) seed: u64,
}

/// What a client does after a request without an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WhenLost {
    /// A broken connection is the end of the server and of the load.
    End,
    /// Waits until the server answers again, and goes on.
    Wait,
    /// Waits until the server says that it is ready, and goes on: for one that answers reads and
    /// refuses writes.
    WaitUntilReady,
    /// Nothing may be lost.
    Complain,
}

impl Plan {
    /// Until the server dies, but not for ever.
    pub(crate) fn until_death(seed: u64) -> Plan {
        // The number of requests is what ends it; a busy machine needs longer for as many.
        let (requests_max, time_max) = (6_000, Duration::from_secs(20));
        Plan { requests_max, time_max, producers: 3, workers: 3, when_lost: WhenLost::End, seed }
    }

    /// A number of requests, whatever happens meanwhile.
    pub(crate) fn of_requests(requests_max: i64, when_lost: WhenLost, seed: u64) -> Plan {
        let time_max = Duration::from_secs(90);
        Plan { requests_max, time_max, producers: 3, workers: 3, when_lost, seed }
    }
}

/// Makes the user that the load works as.
pub(crate) async fn begin(site: &Site, node: &Node) -> Result<Arc<Ledger>> {
    let admin = node.admin()?;
    let user = admin.post("/admin/users", &json!({"email": "load@example.org"})).await?;
    let user_id = number(&user.expect_status(201)?.body["id"]);
    let token = admin.post(&format!("/admin/users/{user_id}/tokens"), &json!({})).await?;
    let text = token.expect_status(201)?.body["token"].as_str().context("no token")?.to_owned();
    site.keep_secret(&text);
    Ok(Arc::new(Ledger::new(text)))
}

/// Loads servers by their addresses until the plan is fulfilled or the server is gone. Clients are
/// spread over the addresses.
pub(crate) async fn run(
    site: &Site,
    ledger: &Arc<Ledger>,
    base_urls: &[String],
    plan: Plan,
) -> Result<()> {
    let stop = CancellationToken::new();
    run_until(site, ledger, base_urls, plan, &stop).await
}

/// As [`run`], with an end that somebody else decides.
pub(crate) async fn run_until(
    site: &Site,
    ledger: &Arc<Ledger>,
    base_urls: &[String],
    plan: Plan,
    stop: &CancellationToken,
) -> Result<()> {
    let requests_left = Arc::new(AtomicI64::new(plan.requests_max));
    let mut clients = Vec::new();
    for number in 0..plan.producers + plan.workers {
        let base_url = &base_urls[number % base_urls.len()];
        let client = Client {
            number,
            user: Api::new(user_client(base_url, ledger)?, ledger.clone()),
            admin: Api::new(admin_client(base_url)?, ledger.clone()),
            probe: user_client(base_url, ledger)?,
            ledger: ledger.clone(),
            random: Arc::new(SeededRandom::new(plan.seed * 1000 + number as u64)),
            requests_left: requests_left.clone(),
            when_lost: plan.when_lost,
            stop: stop.clone(),
        };
        if number < plan.producers {
            clients.push(producer::run(client).boxed_local());
        } else {
            clients.push(worker::run(client).boxed_local());
        }
    }
    let mut clients = join_all(clients);
    if tokio::time::timeout(plan.time_max, &mut clients).await.is_err() {
        stop.cancel();
        tokio::time::timeout(BACK_WITHIN, clients).await.context("clients hang")?;
    }
    for token in &ledger.entries().tokens {
        site.keep_secret(&token.text);
    }
    ledger.expect_no_problems()
}

/// Works off all that is left, with a server that is well, until nothing of the load waits or runs.
pub(crate) async fn drain(ledger: &Arc<Ledger>, base_url: &str) -> Result<()> {
    let probe = user_client(base_url, ledger)?;
    let api = Api::new(probe.clone(), ledger.clone());
    operators::resend_unanswered(&api, ledger).await?;
    let stop = CancellationToken::new();
    let workers = join_all((0..DRAINERS).map(|number| worker::drain(&api, ledger, number, &stop)));
    let watch = async {
        let empty = eventually(DRAINED_WITHIN, async || {
            nothing_left(&probe).await.ok().filter(|nothing| *nothing)
        });
        let empty = empty.await.context("the load was not worked off");
        stop.cancel();
        empty
    };
    let (empty, _) = tokio::join!(watch, workers);
    ledger.expect_no_problems()?;
    empty.map(|_| ())
}

/// Everything one client of the load needs.
pub(crate) struct Client {
    number: usize,
    user: Api,
    admin: Api,
    probe: JsonClient,
    ledger: Arc<Ledger>,
    random: Arc<SeededRandom>,
    requests_left: Arc<AtomicI64>,
    when_lost: WhenLost,
    stop: CancellationToken,
}

impl Client {
    /// Whether there is one more request to make.
    fn goes_on(&self) -> bool {
        !self.stop.is_cancelled() && self.requests_left.fetch_sub(1, Ordering::SeqCst) > 0
    }

    /// A number from 0 to 99.
    fn percent(&self) -> u64 {
        self.random.below(100)
    }

    /// What follows from a request without an answer.
    async fn lost(&self, lost: Lost) {
        match (self.when_lost, lost) {
            (WhenLost::End, Lost::Connection) => self.stop.cancel(),
            (WhenLost::End, Lost::Unavailable) => {
                self.ledger.problem("a server that is well answered 503");
            }
            (WhenLost::Complain, lost) => {
                self.ledger.problem(format!("a request had no answer: {lost:?}"));
                self.stop.cancel();
            }
            (WhenLost::Wait | WhenLost::WaitUntilReady, _) => {
                let readable = self.when_lost == WhenLost::Wait;
                let path = if readable { "/jobs?limit=1" } else { "/readyz" };
                let back = eventually(BACK_WITHIN, async || {
                    if self.stop.is_cancelled() {
                        return Some(());
                    }
                    let answer = self.probe.get(path).await;
                    answer.is_ok_and(|answer| answer.status == 200).then_some(())
                });
                if back.await.is_err() {
                    self.ledger.problem("the server did not come back");
                    self.stop.cancel();
                }
            }
        }
    }
}

fn user_client(base_url: &str, ledger: &Ledger) -> Result<JsonClient> {
    JsonClient::new(base_url)?.with_header("x-api-key", &ledger.user_token)
}

fn admin_client(base_url: &str) -> Result<JsonClient> {
    JsonClient::new(base_url)?.with_header("x-admin-api-key", ADMIN_TOKEN)
}

/// Fickle jobs may be scheduled for a day that the test will not see.
async fn nothing_left(client: &JsonClient) -> Result<bool> {
    for sort in Sort::ALL {
        for state in ["pending", "processing", "scheduled"] {
            if sort == Sort::Fickle && state == "scheduled" {
                continue;
            }
            let path = format!("/jobs?kind={}&state={state}&limit=1", sort.kind());
            let page = client.get(&path).await?.expect_status(200)?;
            let jobs = page.body["jobs"].as_array().context("no list of jobs")?;
            if !jobs.is_empty() {
                return Ok(false);
            }
        }
    }
    Ok(true)
}
