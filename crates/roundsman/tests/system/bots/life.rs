//! Every way in which a bot can live, as a process of this machine: it ends in the right state for
//! the right reason, and nothing of it is left.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use futures_util::future::join_all;
use roundsman_testkit::eventually;
use serde_json::{Value, json};

use super::place::{BotSite, HEARTBEAT, KILL_GRACE, LEAVE_GRACE, SILENCE_MAX, SLACK};
use super::processes::bot_config;
use super::user::{User, end_reason, native_id};
use crate::site::{Backend, SOON, Stopwatch};

/// A bot's life: what it plays, what its user does, and what must come of it.
struct Life {
    scenario: &'static str,
    /// The user tells it to leave once it is in the meeting.
    is_stopped: bool,
    state: &'static str,
    /// Why it ended; empty where it depends on which way a wish was heard.
    reason: &'static str,
    completion_reason: Option<&'static str>,
    failure_stage: Option<&'static str>,
    exit_code: Option<i32>,
}

const fn completed(scenario: &'static str) -> Life {
    Life {
        scenario,
        is_stopped: true,
        state: "completed",
        reason: "",
        completion_reason: Some("stopped"),
        failure_stage: None,
        exit_code: None,
    }
}

const fn failed(scenario: &'static str, stage: &'static str, reason: &'static str) -> Life {
    Life {
        scenario,
        is_stopped: false,
        state: "failed",
        reason,
        completion_reason: None,
        failure_stage: Some(stage),
        exit_code: None,
    }
}

const LIVES: [Life; 10] = [
    completed("normal"),
    completed("slow_join"),
    Life {
        completion_reason: Some("awaiting_admission_timeout"),
        exit_code: Some(0),
        ..failed("lobby_timeout", "awaiting_admission", "admission_timeout")
    },
    Life {
        completion_reason: Some("awaiting_admission_rejected"),
        exit_code: Some(0),
        ..failed("rejected", "awaiting_admission", "admission_rejected_by_admin")
    },
    Life { exit_code: Some(1), ..failed("crash", "active", "crashed") },
    failed("hang", "active", "heartbeat_timeout"),
    completed("deaf"),
    Life {
        is_stopped: true,
        exit_code: Some(1),
        ..failed("dies_leaving", "active", "crashed_while_leaving")
    },
    Life { exit_code: Some(137), ..failed("exit_137", "active", "signal_sigkill") },
    Life { exit_code: Some(0), ..failed("early_exit", "joining", "self_initiated_leave") },
];

#[tokio::test]
async fn every_life_ends_well_on_sqlite() {
    live_all(Backend::Sqlite).await.unwrap();
}

#[tokio::test]
async fn every_life_ends_well_on_postgres() {
    live_all(Backend::Postgres).await.unwrap();
}

/// All of them side by side, as many as the user may have, and one more afterwards.
async fn live_all(backend: Backend) -> Result<()> {
    let site = BotSite::new(backend).await?;
    let mut node = site.start().await?;
    let user = site.user("lives", u32::try_from(LIVES.len())?).await?;
    let lives = join_all(LIVES.iter().zip(1..).map(async |(life, number)| {
        live(&site, &user, life, number).await.with_context(|| life.scenario.to_owned())
    }));
    for lived in lives.await {
        lived?;
    }
    let again = user.start("early_exit", 1).await.context("the slots are not free")?;
    user.wait_for(again, "failed", SOON).await?;
    site.end(&mut node).await
}

async fn live(site: &BotSite, user: &User, life: &Life, number: u32) -> Result<()> {
    let id = user.start(life.scenario, number).await?;
    if life.is_stopped {
        let active = user.wait_for(id, "active", SOON).await?;
        ensure!(active["status"] == "active", "{active}");
        ensure!(active["start_time"].is_string() && active["end_time"].is_null(), "{active}");
        let named = eventually(SOON, async || {
            let meeting = user.meeting(id).await.ok()?;
            meeting["bot_container_id"].is_string().then_some(())
        });
        named.await.context("nobody knows what the bot is called")?;
        stop(site, user, life, id).await?;
    }
    let over = user.wait_for(id, life.state, SOON).await?;
    check_end(life, &over)
}

/// A bot that was told to leave is gone in time, even if it never hears of it.
async fn stop(site: &BotSite, user: &User, life: &Life, id: i64) -> Result<()> {
    let watch = Stopwatch::start();
    user.stop(id).await?;
    // Asked twice is asked once.
    user.stop(id).await?;
    user.wait_for(id, life.state, SOON).await?;
    let gone = eventually(SOON, async || {
        let running = site.processes().ok()?;
        running.iter().all(|process| process.meeting() != Some(id)).then_some(())
    });
    gone.await.context("its process is still there")?;
    let took = watch.elapsed();
    let limit = LEAVE_GRACE + KILL_GRACE + HEARTBEAT + SLACK;
    ensure!(took <= limit, "{} was gone only after {took:?}", life.scenario);
    if life.scenario == "deaf" {
        let patience = LEAVE_GRACE + KILL_GRACE;
        ensure!(took >= patience, "killed after {took:?}, before its time of {patience:?}");
    }
    Ok(())
}

fn check_end(life: &Life, over: &Value) -> Result<()> {
    let data = &over["data"];
    ensure!(over["status"] == life.state && over["end_time"].is_string(), "{over}");
    ensure!(over["completion_reason"] == json!(life.completion_reason), "{over}");
    ensure!(over["failure_stage"] == json!(life.failure_stage), "{over}");
    ensure!(life.reason.is_empty() || end_reason(over) == life.reason, "{over}");
    if let Some(code) = life.exit_code {
        ensure!(data["last_error"]["exit_code"] == code, "{over}");
    }
    Ok(())
}

/// B-9: a bot that waits at the door, or that was only just reserved, leaves as well.
#[tokio::test]
async fn a_bot_leaves_before_it_has_joined() {
    async fn run(backend: Backend) -> Result<()> {
        let site = BotSite::new(backend).await?;
        let options = site.options().env("ROUNDSMAN_BOTS_WAITING_ROOM_SECS_MAX", "20");
        let mut node = site.site.start(options).await?;
        let user = site.user("early", 2).await?;
        let waiting = user.start("lobby_timeout", 1).await?;
        let at_the_door = eventually(SOON, async || {
            let meeting = user.meeting(waiting).await.ok()?;
            (meeting["status"] == "awaiting_admission").then_some(meeting)
        });
        let at_the_door = at_the_door.await.context("it never came to the lobby")?;
        ensure!(at_the_door["state"] == "starting", "{at_the_door}");
        user.stop(waiting).await?;
        let reserved = user.start("normal", 2).await?;
        user.stop(reserved).await?;
        for id in [waiting, reserved] {
            let over = user.wait_for(id, "completed", SOON).await?;
            let why = over["completion_reason"].as_str().unwrap_or_default();
            ensure!(id == reserved || why == "stopped_before_join", "{over}");
        }
        site.end(&mut node).await
    }
    let (sqlite, postgres) = tokio::join!(run(Backend::Sqlite), run(Backend::Postgres));
    sqlite.and(postgres).unwrap();
}

/// Who asks what the state of a bot is, or asks it to change, changes no state.
#[tokio::test]
async fn calls_about_a_bot_never_write_its_status() {
    async fn run(backend: Backend) -> Result<()> {
        let site = BotSite::new(backend).await?;
        // Nothing else may end the bot before it is looked at: it is deaf, and has time.
        let options = site.options().env("ROUNDSMAN_BOTS_LEAVE_GRACE_SECS", "3");
        let mut node = site.site.start(options).await?;
        let user = site.user("quiet", 1).await?;
        let id = user.start("deaf", 1).await?;
        user.wait_for(id, "active", SOON).await?;
        let books = site.books().await?;
        let before = books.steps(id).await?;
        for language in ["de", "fr", "en"] {
            let wish = json!({"meeting_id": id, "language": language});
            user.client.put("/bots/config", &wish).await?.expect_status(202)?;
        }
        user.stop(id).await?;
        let by_address = format!("/bots/google_meet/{}", native_id(1));
        user.client.delete(&by_address).await?.expect_status(202)?;
        ensure!(books.steps(id).await? == before, "a call wrote a step");
        ensure!(user.meeting(id).await?["status"] == "active");
        let wanted = format!("SELECT config_version FROM bots WHERE meeting_id = {id}");
        ensure!(books.value(&wanted).await?.as_deref() == Some("3"), "wishes were lost");
        user.wait_for(id, "completed", SOON).await?;
        site.end(&mut node).await
    }
    let (sqlite, postgres) = tokio::join!(run(Backend::Sqlite), run(Backend::Postgres));
    sqlite.and(postgres).unwrap();
}

/// B-17: whatever is asked in quick succession, the bot ends up with the last of it and says so.
#[tokio::test]
async fn the_last_configuration_wins() {
    async fn run(backend: Backend) -> Result<()> {
        let site = BotSite::new(backend).await?;
        let mut node = site.start().await?;
        let user = site.user("changing", 1).await?;
        let id = user.start("normal", 1).await?;
        user.wait_for(id, "active", SOON).await?;
        for language in ["de", "fr", "es", "it", "nl", "pl", "pt", "ru", "sv", "uk"] {
            let wish = json!({"meeting_id": id, "language": language, "task": "translate"});
            user.client.put("/bots/config", &wish).await?.expect_status(202)?;
        }
        let books = site.books().await?;
        let sql = format!(
            "SELECT config_version, config_applied, language, task FROM bots WHERE meeting_id = {id}"
        );
        let applied = eventually(SOON, async || {
            let row = books.rows(&sql).await.ok()?.pop()?;
            let expected = ["10", "10", "uk", "translate"].map(|text| Some(text.to_owned()));
            (row == expected).then_some(())
        });
        applied.await.context("the bot did not take the last one")?;
        user.stop(id).await?;
        user.wait_for(id, "completed", SOON).await?;
        site.end(&mut node).await
    }
    let (sqlite, postgres) = tokio::join!(run(Backend::Sqlite), run(Backend::Postgres));
    sqlite.and(postgres).unwrap();
}

/// What a bot's token opens: its own meeting and attempt, and nothing after its end. (B-7, B-8)
#[tokio::test]
async fn a_callback_needs_the_token_of_that_bot() {
    async fn run() -> Result<()> {
        let site = BotSite::sqlite()?;
        let mut node = site.start().await?;
        let user = site.user("guarded", 2).await?;
        let (one, two) = (user.start("normal", 1).await?, user.start("normal", 2).await?);
        for id in [one, two] {
            user.wait_for(id, "active", SOON).await?;
        }
        let config = |id| {
            let running = site.processes()?;
            let process = running.iter().find(|process| process.meeting() == Some(id));
            bot_config(process.context("no process")?)
        };
        let (first, second) = (config(one)?, config(two)?);
        for config in [&first, &second] {
            site.site.keep_secret(config["roundsman"]["callbackToken"].as_str().context("none")?);
        }
        let callback = async |token: &Value, connection: &Value| -> Result<u16> {
            let body = json!({"connection_id": connection, "exit_code": 0});
            let client = node.client()?.with_token(token.as_str().unwrap_or_default())?;
            Ok(client.post("/callback/exited", &body).await?.status)
        };
        let (own, other) = (&first["connectionId"], &second["connectionId"]);
        let (token, foreign) =
            (&first["roundsman"]["callbackToken"], &second["roundsman"]["callbackToken"]);
        for (token, connection) in [
            (foreign, own),
            (token, other),
            (&json!("rmb_1_1_00"), own),
            (&json!("nonsense"), own),
            (&json!(user.key), own),
        ] {
            let status = callback(token, connection).await?;
            ensure!([401, 403, 404].contains(&status), "{connection} was answered {status}");
        }
        let unsigned = json!({"connection_id": own, "exit_code": 0});
        let status = node.client()?.post("/callback/exited", &unsigned).await?.status;
        ensure!(status == 401, "without a token: {status}");
        for id in [one, two] {
            ensure!(user.meeting(id).await?["status"] == "active", "a forged callback was heard");
            user.stop(id).await?;
            user.wait_for(id, "completed", SOON).await?;
        }
        // A late callback is answered, changes nothing, and tells the bot to go.
        let late = json!({"connection_id": own});
        let client = node.client()?.with_token(token.as_str().context("no token")?)?;
        client.post("/callback/heartbeat", &late).await?.expect_status(410)?;
        let over = user.meeting(one).await?;
        ensure!(over["status"] == "completed", "{over}");
        site.end(&mut node).await
    }
    run().await.unwrap();
}

/// B-12: bots that could not be heard while the server was away are not held to account for it.
#[tokio::test]
async fn an_outage_of_the_server_ends_no_bot() {
    async fn run(backend: Backend) -> Result<()> {
        let site = BotSite::new(backend).await?;
        let mut node = site.start().await?;
        let user = site.user("patient", 1).await?;
        let id = user.start("normal", 1).await?;
        user.wait_for(id, "active", SOON).await?;
        let before = site.processes()?;
        node.sigstop()?;
        let away = Stopwatch::start();
        let longer_than_silence = SILENCE_MAX + Duration::from_secs(1);
        // The machine stands still for longer than a bot may be silent.
        let waited =
            eventually(SOON, async || (away.elapsed() > longer_than_silence).then_some(()));
        waited.await?;
        node.sigcont()?;
        let heard = Stopwatch::start();
        let still = eventually(SOON, async || {
            let meeting = user.meeting(id).await.ok()?;
            let over = meeting["status"] != "active";
            (over || heard.elapsed() > longer_than_silence).then_some(meeting)
        });
        let meeting = still.await?;
        ensure!(meeting["status"] == "active", "given up for our own silence: {meeting}");
        ensure!(site.processes()? == before, "the bot was replaced");
        user.stop(id).await?;
        user.wait_for(id, "completed", SOON).await?;
        site.end(&mut node).await
    }
    let (sqlite, postgres) = tokio::join!(run(Backend::Sqlite), run(Backend::Postgres));
    sqlite.and(postgres).unwrap();
}
