//! Daily stops telling anything when it was refused a few times in a row, and nobody is told of
//! that either. It is asked, and told to go on.

use anyhow::{Context, Result, ensure};
use roundsman_core::daily::SUBSCRIBED_EVENTS;
use roundsman_testkit::daily::Guest;
use roundsman_testkit::{FaultProxy, eventually};
use serde_json::{Value, json};

use super::on_both;
use super::place::{NEVER, PresenceSite, RECONCILE, SECRET, SUBSCRIPTION, WEBHOOK, metric};
use crate::site::{Backend, SOON};

const ROOM: &str = "weekly-sync";
const RENEWALS: &str = "roundsman_presence_subscription_renewals_total";

on_both! {
    a_start_switches_the_events_on_again
}

impl PresenceSite {
    /// The webhook as Daily shows it.
    async fn webhook(&self) -> Result<Value> {
        let hooks = self.daily_client()?.get("/webhooks").await?.expect_status(200)?.body;
        hooks.get(0).cloned().context("there is no webhook")
    }

    fn address(&self) -> Result<std::net::SocketAddr> {
        Ok(self.base_url().trim_start_matches("http://").parse()?)
    }

    async fn wait_webhook(&self, state: &str) -> Result<()> {
        let reached = eventually(SOON, async || {
            self.webhook().await.is_ok_and(|hook| hook["state"] == state).then_some(())
        });
        reached.await.with_context(|| format!("the webhook is not {state}"))
    }

    /// Somebody has made the webhook by hand, as Daily makes it by default: a few refusals in a row
    /// switch it off. Ours tries again instead.
    async fn webhook_by_hand(&self, url: &str, types: &[&str]) -> Result<()> {
        let wish = json!({"url": url, "hmac": SECRET, "retryType": "circuit-breaker",
            "eventTypes": types});
        self.daily_client()?.post("/webhooks", &wish).await?.expect_status(200)?;
        Ok(())
    }

    /// Three events that nobody takes.
    async fn be_refused(&self) -> Result<()> {
        for name in ["bob", "eve", "joe"] {
            self.daily.join(ROOM, Guest::named(name));
        }
        self.wait_webhook("FAILED").await
    }
}

/// The server was away for a moment. Its timer would come round in an hour.
async fn a_start_switches_the_events_on_again(backend: Backend) -> Result<()> {
    let site = PresenceSite::new(backend).await?;
    let options = || site.options().env(SUBSCRIPTION, NEVER).env(RECONCILE, NEVER);
    let mut node = site.start(options()).await?;
    let meeting = site.meeting_of(ROOM, &["ada"]).await?;
    site.webhook_by_hand(&(site.base_url() + WEBHOOK), &["participant.joined"]).await?;
    let pid = node.pid()?;
    node.kill_9().await?;
    site.be_refused().await?;
    site.leases_end(pid).await?;
    let node = site.start(options()).await?;
    site.wait_webhook("ACTIVE").await?;
    let counted = async || metric(&node, RENEWALS).await.ok().filter(|renewals| *renewals == 1);
    eventually(SOON, counted).await.context("renewed more than once, or not counted")?;
    let renewed = site.webhook().await?;
    for kind in ["participant.joined", "participant.left", "recording.ready-to-download"] {
        let types = renewed["eventTypes"].as_array().context("no types")?;
        ensure!(types.contains(&json!(kind)), "{renewed}");
    }
    ensure!(renewed["retryType"] == "exponential", "{renewed}");
    // Events come again, and one of them is enough to see who else is there.
    site.daily.join(ROOM, Guest::named("eva"));
    meeting.wait_inside(&site.daily.present(ROOM)).await?;
    site.end(vec![node]).await
}

/// The server is there all the time, but Daily cannot reach it for a while.
#[tokio::test]
async fn a_running_server_switches_the_events_on_again() {
    async fn run() -> Result<()> {
        let mut site = PresenceSite::new(Backend::Sqlite).await?;
        let proxy = FaultProxy::start(site.address()?).await?;
        let url = proxy.url(&site.base_url()) + WEBHOOK;
        site.events_go_to(url.clone());
        let node = site.start(site.options()).await?;
        let meeting = site.meeting_of(ROOM, &["ada"]).await?;
        site.webhook_by_hand(&url, &SUBSCRIBED_EVENTS).await?;
        proxy.partition().await?;
        site.be_refused().await?;
        proxy.heal().await?;
        site.wait_webhook("ACTIVE").await?;
        node.wait_for_log("the provider had stopped sending events", SOON).await?;
        let heard = site.daily.delivered().len();
        site.daily.join(ROOM, Guest::named("eva"));
        let answer = site.wait_delivered("participant.joined", heard + 1).await?;
        ensure!(answer == Some(200), "{answer:?}");
        meeting.wait_inside(&site.daily.present(ROOM)).await?;
        site.end(vec![node]).await
    }
    run().await.unwrap();
}
