//! What a user's endpoint is told: every step of a bot, signed, as often as it takes, under one id.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use roundsman_testkit::eventually;
use serde_json::{Value, json};

use super::place::{BotSite, was_killed};
use super::python;
use super::receiver::{Received, Receiver};
use super::user::User;
use crate::site::{Backend, SOON};

/// What a bot that joins and is told to leave goes through, in the words of Vexa's clients. The
/// lobby is not among them: such a bot is let in at once.
const STATUSES: [&str; 5] = ["requested", "joining", "active", "stopping", "completed"];
/// The first retry comes after five seconds; the lease of a killed sender may come before that.
const RETRIED_WITHIN: Duration = Duration::from_secs(90);

#[tokio::test]
async fn every_step_is_told_and_signed_on_sqlite() {
    tell_a_life(Backend::Sqlite).await.unwrap();
}

#[tokio::test]
async fn every_step_is_told_and_signed_on_postgres() {
    tell_a_life(Backend::Postgres).await.unwrap();
}

async fn tell_a_life(backend: Backend) -> Result<()> {
    let site = BotSite::new(backend).await?;
    let mut node = site.start().await?;
    let user = site.user("told", 1).await?;
    let receiver = Receiver::start().await?;
    let secret = subscribe(&site, &user, &receiver).await?;
    let id = user.start("normal", 1).await?;
    user.wait_for(id, "active", SOON).await?;
    user.stop(id).await?;
    user.wait_for(id, "completed", SOON).await?;
    let received = receiver.wait_until("a life", SOON, is_whole).await?;
    for received in &received {
        ensure!(received.body["meeting"]["id"] == id, "{}", received.text);
        ensure!(received.body["data"]["meeting"]["id"] == id, "{}", received.text);
        ensure!(received.body["event_id"] == received.id(), "{}", received.text);
    }
    let end = received.iter().find(|received| received.kind() == "meeting.completed");
    let end = end.context("the end was not told")?;
    ensure!(end.body["meeting"]["data"]["durations"].is_object(), "{}", end.text);
    check_signatures(&secret, &received).await?;
    replay(&user, &receiver, end).await?;
    check_signatures(&secret, &receiver.received()).await?;
    site.end(&mut node).await
}

/// All events of a life, the end in both its forms.
fn is_whole(received: &[Received]) -> bool {
    let statuses: BTreeSet<_> = received.iter().filter_map(Received::status_reached).collect();
    STATUSES.iter().all(|status| statuses.contains(status))
        && received.iter().any(|received| received.kind() == "meeting.completed")
}

/// The library that receivers would use takes every one of them, and none with a changed body.
async fn check_signatures(secret: &str, received: &[Received]) -> Result<()> {
    let requests: Vec<Value> = received
        .iter()
        .map(|received| {
            let headers: serde_json::Map<String, Value> =
                received.headers.iter().map(|(name, value)| (name.clone(), json!(value))).collect();
            json!({"headers": headers, "body": received.text})
        })
        .collect();
    let said =
        python::run("verify_webhooks.py", &json!({"secret": secret, "requests": requests})).await?;
    ensure!(said.trim() == format!("{} verified", received.len()), "{said}");
    Ok(())
}

async fn replay(user: &User, receiver: &Receiver, event: &Received) -> Result<()> {
    let before = receiver.received().len();
    let path = format!("/user/webhook/deliveries/{}/replay", event.id());
    let answer = user.client.post(&path, &json!({})).await?;
    ensure!((200..300).contains(&answer.status), "{} {}", answer.status, answer.text);
    let all = receiver.wait_until("a replay", SOON, |all| all.len() > before).await?;
    let again = &all[before];
    ensure!(again.id() == event.id() && again.text == event.text, "another event: {}", again.text);
    let unknown = "/user/webhook/deliveries/evt_00000000000000000000000000000000/replay";
    user.client.post(unknown, &json!({})).await?.expect_status(404)?;
    Ok(())
}

/// Sets the endpoint; returns the secret, which is shown once.
async fn subscribe(site: &BotSite, user: &User, receiver: &Receiver) -> Result<String> {
    let hook = json!({"webhook_url": receiver.url()});
    let set = user.client.put("/user/webhook", &hook).await?.expect_status(200)?;
    let secret = set.body["webhook_secret"].as_str().context("no secret in the first answer")?;
    ensure!(secret.starts_with("whsec_"), "{secret}");
    site.site.keep_secret(secret);
    let again = user.client.put("/user/webhook", &hook).await?.expect_status(200)?;
    ensure!(!again.text.contains("whsec_"), "the secret is shown again: {}", again.text);
    Ok(secret.to_owned())
}

/// An endpoint that is away is told later, under the same ids; one that is gone is told no more.
#[tokio::test]
async fn an_endpoint_that_is_away_is_told_later_and_one_that_is_gone_is_not() {
    async fn run(backend: Backend) -> Result<()> {
        let site = BotSite::new(backend).await?;
        let mut node = site.start().await?;
        let user = site.user("away", 1).await?;
        let mut receiver = Receiver::start().await?;
        let secret = subscribe(&site, &user, &receiver).await?;
        receiver.stop().await;
        let id = user.start("early_exit", 1).await?;
        user.wait_for(id, "failed", SOON).await?;
        let tried = eventually(SOON, async || {
            let deliveries = deliveries(&user).await.ok()?;
            let failed = |event: &Value| tries(event).iter().any(|a| a["error"].is_string());
            let ended = deliveries.iter().any(|event| event["event_type"] == "bot.failed");
            (ended && deliveries.iter().all(failed)).then_some(())
        });
        tried.await.context("nobody tried to tell an endpoint that is away")?;
        receiver.start_again().await?;
        let told = |all: &[Received]| all.iter().any(|received| received.kind() == "bot.failed");
        receiver.wait_until("a retry", RETRIED_WITHIN, told).await?;
        let done = eventually(RETRIED_WITHIN, async || {
            let deliveries = deliveries(&user).await.ok()?;
            deliveries.iter().all(|event| event["state"] == "delivered").then_some(deliveries)
        });
        let done = done.await.context("not everything was delivered")?;
        let known: BTreeSet<&str> = done.iter().filter_map(|e| e["event_id"].as_str()).collect();
        let received = receiver.received();
        let came: BTreeSet<&str> = received.iter().map(Received::id).collect();
        ensure!(known == came, "{known:?} were made, {came:?} came");
        check_signatures(&secret, &received).await?;

        receiver.answer_with(410);
        let before = receiver.received().len();
        let id = user.start("early_exit", 2).await?;
        user.wait_for(id, "failed", SOON).await?;
        receiver.wait_until("the last one", SOON, |all| all.len() > before).await?;
        site.end(&mut node).await?;
        let skipped = "SELECT count(*) FROM webhook_events WHERE state = 'pending'";
        let pending = site.books().await?.value(skipped).await?;
        ensure!(pending.as_deref() == Some("0"), "{pending:?} still to be told");

        // Until it is set again.
        node.start_again().await?;
        receiver.answer_with(200);
        let before = receiver.received().len();
        let id = user.start("early_exit", 3).await?;
        user.wait_for(id, "failed", SOON).await?;
        // All of it was skipped, that of the work after the meeting too.
        let skipped = eventually(SOON, async || {
            let events = deliveries(&user).await.ok()?;
            let ends = events.iter().filter(|event| event["event_type"] == "bot.failed").count();
            let done = events.iter().all(|event| event["state"] != "pending");
            (ends == 3 && done).then_some(())
        });
        skipped.await.context("events for nobody are still waiting")?;
        let hook = json!({"webhook_url": receiver.url()});
        user.client.put("/user/webhook", &hook).await?.expect_status(200)?;
        let id = user.start("early_exit", 4).await?;
        user.wait_for(id, "failed", SOON).await?;
        let ended = |all: &[Received]| all.iter().any(|r| r.kind() == "bot.failed" && is(r, id));
        let all = receiver.wait_until("after it was set again", SOON, ended).await?;
        let others = all[before..].iter().filter(|received| !is(received, id)).count();
        ensure!(others == 0, "told of {others} events that it did not want");
        site.end(&mut node).await
    }
    let (sqlite, postgres) = tokio::join!(run(Backend::Sqlite), run(Backend::Postgres));
    sqlite.and(postgres).unwrap();
}

fn is(received: &Received, meeting: i64) -> bool {
    received.body["meeting"]["id"] == meeting
}

/// Killed after the endpoint was told and before that was written down: it is told once more, and
/// knows by the id that it knows already. Nothing is lost.
#[tokio::test]
async fn a_killed_server_tells_again_under_the_same_id() {
    async fn run(backend: Backend) -> Result<()> {
        let site = BotSite::new(backend).await?;
        let receiver = Receiver::start().await?;
        let mut node = site.start().await?;
        let user = site.user("twice", 1).await?;
        let secret = subscribe(&site, &user, &receiver).await?;
        node.stop().await?;
        let options = site.options().env("ROUNDSMAN_FAILPOINTS", "webhooks.sent=2");
        let mut doomed = site.site.start(options).await?;
        let id = user.start("early_exit", 1).await?;
        let status = doomed.wait_exit(SOON).await?;
        ensure!(was_killed(status), "{status}");
        let mut node = site.start().await?;
        user.wait_for(id, "failed", SOON).await?;
        let ended = |all: &[Received]| all.iter().any(|received| received.kind() == "bot.failed");
        receiver.wait_until("the end", RETRIED_WITHIN, ended).await?;
        let done = eventually(RETRIED_WITHIN, async || {
            let deliveries = deliveries(&user).await.ok()?;
            deliveries.iter().all(|event| event["state"] == "delivered").then_some(deliveries)
        });
        let done = done.await.context("not everything was delivered")?;
        let received = receiver.received();
        let known: BTreeSet<&str> = done.iter().filter_map(|e| e["event_id"].as_str()).collect();
        let came: BTreeSet<&str> = received.iter().map(Received::id).collect();
        ensure!(known == came, "{known:?} were made, {came:?} came");
        ensure!(received.len() > came.len(), "nothing was told twice: the kill proves nothing");
        check_signatures(&secret, &received).await?;
        site.end(&mut node).await
    }
    let (sqlite, postgres) = tokio::join!(run(Backend::Sqlite), run(Backend::Postgres));
    sqlite.and(postgres).unwrap();
}

/// Nobody can have the server call into the network it stands in.
#[tokio::test]
async fn addresses_that_lead_inside_are_refused() {
    async fn run() -> Result<()> {
        let site = BotSite::sqlite()?;
        let receiver = Receiver::start().await?;
        let options = site.options().env("ROUNDSMAN_EGRESS_ALLOW", "");
        let mut node = site.site.start(options).await?;
        let user = site.user("inside", 1).await?;
        let (url, port) = (receiver.url(), receiver.url().rsplit(':').next().map(str::to_owned));
        let port = port.context("no port")?;
        for url in [
            url.as_str(),
            &format!("http://localhost:{port}"),
            &format!("http://[::1]:{port}"),
            &format!("http://[::ffff:127.0.0.1]:{port}"),
            &format!("http://2130706433:{port}"),
            &format!("http://0x7f.1:{port}"),
            "http://169.254.169.254/latest",
            "http://10.0.0.1/",
        ] {
            let answer = user.client.put("/user/webhook", &json!({"webhook_url": url})).await?;
            ensure!([200, 400, 422].contains(&answer.status), "{url}: {}", answer.text);
            if answer.status != 200 {
                continue;
            }
            // What cannot be told from its text is refused when it is sent to.
            let id = user.start("early_exit", 1).await?;
            user.wait_for(id, "failed", SOON).await?;
            let refused = eventually(SOON, async || {
                let deliveries = deliveries(&user).await.ok()?;
                let latest = deliveries.iter().find(|event| !tries(event).is_empty())?;
                tries(latest).iter().any(|a| a["error"].is_string()).then_some(())
            });
            refused.await.with_context(|| format!("{url} was not refused"))?;
        }
        ensure!(receiver.received().is_empty(), "something came through");
        site.wait_no_process().await?;
        node.stop().await
    }
    run().await.unwrap();
}

async fn deliveries(user: &User) -> Result<Vec<Value>> {
    let page = user.client.get("/user/webhook/deliveries?limit=100").await?.expect_status(200)?;
    Ok(page.body["deliveries"].as_array().context("no list of deliveries")?.clone())
}

/// Every try to deliver an event.
fn tries(event: &Value) -> &[Value] {
    event["tries"].as_array().map_or(&[], Vec::as_slice)
}
