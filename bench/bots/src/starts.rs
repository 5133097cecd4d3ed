//! Requests for bots, as fast as they are answered. The server has the role `api` alone: what is
//! measured is the reservation with everything that is written with it, and no launch.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Context, ensure};
use bench_support::http::{Connection, request};
use bench_support::place::Target;
use bench_support::server::Server;
use bench_support::{say, spawn};
use roundsman_core::ports::Clock;
use roundsman_engine::clock::DatabaseClock;
use serde_json::{Value, json};

use crate::Args;
use crate::database;
use crate::report::Report;

/// Callers, each a user of their own.
const USERS: usize = 64;
const USER_BOTS_MAX: usize = 10_000;
/// The measurement ends after this time, however many there were.
const TIME_MAX: Duration = Duration::from_secs(60);

pub(crate) async fn measure(
    args: &Args,
    target: &Target,
    report: &mut Report,
) -> anyhow::Result<()> {
    let place = database::open(args, target).await?;
    let server = Server::start(&args.binary, &place, &[("ROUNDSMAN_SERVER_ROLES", "api")])?;
    say("  starts");
    let mut keys = Vec::new();
    for number in 0..USERS {
        keys.push(user(&server, number).await?);
    }
    let clock = Arc::new(DatabaseClock::start());
    let next = Arc::new(AtomicUsize::new(0));
    let (processor, started) = (server.processor()?, clock.monotonic());
    let mut tasks = Vec::new();
    for key in keys {
        let connection = Connection::open(server.address()).await?;
        let caller = Caller { connection, key, next: next.clone() };
        tasks.push(spawn(caller.ask(args.starts, clock.clone(), started + TIME_MAX)));
    }
    let mut taken = 0;
    for task in tasks {
        taken += task.await.context("a caller")??;
    }
    let took = clock.monotonic().saturating_sub(started);
    let processor = server.processor()?.saturating_sub(processor);
    let name = database::name(target);
    let rate = f64::from(u32::try_from(taken)?) / took.as_secs_f64();
    report.add(name, "start requests/s (64 users)", rate);
    let cost = processor.as_secs_f64() * 1e6 / f64::from(u32::try_from(taken.max(1))?);
    report.add(name, "processor per start request, µs", cost);
    Ok(())
}

struct Caller {
    connection: Connection,
    key: String,
    next: Arc<AtomicUsize>,
}

impl Caller {
    /// Asks for bots until all callers together have asked for `all`; returns how many it got.
    async fn ask(
        mut self,
        all: usize,
        clock: Arc<DatabaseClock>,
        until: Duration,
    ) -> anyhow::Result<usize> {
        let key = format!("x-api-key: {}", self.key);
        let mut taken = 0;
        loop {
            let number = self.next.fetch_add(1, Ordering::Relaxed);
            if number >= all || taken >= USER_BOTS_MAX || clock.monotonic() > until {
                return Ok(taken);
            }
            let body = format!(r#"{{"platform":"teams","native_meeting_id":"{number:012}"}}"#);
            let status =
                self.connection.call(&request("POST", "/bots/start", &[&key], &body)).await?;
            let answer = String::from_utf8_lossy(self.connection.body());
            ensure!(status == 201, "{status} {answer}");
            taken += 1;
        }
    }
}

/// Makes a user and returns their key.
async fn user(server: &Server, number: usize) -> anyhow::Result<String> {
    let email = format!("bench-{number}@example.org");
    let wish = json!({"email": email, "max_concurrent_bots": USER_BOTS_MAX});
    let user = server.admin("POST", "/admin/users", &wish).await?;
    let path = format!("/admin/users/{}/tokens", user["id"]);
    let token = server.admin("POST", &path, &Value::Null).await?;
    Ok(token["token"].as_str().context("no token")?.to_owned())
}
