//! The bus between nodes goes away: documents go on, because the log has everything that it would have
//! told.

use anyhow::{Context, Result};
use serde_json::json;

use super::npm::NpmClient;
use super::place::{PROJECT, RoomSite, socket_url};
use crate::site::Backend;

const FAULTS: [&str; 3] = ["its connections are cut", "it stands still", "it is killed"];

#[tokio::test]
async fn whatever_happens_to_redis_clients_of_two_nodes_agree() {
    run().await.unwrap();
}

async fn run() -> Result<()> {
    let mut place = RoomSite::new(Backend::Postgres).await?;
    let mut redis = place.redis.take().context("there is a Redis")?;
    let mut here = place.site.start(place.options()).await?;
    let mut there = place.site.start(place.options_beside()).await?;
    let owner = place.owner("ada@example.org").await?;
    let mut one = NpmClient::connect(&place.socket_url()).await?;
    let mut two = NpmClient::connect(&socket_url(&there.base_url())).await?;
    for client in [&mut one, &mut two] {
        client.join(PROJECT, &owner.key).await?;
    }
    for fault in FAULTS {
        match fault {
            "its connections are cut" => redis.drop_clients().await?,
            "it stands still" => redis.pause()?,
            _ => redis.kill_9().await?,
        }
        say_and_hear(&mut one, &mut two, fault).await.context(fault)?;
        match fault {
            "it stands still" => redis.resume()?,
            "it is killed" => redis.restart().await?,
            _ => {}
        }
        let after = format!("after that: {fault}");
        say_and_hear(&mut two, &mut one, &after).await.context(after)?;
    }
    there.stop().await?;
    here.stop().await
}

/// Each hears what the other says, whatever tells them.
async fn say_and_hear(one: &mut NpmClient, two: &mut NpmClient, what: &str) -> Result<()> {
    for number in 0..3 {
        let (mine, theirs) = (format!("{what} {number}"), format!("{what} {number}, answered"));
        one.set(PROJECT, &mine, &json!(number)).await?;
        two.wait(PROJECT, &mine, &json!(number)).await?;
        two.set(PROJECT, &theirs, &json!(number)).await?;
        one.wait(PROJECT, &theirs, &json!(number)).await?;
    }
    Ok(())
}
