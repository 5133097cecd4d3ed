//! What a user does with a meeting, from the room that is made for it to its end.

use anyhow::{Context, Result, ensure};
use reqwest::Method;
use roundsman_testkit::daily::Guest;
use serde_json::{Value, json};

use super::meeting::Meeting;
use super::on_both;
use super::place::PresenceSite;
use super::record::{Visits, wait_true};
use crate::site::Backend;

const ROOM: &str = "weekly-sync";

on_both! {
    a_user_makes_follows_exports_and_ends_a_meeting
}

async fn a_user_makes_follows_exports_and_ends_a_meeting(backend: Backend) -> Result<()> {
    let site = PresenceSite::new(backend).await?;
    let node = site.start(site.options()).await?;
    site.subscribe().await?;
    let user = site.user("ada").await?;
    let stranger = site.user("eve").await?;

    // Daily makes the room.
    let wish = json!({"room": ROOM, "create_room": {"is_private": true}});
    let made = user.client.post("/presence/meetings", &wish).await?.expect_status(201)?.body;
    ensure!(made["status"] == "open" && made["is_active"] == true, "{made}");
    ensure!(made["platform"] == "daily" && made["num_clients"] == 0, "{made}");
    let id = made["id"].as_i64().context("a meeting without a number")?;
    let room = site.daily_client()?.get(&format!("/rooms/{ROOM}")).await?.expect_status(200)?.body;
    ensure!(room["privacy"] == "private" && made["room_url"] == room["url"], "{room} {made}");
    let taken = user.client.post("/presence/meetings", &wish).await?.expect_status(409)?.body;
    ensure!(taken["code"] == "room_taken" && taken["meeting_id"] == id, "{taken}");
    let meeting = Meeting { id, room: ROOM.to_owned(), user };
    token(&site, &meeting).await?;

    // People come and go.
    let ada = site.daily.join(ROOM, Guest::named("ada"));
    let bob = site.daily.join(ROOM, Guest::named("=bob, or 1+1"));
    meeting.wait_inside(&[ada.clone(), bob.clone()]).await?;
    ensure!(site.daily.leave(ROOM, &bob), "bob was not there");
    meeting.wait_inside(std::slice::from_ref(&ada)).await?;
    wait_true(&site, std::slice::from_ref(&meeting), Visits::All).await?;
    lists(&meeting, &ada).await?;
    files(&meeting, &ada, &bob).await?;
    let listed = stranger.client.get("/presence/meetings").await?.expect_status(200)?.body;
    ensure!(listed["meetings"] == json!([]), "{listed}");
    for path in ["", "/sessions", "/timeline", "/export.csv"] {
        stranger.client.get(&(meeting.path() + path)).await?.expect_status(404)?;
    }

    // The owner ends it: nobody who is still there opens it again.
    let deactivate = meeting.path() + "/deactivate";
    stranger.client.post(&deactivate, &json!({})).await?.expect_status(404)?;
    let over = meeting.user.client.request(Method::PATCH, &deactivate);
    let over = meeting.user.client.send(over).await?.expect_status(200)?.body;
    ensure!(over["status"] == "completed" && over["end_reason"] == "deactivated", "{over}");
    ensure!(over["num_clients"] == 0 && over["is_active"] == false, "{over}");
    site.daily.join(ROOM, Guest::named("joe"));
    site.wait_delivered("participant.joined", 3).await?;
    site.wait_inbox("participant.joined", 3).await?;
    site.wait_quiet().await?;
    ensure!(meeting.shown().await?["is_active"] == false, "it is open again");
    let session = meeting.session(&ada).await?;
    ensure!(session.left_by.as_deref() == Some("deactivated"), "{session:?}");
    let late = meeting.user.client.post(&(meeting.path() + "/tokens"), &json!({})).await?;
    late.expect_status(409)?;
    let again = meeting.user.client.post(&deactivate, &json!({})).await?.expect_status(200)?.body;
    ensure!(again["end_reason"] == "deactivated", "{again}");
    site.end(vec![node]).await
}

/// A token that Daily knows; it is in no log.
async fn token(site: &PresenceSite, meeting: &Meeting) -> Result<()> {
    let wish = json!({"user_id": "user-ada", "user_name": "ada", "is_owner": true});
    let made = meeting.user.client.post(&(meeting.path() + "/tokens"), &wish).await?;
    let made = made.expect_status(201)?.body;
    let token = made["token"].as_str().context("no token")?;
    site.site.keep_secret(token);
    let known = site.daily_client()?.get(&format!("/meeting-tokens/{token}")).await?;
    let known = known.expect_status(200)?.body;
    ensure!(known["room_name"] == ROOM && known["is_owner"] == true, "{known}");
    ensure!(known["user_id"] == "user-ada", "{known}");
    Ok(())
}

async fn lists(meeting: &Meeting, ada: &str) -> Result<()> {
    let client = &meeting.user.client;
    let listed = client.get("/presence/meetings?active=true").await?.expect_status(200)?.body;
    let [shown] = &listed["meetings"].as_array().context("no list")?[..] else {
        anyhow::bail!("one meeting: {listed}")
    };
    ensure!(shown["id"] == meeting.id && shown["num_clients"] == 1, "{shown}");
    ensure!(shown["fresh_at"] != Value::Null && shown["stale_since"] == Value::Null, "{shown}");
    let none = client.get("/presence/meetings?active=false").await?.expect_status(200)?.body;
    ensure!(none["meetings"] == json!([]), "{none}");

    // In pages of one, and only those who are there.
    let sessions = meeting.path() + "/sessions";
    let mut all = Vec::new();
    let mut next = format!("{sessions}?limit=1");
    loop {
        let page = client.get(&next).await?.expect_status(200)?.body;
        all.extend(page["sessions"].as_array().context("no list")?.clone());
        let Some(after) = page["next_after"].as_str() else { break };
        next = format!("{sessions}?limit=1&after={after}");
    }
    ensure!(all.len() == 2, "{all:?}");
    let open = client.get(&format!("{sessions}?open=true")).await?.expect_status(200)?.body;
    let [inside] = &open["sessions"].as_array().context("no list")?[..] else {
        anyhow::bail!("one is there: {open}")
    };
    ensure!(inside["session_id"] == ada && inside["user_name"] == "ada", "{inside}");
    Ok(())
}

async fn files(meeting: &Meeting, ada: &str, bob: &str) -> Result<()> {
    let client = &meeting.user.client;
    let timeline = client.get(&(meeting.path() + "/timeline")).await?.expect_status(200)?.body;
    let entries = timeline["entries"].as_array().context("no list")?;
    let steps: Vec<_> = entries
        .iter()
        .map(|entry| (&entry["what"], &entry["session_id"], &entry["num_clients"]))
        .collect();
    let [joined, left] = [json!("joined"), json!("left")];
    let (ada, bob) = (json!(ada), json!(bob));
    let (one, two) = (json!(1), json!(2));
    let expected = [(&joined, &ada, &one), (&joined, &bob, &two), (&left, &bob, &one)];
    ensure!(steps == expected, "{timeline}");

    let csv = client.get(&(meeting.path() + "/export.csv")).await?.expect_status(200)?;
    ensure!(csv.header("content-disposition").is_some_and(|it| it.contains(".csv")), "{csv:?}");
    let lines: Vec<&str> = csv.text.lines().collect();
    ensure!(lines.len() == 3 && lines[0].starts_with("session_id,user_id,user_name,"), "{lines:?}");
    ensure!(lines[2].contains("\"'=bob, or 1+1\""), "a name is no formula: {lines:?}");
    let export = client.get(&(meeting.path() + "/export.json")).await?.expect_status(200)?;
    ensure!(export.header("x-whole") == Some("true"), "{export:?}");
    ensure!(export.body["sessions"].as_array().is_some_and(|all| all.len() == 2), "{export:?}");
    Ok(())
}
