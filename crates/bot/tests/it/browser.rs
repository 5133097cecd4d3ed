//! Browser mode, with a real Chromium on a real page.

use std::time::Duration;

use anyhow::{Context, Result};
use roundsman_testkit::meeting_page::{GuestState, Lobby};
use roundsman_testkit::{MeetingPage, eventually};
use rustix::process::Signal;
use serde_json::{Value, json};
use tokio::process::Command;

use crate::process::{BotOptions, BotProcess};
use crate::server::{Server, TOLD};

const LIMIT: Duration = Duration::from_secs(60);
const NAME: &str = "Ann's bot 🤖";

struct Scene {
    server: Server,
    meeting: MeetingPage,
    bot: BotProcess,
}

/// A meeting with a bot on its way into it.
async fn scene(lobby: Lobby, change: impl FnOnce(BotOptions) -> BotOptions) -> Result<Scene> {
    let found = Command::new("chromium").arg("--version").output().await;
    found.context("Chromium is missing: run `scripts/test`, which installs it")?;
    let (server, meeting) = (Server::start().await?, MeetingPage::start(lobby).await?);
    meeting.set_participants(&["Ben", "Cleo"]);
    let bot = change(BotOptions::browser(NAME, &meeting.url(), &server.url())).start()?;
    Ok(Scene { server, meeting, bot })
}

/// Patient enough that no test has to hurry.
fn patient(options: BotOptions) -> BotOptions {
    options.set("automaticLeave", json!({}))
}

impl Scene {
    async fn guest_is(&self, state: GuestState) -> Result<()> {
        self.meeting.wait_for_guest(NAME, state, LIMIT).await.with_context(|| self.bot.stderr())
    }

    /// Waits for an event for which this is true.
    async fn event(&self, why: &str, is_it: impl Fn(&Value) -> bool) -> Result<Value> {
        let found = eventually(LIMIT, async || self.bot.events().into_iter().find(&is_it)).await;
        found.with_context(|| format!("waited for {why}; came: {:?}", self.bot.events()))
    }

    /// Waits for the end of the bot, which takes its browser with it, and returns its report.
    async fn ended(&mut self, exit_code: i32) -> Result<Value> {
        assert_eq!(self.bot.exit_code().await?, exit_code, "{}", self.bot.stderr());
        self.no_browser_is_left().await?;
        let left: Vec<_> = std::fs::read_dir(self.bot.tmp())?.collect();
        assert!(left.is_empty(), "the bot left {left:?}");
        Ok(self.server.wait_for("exited").await?.body)
    }

    /// The browser's processes all name the bot's own folder.
    async fn no_browser_is_left(&self) -> Result<()> {
        let folder = self.bot.tmp().display().to_string();
        let gone = eventually(LIMIT, async || processes_naming(&folder).is_empty().then_some(()));
        gone.await.with_context(|| format!("left behind: {:?}", processes_naming(&folder)))
    }
}

fn processes_naming(text: &str) -> Vec<String> {
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    let lines = entries.filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok());
    let lines = lines.map(|line| String::from_utf8_lossy(&line).replace('\0', " "));
    lines.filter(|line| line.contains(text)).collect()
}

#[tokio::test]
async fn a_guest_waits_joins_listens_and_leaves() -> Result<()> {
    let mut scene = scene(Lobby::Guarded, patient).await?;
    scene.guest_is(GuestState::Waiting).await?;
    scene.server.wait_for("awaiting_admission").await?;
    scene.meeting.admit(NAME);
    scene.server.wait_for("joined").await?;

    scene.meeting.set_speaking("Ben", true);
    let speaks = scene.event("Ben speaks", |event| event["event_type"] == "SPEAKER_START").await?;
    assert_eq!(speaks["type"], "speaker_activity");
    assert_eq!(speaks["participant_name"], "Ben");
    assert_eq!(speaks["participant_id_meet"], "p-Ben");
    assert_eq!((&speaks["uid"], &speaks["meeting_id"]), (&json!("c-1"), &json!(7)));

    let text_is = |text: &'static str| move |event: &Value| event["segments"][0]["text"] == text;
    scene.meeting.caption(1, "Ben", "Good", false);
    let first = scene.event("a word", text_is("Good")).await?["segments"][0].clone();
    assert_eq!((&first["speaker"], &first["completed"]), (&json!("Ben"), &json!(false)));
    assert_eq!(first["language"], "en");
    scene.server.want_config(1, json!({"language": "de", "task": "transcribe"}));
    scene.server.wait_until("version 1", |report| report.body["config_version"] == 1).await?;
    scene.meeting.caption(1, "Ben", "Good morning", true);
    let whole = scene.event("a sentence", text_is("Good morning")).await?["segments"][0].clone();
    assert_eq!((&whole["start"], &whole["completed"]), (&first["start"], &json!(true)));
    assert_eq!(whole["language"], "de");

    let heard = |report: &crate::server::Report| report.body["media_progress"].as_u64();
    let some = scene.server.wait_until("media", |report| heard(report).is_some()).await?;
    scene.server.wait_until("more media", |report| heard(report) > heard(&some)).await?;

    scene.meeting.caption(2, "Cleo", "And you", false);
    scene.event("an open caption", text_is("And you")).await?;
    scene.server.want_leave();
    let exited = scene.ended(0).await?;
    assert_eq!(exited["reason"], "self_initiated_leave");
    assert_eq!(scene.meeting.guest(NAME), Some(GuestState::Left), "it clicked to leave");
    let life = ["started", "joining", "awaiting_admission", "joined", "stopping", "exited"];
    assert_eq!(scene.server.life(), life);
    assert!(scene.server.count(TOLD) > 0, "the server was told what is said");

    let events = scene.bot.events();
    assert_eq!(events[0]["type"], "session_start");
    let ends: Vec<&Value> = events[events.len() - 3..].iter().map(|event| &event["type"]).collect();
    assert_eq!(ends, ["speaker_activity", "transcription", "session_end"]);
    assert_eq!(events[events.len() - 3]["event_type"], "SPEAKER_END");
    assert_eq!(events[events.len() - 2]["segments"][0]["completed"], true);
    Ok(())
}

#[tokio::test]
async fn the_host_may_refuse_remove_or_end() -> Result<()> {
    let mut rejected = scene(Lobby::Guarded, patient).await?;
    rejected.guest_is(GuestState::Waiting).await?;
    rejected.server.wait_for("awaiting_admission").await?;
    rejected.meeting.reject(NAME);
    let exited = rejected.ended(0).await?;
    assert_eq!(exited["reason"], "admission_rejected_by_admin");

    let mut removed = scene(Lobby::Open, patient).await?;
    removed.server.wait_for("joined").await?;
    removed.meeting.remove(NAME);
    let exited = removed.ended(0).await?;
    assert_eq!((&exited["reason"], &exited["exit_code"]), (&json!("removed_by_admin"), &json!(0)));

    let mut ended = scene(Lobby::Open, patient).await?;
    ended.server.wait_for("joined").await?;
    ended.meeting.end();
    assert_eq!(ended.ended(0).await?["reason"], "normal_completion");
    Ok(())
}

#[tokio::test]
async fn a_bot_does_not_wait_for_ever() -> Result<()> {
    let mut waiting = scene(Lobby::Guarded, |options| options).await?;
    let exited = waiting.ended(0).await?;
    assert_eq!(exited["reason"], "admission_timeout");

    let mut alone = scene(Lobby::Open, |options| {
        options.set("automaticLeave", json!({"everyoneLeftTimeout": 1000}))
    })
    .await?;
    alone.server.wait_for("joined").await?;
    alone.meeting.set_speaking("Ben", true);
    alone.event("somebody", |event| event["event_type"] == "SPEAKER_START").await?;
    alone.meeting.set_participants(&[]);
    let exited = alone.ended(0).await?;
    assert_eq!(exited["reason"], "left_alone_timeout");
    assert_eq!(exited["completion_reason"], "left_alone");
    Ok(())
}

#[tokio::test]
async fn a_signal_is_heard_in_the_lobby_too() -> Result<()> {
    let mut scene = scene(Lobby::Guarded, patient).await?;
    scene.server.wait_for("awaiting_admission").await?;
    scene.bot.signal(Signal::TERM)?;
    let exited = scene.ended(0).await?;
    assert_eq!(exited["reason"], "signal_sigterm");
    assert_eq!(scene.meeting.guest(NAME), Some(GuestState::Left));
    Ok(())
}

#[tokio::test]
async fn a_bot_that_is_killed_takes_its_browser_with_it() -> Result<()> {
    let mut scene = scene(Lobby::Open, patient).await?;
    scene.server.wait_for("joined").await?;
    assert!(!processes_naming(&scene.bot.tmp().display().to_string()).is_empty());
    scene.bot.signal(Signal::KILL)?;
    scene.bot.wait().await?;
    scene.no_browser_is_left().await?;
    scene.guest_is(GuestState::Vanished).await
}

#[tokio::test]
async fn a_browser_that_dies_is_reported() -> Result<()> {
    let mut scene = scene(Lobby::Open, patient).await?;
    scene.server.wait_for("joined").await?;
    kill_browser(&scene.bot)?;
    let exited = scene.ended(1).await?;
    assert_eq!(exited["reason"], "platform_handler_exception");
    assert!(exited["error_details"]["message"].is_string(), "{exited}");
    Ok(())
}

#[tokio::test]
async fn a_page_that_is_not_there_and_a_browser_that_is_not_there() -> Result<()> {
    let mut scene = scene(Lobby::Open, |options| {
        patient(options).env("ROUNDSMAN_BOT_MEETING_URL", "http://127.0.0.1:1/")
    })
    .await?;
    let exited = scene.ended(1).await?;
    assert_eq!(exited["reason"], "join_meeting_error");

    let server = Server::start().await?;
    let options = BotOptions::browser(NAME, "http://127.0.0.1:1/", &server.url());
    let mut bot = options.env("ROUNDSMAN_BOT_CHROMIUM", "/nowhere/chromium").start()?;
    assert_eq!(bot.exit_code().await?, 1);
    let exited = server.wait_for("exited").await?.body;
    assert_eq!(exited["reason"], "browser_not_started");
    Ok(())
}

#[tokio::test]
async fn another_page_needs_another_profile_and_nothing_else() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("profile.json");
    // As on pages that mark neither ids nor what is final.
    let profile = json!({"nameInput": "form input", "joinButton": "form button",
        "admitted": "#participants li", "leaveButton": "#leave", "left": "#left",
        "participant": "#participants li", "participantSelf": "[data-self]",
        "participantSpeaking": "li.speaking", "caption": "#captions p",
        "captionSpeaker": ".speaker", "captionText": ".text"});
    std::fs::write(&file, profile.to_string())?;
    let path = file.display().to_string();
    let mut scene =
        scene(Lobby::Open, |options| patient(options).env("ROUNDSMAN_BOT_PAGE_PROFILE", &path))
            .await?;
    scene.server.wait_for("joined").await?;
    scene.meeting.set_speaking("Cleo", true);
    let speaks = scene.event("Cleo", |event| event["event_type"] == "SPEAKER_START").await?;
    assert_eq!(speaks["participant_id_meet"], "Cleo");
    scene.meeting.caption(1, "Cleo", "First", false);
    scene.meeting.caption(2, "Cleo", "Second", false);
    let first = scene.event("the first caption, done", |event| {
        let segment = &event["segments"][0];
        segment["text"] == "First" && segment["completed"] == true
    });
    first.await?;
    scene.bot.signal(Signal::TERM)?;
    scene.ended(0).await?;
    Ok(())
}

/// Kills the main process of the browser, found by the folder that only this bot's has.
fn kill_browser(bot: &BotProcess) -> Result<()> {
    let folder = bot.tmp().display().to_string();
    let entries = std::fs::read_dir("/proc")?.flatten();
    let main = entries.filter_map(|entry| {
        let line = std::fs::read_to_string(entry.path().join("cmdline")).ok()?;
        let is_main =
            line.contains(&folder) && !line.contains("--type=") && !line.starts_with("sh\0");
        let pid = entry.file_name().to_str()?.parse().ok()?;
        rustix::process::Pid::from_raw(pid).filter(|_| is_main)
    });
    for pid in main {
        rustix::process::kill_process(pid, Signal::KILL)?;
    }
    Ok(())
}
