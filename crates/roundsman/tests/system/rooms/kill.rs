//! The server is killed between the commit of an update, its acknowledgement and telling others, and at
//! every other place that only rooms come by. Whoever comes after it has every update that was
//! acknowledged.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use roundsman_core::failpoint;
use roundsman_testkit::env;
use serde_json::json;

use super::place::{Owner, PROJECT, RoomSite, on_both};
use super::wire::WireClient;
use crate::bots::place::was_killed;

/// Every place that only rooms come by, and that a client or the owner of a room brings a server to.
/// The last two come round by themselves and are long in coming.
const PLACES: [&str; 9] = [
    "rooms.acked",
    "rooms.appended",
    "rooms.published",
    "store.room_append",
    "store.room_compact",
    "store.room_open",
    "store.room_token",
    "store.room_version",
    "store.room_prune",
];
/// Those between a commit, its acknowledgement and telling others.
const OF_UPDATES: [&str; 4] =
    ["store.room_append", "rooms.appended", "rooms.published", "rooms.acked"];
const DIES_WITHIN: Duration = Duration::from_secs(30);
/// Updates are acknowledged before the place kills.
const VISITS_MAX: usize = 7;
const KILLS_FULL: usize = 500;

#[test]
fn every_place_exists() {
    let missing: Vec<_> = PLACES.iter().filter(|place| !failpoint::ALL.contains(place)).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

#[tokio::test]
async fn no_acknowledged_update_is_lost_wherever_the_server_is_killed() {
    on_both(async |backend| {
        let place = RoomSite::new(backend).await?;
        let mut node = place.site.start(place.options()).await?;
        let owner = place.owner("ada@example.org").await?;
        node.stop().await?;
        let mut acked = BTreeSet::new();
        let usual = if env::full() { KILLS_FULL } else { 2 * OF_UPDATES.len() };
        let kills = env::kills()?.unwrap_or(usual);
        for kill in 0..kills {
            let death = OF_UPDATES[kill % OF_UPDATES.len()];
            let visits = 1 + kill % VISITS_MAX;
            die(&place, &owner, death, visits, kill, &mut acked).await?;
        }
        ensure!(acked.len() > kills / 2, "hardly anything was acknowledged: {}", acked.len());
        let mut node = place.site.start(place.options()).await?;
        let document = owner.document().await?;
        let lost: Vec<_> =
            acked.iter().filter(|key| document["nodes"].get(key).is_none()).collect();
        ensure!(lost.is_empty(), "acknowledged and lost: {lost:?}");
        let seen = WireClient::join(&place.socket_url(), PROJECT, &owner.key, 1).await?.nodes();
        ensure!(acked.is_subset(&seen), "a client sees less than was acknowledged");
        node.stop().await?;
        let violations = place.site.stored().await?.violations;
        ensure!(violations.is_empty(), "{violations:?}");
        Ok(())
    })
    .await;
}

/// A server that dies at a place, and the updates it has acknowledged until then.
async fn die(
    place: &RoomSite,
    owner: &Owner,
    death: &str,
    visits: usize,
    kill: usize,
    acked: &mut BTreeSet<String>,
) -> Result<()> {
    let armed = format!("{death}={visits}");
    let mut node = place.site.start(place.options().env("ROUNDSMAN_FAILPOINTS", armed)).await?;
    let peer = 1000 + u64::try_from(kill)?;
    let mut client = WireClient::join(&place.socket_url(), PROJECT, &owner.key, peer).await?;
    for number in 0.. {
        let key = format!("k{kill}-{number}");
        if client.write(&key).await.is_err() {
            break;
        }
        acked.insert(key);
    }
    let status = node.wait_exit(DIES_WITHIN).await;
    let status = status.with_context(|| format!("never reached: {death}"))?;
    ensure!(was_killed(status), "{death}: {status}");
    place.leases_end().await
}

#[tokio::test]
async fn rooms_tokens_and_versions_survive_a_kill() {
    on_both(async |backend| {
        let place = RoomSite::new(backend).await?;
        let mut node = place.site.start(place.options()).await?;
        let owner = place.owner("ada@example.org").await?;
        node.stop().await?;
        for death in ["store.room_open", "store.room_token", "store.room_version"] {
            let options = place.options().env("ROUNDSMAN_FAILPOINTS", death);
            let mut node = place.site.start(options).await?;
            let room = format!("/rooms/{PROJECT}");
            // Whether it is answered depends on where it dies.
            let _ = owner.client.patch(&format!("{room}/doc"), &json!({"nodes": {"a": 1}})).await;
            let _ = owner.token(&place, "read", 60).await;
            let _ = owner.client.post(&format!("{room}/versions"), &json!({"name": "v"})).await;
            let status = node.wait_exit(DIES_WITHIN).await;
            let status = status.with_context(|| format!("never reached: {death}"))?;
            ensure!(was_killed(status), "{death}: {status}");
        }
        let mut node = place.site.start(place.options()).await?;
        ensure!(owner.document().await?["nodes"]["a"] == 1, "what was acknowledged is there");
        owner.token(&place, "read", 60).await?;
        node.stop().await?;
        let violations = place.site.stored().await?.violations;
        ensure!(violations.is_empty(), "{violations:?}");
        Ok(())
    })
    .await;
}
