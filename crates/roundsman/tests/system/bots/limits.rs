//! How many bots a user may have, whoever asks at whichever node at the same time. (B-1 to B-3)

use anyhow::{Context, Result, ensure};
use futures_util::future::join_all;
use roundsman_testkit::eventually;
use roundsman_testkit::http::JsonResponse;
use serde_json::json;

use super::place::{BotSite, SILENCE_MAX, SLACK};
use super::user::{User, native_id, start_body};
use crate::site::{Backend, Node, SOON, Stopwatch};

const ROUNDS: u32 = 5;
const STARTS_AT_ONCE: u32 = 50;
const BOTS_MAX: usize = 3;

/// Three servers on one database; the first is at the site's own port.
async fn three_nodes(site: &BotSite) -> Result<[Node; 3]> {
    let first = site.start().await?;
    let second = site.site.start(site.options_beside()).await?;
    let third = site.site.start(site.options_beside()).await?;
    Ok([first, second, third])
}

/// The last of them is ended by the caller, with all that is looked at then.
async fn stop_but_one(mut nodes: [Node; 3], site: &BotSite) -> Result<()> {
    for node in &mut nodes[1..] {
        node.stop().await?;
    }
    site.end(&mut nodes[0]).await
}

#[tokio::test]
async fn starts_at_the_same_time_never_exceed_the_limit() {
    async fn run() -> Result<()> {
        let site = BotSite::new(Backend::Postgres).await?;
        let nodes = three_nodes(&site).await?;
        let user = site.user("crowd", u32::try_from(BOTS_MAX)?).await?;
        let everywhere: Result<Vec<User>> =
            nodes.iter().map(|node| user.at(&node.base_url())).collect();
        let everywhere = everywhere?;
        for round in 0..ROUNDS {
            let starts = (0..STARTS_AT_ONCE).map(async |number| {
                let user = &everywhere[usize::try_from(number)? % everywhere.len()];
                user.try_start("normal", round * STARTS_AT_ONCE + number).await
            });
            let answers: Result<Vec<JsonResponse>> = join_all(starts).await.into_iter().collect();
            let (taken, refused): (Vec<_>, Vec<_>) =
                answers?.into_iter().partition(|answer| answer.status == 201);
            ensure!(taken.len() == BOTS_MAX, "{} bots were taken", taken.len());
            for answer in &refused {
                expect_refusal(answer)?;
            }
            ensure!(user.meetings().await?.len() == BOTS_MAX * (round as usize + 1), "rows");
            for answer in &taken {
                let id = answer.body["id"].as_i64().context("no id")?;
                user.stop(id).await?;
            }
            for answer in &taken {
                let id = answer.body["id"].as_i64().context("no id")?;
                user.wait_for(id, "completed", SOON).await?;
            }
        }
        stop_but_one(nodes, &site).await
    }
    run().await.unwrap();
}

/// Always the same answer, which says when to come back.
fn expect_refusal(answer: &JsonResponse) -> Result<()> {
    ensure!(answer.status == 429, "{} {}", answer.status, answer.text);
    ensure!(answer.body["code"] == "bot_limit_reached", "{}", answer.text);
    let after: u64 = answer.header("retry-after").context("no Retry-After")?.parse()?;
    ensure!(after > 0, "come back at once?");
    Ok(())
}

#[tokio::test]
async fn a_limit_of_none_and_a_limit_that_changes() {
    async fn run(backend: Backend) -> Result<()> {
        let site = BotSite::new(backend).await?;
        let mut node = site.start().await?;
        let user = site.user("none", 0).await?;
        expect_refusal(&user.try_start("normal", 1).await?)?;
        let vexa = user.client.post("/bots", &start_body("normal", 1)).await?;
        ensure!(vexa.status == 403, "{} {}", vexa.status, vexa.text);
        ensure!(user.meetings().await?.is_empty(), "a refusal left something behind");

        let admin = site.admin()?;
        let path = format!("/admin/users/{}", user.id);
        let change = async |limit: i64| -> Result<u16> {
            Ok(admin.patch(&path, &json!({"max_concurrent_bots": limit})).await?.status)
        };
        ensure!(change(-1).await? == 422, "a negative limit was taken");
        ensure!(change(2).await? == 200);
        let (one, two) = (user.start("normal", 1).await?, user.start("normal", 2).await?);
        expect_refusal(&user.try_start("normal", 3).await?)?;
        for id in [one, two] {
            user.wait_for(id, "active", SOON).await?;
        }
        // Lowering it ends nobody, and lets nobody in before there is room.
        ensure!(change(1).await? == 200);
        user.stop(one).await?;
        user.wait_for(one, "completed", SOON).await?;
        expect_refusal(&user.try_start("normal", 3).await?)?;
        ensure!(user.meeting(two).await?["state"] == "active", "lowering the limit ended a bot");
        user.stop(two).await?;
        user.wait_for(two, "completed", SOON).await?;
        let three = user.start("early_exit", 3).await?;
        user.wait_for(three, "failed", SOON).await?;
        site.end(&mut node).await
    }
    let (sqlite, postgres) = tokio::join!(run(Backend::Sqlite), run(Backend::Postgres));
    sqlite.and(postgres).unwrap();
}

#[tokio::test]
async fn one_meeting_has_one_bot_of_a_user() {
    async fn run(backend: Backend) -> Result<()> {
        let site = BotSite::new(backend).await?;
        let mut node = site.start().await?;
        let user = site.user("double", 30).await?;
        let starts = (0..20).map(async |_| user.try_start("normal", 1).await);
        let answers: Result<Vec<JsonResponse>> = join_all(starts).await.into_iter().collect();
        let (taken, refused): (Vec<_>, Vec<_>) =
            answers?.into_iter().partition(|answer| answer.status == 201);
        ensure!(taken.len() == 1, "{} bots in one meeting", taken.len());
        for answer in refused {
            ensure!(answer.status == 409, "{} {}", answer.status, answer.text);
        }
        // Somebody else may send one to the same meeting.
        let other = site.user("other", 1).await?;
        let theirs = other.start("early_exit", 1).await?;
        other.wait_for(theirs, "failed", SOON).await?;
        // Nobody sees or ends what is not theirs.
        let id = taken[0].body["id"].as_i64().context("no id")?;
        let status = other.client.post("/bots/stop", &json!({"meeting_id": id})).await?.status;
        ensure!(status == 404, "somebody else's bot: {status}");
        let status = other.client.get(&format!("/meetings/{id}")).await?.status;
        ensure!(status == 404, "somebody else's meeting: {status}");
        user.client
            .delete(&format!("/bots/google_meet/{}", native_id(1)))
            .await?
            .expect_status(202)?;
        user.wait_for(id, "completed", SOON).await?;
        site.end(&mut node).await
    }
    let (sqlite, postgres) = tokio::join!(run(Backend::Sqlite), run(Backend::Postgres));
    sqlite.and(postgres).unwrap();
}

/// A bot that falls silent is given up whichever node looks, and one node more or less does not
/// put it off.
#[tokio::test]
async fn three_nodes_give_up_a_silent_bot_as_soon_as_one() {
    async fn run() -> Result<()> {
        let site = BotSite::new(Backend::Postgres).await?;
        let nodes = three_nodes(&site).await?;
        let user = site.user("silent", 1).await?;
        let id = user.start("hang", 1).await?;
        user.wait_for(id, "active", SOON).await?;
        let watch = Stopwatch::start();
        let over = eventually(SILENCE_MAX + SLACK, async || {
            let meeting = user.meeting(id).await.ok()?;
            (meeting["state"] == "failed").then_some(meeting)
        });
        over.await.with_context(|| format!("not given up after {:?}", watch.elapsed()))?;
        stop_but_one(nodes, &site).await
    }
    run().await.unwrap();
}
