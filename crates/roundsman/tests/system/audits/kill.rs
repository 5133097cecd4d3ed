//! The server is killed at every place that only audits come by. What is asked for again is there once, and what
//! was under way is done.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use roundsman_core::failpoint;
use roundsman_testkit::process::ServerOptions;
use roundsman_testkit::site::Door;
use roundsman_testkit::{JsonClient, TestSite, eventually};
use serde_json::json;

use super::{options, until};
use crate::bots::place::was_killed;
use crate::orders::user;
use crate::site::{Backend, Node, SOON, Site};

/// In an order in which each finds what the one before has left.
const PLACES: [&str; 7] = [
    "store.audit_prune",
    "store.audit_create",
    "audits.looked",
    "store.audit_recurring",
    "store.audit_due",
    "store.audit_recurring_change",
    "store.audit_recurring_delete",
];
/// A job that a killed process held is found again within this.
const TAKEN_OVER_WITHIN: Duration = Duration::from_secs(60);

#[test]
fn every_place_is_killed_at() {
    let of_audits =
        |place: &&&str| place.starts_with("audits.") || place.starts_with("store.audit_");
    let all: Vec<_> = failpoint::ALL.iter().filter(of_audits).collect();
    let missing: Vec<_> = all.iter().filter(|place| !PLACES.contains(place)).collect();
    assert!(missing.is_empty(), "{missing:?}");
    assert_eq!(all.len(), PLACES.len());
}

#[tokio::test]
async fn wherever_it_is_killed_every_audit_is_made_on_sqlite() {
    wherever_it_is_killed_every_audit_is_made(Backend::Sqlite).await.unwrap();
}

#[tokio::test]
async fn wherever_it_is_killed_every_audit_is_made_on_postgres() {
    wherever_it_is_killed_every_audit_is_made(Backend::Postgres).await.unwrap();
}

async fn wherever_it_is_killed_every_audit_is_made(backend: Backend) -> Result<()> {
    let (site, web) = (Site::new(backend).await?, TestSite::start().await?);
    let mut node = site.start(settings(&site)).await?;
    let token = user(&node).await?;
    node.stop().await?;
    let scene = Scene { site, page: web.url(Door::Plain, "/"), token };
    for place in PLACES {
        scene.kill_at(place).await.with_context(|| format!("killed at {place}"))?;
    }
    let mut node = scene.site.start(settings(&scene.site)).await?;
    let api = scene.api(&node)?;
    let listed = api.get("/audits").await?.expect_status(200)?.body;
    let audits = listed["audits"].as_array().context("no audits")?.clone();
    // One for each name that it was asked for by, whatever the recurring one has added.
    let is_once = |audit: &&serde_json::Value| audit["recurring_id"].is_null();
    ensure!(audits.iter().filter(is_once).count() == 2, "{listed}");
    ensure!(audits.len() > 2, "the recurring one was never made: {listed}");
    for audit in &audits {
        let id = audit["id"].as_i64().context("no number")?;
        until(&api, id, "completed").await?;
    }
    node.stop().await
}

/// Recurring audits may come as often as every second.
fn settings(site: &Site) -> ServerOptions {
    options(site).env("ROUNDSMAN_AUDITS_RECURRING_SECS_MIN", "1")
}

struct Scene {
    site: Site,
    page: String,
    token: String,
}

impl Scene {
    fn api(&self, node: &Node) -> Result<JsonClient> {
        node.client()?.with_header("x-api-key", &self.token)
    }

    /// A server dies at a place; the one after it is asked for the same.
    async fn kill_at(&self, place: &str) -> Result<()> {
        let dying = settings(&self.site).env("ROUNDSMAN_FAILPOINTS", format!("{place}=1"));
        let mut node = self.site.spawn(dying)?;
        if node.wait_ready().await.is_ok() {
            // It may die while it is asked, or before.
            let _ = self.ask(&self.api(&node)?, place).await;
        }
        let status = node.wait_exit(TAKEN_OVER_WITHIN).await.context("it was never reached")?;
        ensure!(was_killed(status), "{status}");
        let violations = self.site.stored().await?.violations;
        ensure!(violations.is_empty(), "{violations:?}");
        let mut node = self.site.start(settings(&self.site)).await?;
        self.ask(&self.api(&node)?, place).await?;
        node.stop().await
    }

    /// What a server is asked for so that it comes by a place, in words that may be said twice.
    async fn ask(&self, api: &JsonClient, place: &str) -> Result<()> {
        match place {
            "store.audit_create" | "audits.looked" => {
                let named = api.with_header("idempotency-key", place)?;
                let made = named.post("/audits", &json!({"url": self.page})).await?;
                ensure!(made.status < 300, "{}", made.text);
                let id = made.body["id"].as_i64().context("no number")?;
                until(api, id, "completed").await?;
            }
            "store.audit_recurring" => {
                let wish = json!({"url": self.page, "schedule": "every 2s"});
                api.post("/recurring-audits", &wish).await?.expect_status(201)?;
            }
            "store.audit_due" => {
                let path = "/audits?limit=200";
                let came = async || {
                    let listed = api.get(path).await.ok()?.body;
                    let audits = listed["audits"].as_array()?;
                    audits.iter().any(|audit| !audit["recurring_id"].is_null()).then_some(())
                };
                eventually(SOON, came).await.context("the recurring one does not come")?;
            }
            "store.audit_recurring_change" | "store.audit_recurring_delete" => {
                let listed = api.get("/recurring-audits").await?.expect_status(200)?.body;
                let all = listed["recurring_audits"].as_array().context("no list")?;
                for one in all {
                    let path = format!("/recurring-audits/{}", one["id"]);
                    let answer = if place.ends_with("delete") {
                        api.delete(&path).await?
                    } else {
                        api.patch(&path, &json!({"paused": true})).await?
                    };
                    ensure!(answer.status < 300, "{}", answer.text);
                }
            }
            // It comes round by itself.
            _ => {}
        }
        Ok(())
    }
}
