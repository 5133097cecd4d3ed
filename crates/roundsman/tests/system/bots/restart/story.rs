//! What a user does, whatever happens to the server meanwhile.

use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use roundsman_testkit::eventually;
use roundsman_testkit::http::JsonResponse;
use roundsman_testkit::process::ServerOptions;
use serde_json::{Value, json};

use super::TAKEN_OVER_WITHIN;
use crate::bots::place::BotSite;
use crate::bots::receiver::Receiver;
use crate::bots::user::{User, native_id};
use crate::site::SOON;

/// One step of a story, however often it has to be tried.
const STEP_MAX: Duration = TAKEN_OVER_WITHIN.saturating_mul(2);
/// The number of the meeting.
const MEETING: u32 = 1;

/// What becomes of the bot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Story {
    /// Joins, is configured, leaves when told; its user has an endpoint and forgets the meeting.
    Whole,
    /// Falls silent and is given up.
    Silent,
    /// Was there before the server was.
    Adopted,
    /// Ends before it has said anything, and is launched again.
    SecondTry,
}

/// Who is left at the end of a story.
pub(crate) struct End {
    user: User,
    /// Still there, for what is told of the end.
    _receiver: Option<Receiver>,
}

impl Story {
    pub(super) fn by_way_of(place: &str) -> Story {
        match place {
            "bots.swept" | "store.bot_sweep" => Story::Silent,
            "store.bot_adopt" => Story::Adopted,
            "store.bot_next_attempt" => Story::SecondTry,
            _ => Story::Whole,
        }
    }

    pub(super) fn options(self, site: &BotSite, options: ServerOptions) -> Result<ServerOptions> {
        if self != Story::SecondTry {
            return Ok(options);
        }
        std::fs::create_dir_all(site.data())?;
        let script = site.data().join("second-try.sh");
        let bot = env!("CARGO_BIN_EXE_roundsman");
        // Only one process can make the folder. It ends when the server is gone that launched the
        // wrapper around it, so that neither that server nor the next can see it otherwise.
        let text = format!(
            "if mkdir \"$FIRST_TRY\"; then
                while [ \"$(cat /proc/$(cut -d' ' -f4 /proc/$PPID/stat)/comm)\" = roundsman ]; do
                    sleep 0.01
                done
                exit 3
            fi
            exec {bot} bot\n"
        );
        std::fs::write(&script, text)?;
        let first_try = site.data().join("first-try");
        let first_try = first_try.to_str().context("the folder has no plain name")?;
        let options = site.launcher_env(options, &[("FIRST_TRY", first_try)]);
        let command = format!("/bin/sh,{}", script.display());
        Ok(options.env("ROUNDSMAN_LAUNCHER_PROCESS_COMMAND", command))
    }

    pub(super) fn needs_preparation(self) -> bool {
        self == Story::Adopted
    }

    /// While no server runs: a meeting that nobody of ours has made.
    pub(super) async fn prepare(self, site: &BotSite) -> Result<()> {
        let user = "INSERT INTO users (email, max_concurrent_bots, data, created_at)";
        let meeting = "INSERT INTO meetings \
            (user_id, platform, platform_specific_id, status, data, created_at, updated_at)";
        let id = native_id(MEETING);
        if let Ok(database) = site.database() {
            let client = database.connect().await?;
            let sql = format!(
                "{user} VALUES ('story@example.org', 1, '{{}}', now()); \
                 {meeting} SELECT id, 'google_meet', '{id}', 'active', '{{}}', now(), now() \
                 FROM users"
            );
            client.batch_execute(&sql).await?;
        } else {
            let file = rusqlite::Connection::open(site.sqlite_file())?;
            file.execute_batch(&format!(
                "{user} VALUES ('story@example.org', 1, '{{}}', 1); \
                 {meeting} SELECT id, 'google_meet', '{id}', 'active', '{{}}', 1, 1 FROM users"
            ))?;
        }
        Ok(())
    }

    /// From the first request to the last.
    pub(super) async fn tell(self, site: &BotSite) -> Result<End> {
        let user = persist("a user", async || Ok(Some(site.user("story", 1).await?))).await?;
        let receiver = match self {
            Story::Whole => Some(whole(&user).await?),
            Story::Silent => {
                let id = start(&user, "hang").await?;
                user.wait_for(id, "failed", STEP_MAX).await?;
                None
            }
            Story::Adopted => {
                let meetings = async || Ok(user.meetings().await?.pop());
                let meeting = persist("the meeting", meetings).await?;
                let id = meeting["id"].as_i64().context("no id")?;
                user.wait_for(id, "failed", STEP_MAX).await?;
                None
            }
            Story::SecondTry => {
                let id = start(&user, "normal").await?;
                user.wait_for(id, "active", STEP_MAX).await?;
                stop(&user, id).await?;
                None
            }
        };
        Ok(End { user, _receiver: receiver })
    }

    /// With a server that is well: nothing runs, and the slot can be had again.
    pub(super) async fn end(self, site: &BotSite, end: &End) -> Result<()> {
        if self == Story::Whole {
            delivered(&end.user).await?;
        }
        let gone =
            eventually(STEP_MAX, async || site.processes().ok().filter(Vec::is_empty).map(|_| ()));
        gone.await.with_context(|| format!("still running: {:?}", site.processes()))?;
        let again = end.user.start("early_exit", MEETING).await.context("the slot")?;
        end.user.wait_for(again, "failed", SOON).await?;
        Ok(())
    }

    /// Whether no attempt of it may ever have two processes.
    pub(super) fn launches_once(self) -> bool {
        self != Story::SecondTry
    }
}

async fn whole(user: &User) -> Result<Receiver> {
    let receiver = Receiver::start().await?;
    let hook = json!({"webhook_url": receiver.url()});
    let client = &user.client;
    persist("an endpoint", async || accept(client.put("/user/webhook", &hook).await?, 200)).await?;
    let id = start(user, "normal").await?;
    user.wait_for(id, "active", STEP_MAX).await?;
    let config = json!({"meeting_id": id, "language": "de"});
    persist("a configuration", async || accept(client.put("/bots/config", &config).await?, 202))
        .await?;
    let path = format!("/meetings/google_meet/{}", native_id(MEETING));
    let name = json!({"data": {"name": "Planning"}});
    persist("a name", async || accept(client.patch(&path, &name).await?, 200)).await?;
    stop(user, id).await?;
    let events = delivered(user).await?;
    let event = events.first().and_then(|event| event["event_id"].as_str());
    let replay = format!("/user/webhook/deliveries/{}/replay", event.context("no event")?);
    let empty = json!({});
    let again = async || {
        let answer = client.post(&replay, &empty).await?;
        ensure!((200..300).contains(&answer.status), "{} {}", answer.status, answer.text);
        Ok(Some(()))
    };
    persist("a replay", again).await?;
    let forget = async || {
        let answer = client.delete(&path).await?;
        // Once it is forgotten, nobody knows the meeting by that name any more.
        ensure!([200, 404].contains(&answer.status), "{} {}", answer.status, answer.text);
        Ok(Some(()))
    };
    persist("forgetting", forget).await?;
    Ok(receiver)
}

/// A request whose answer was lost may have been heard: then there is a bot already.
async fn start(user: &User, scenario: &str) -> Result<i64> {
    let try_it = async || {
        let answer = user.try_start(scenario, MEETING).await?;
        match answer.status {
            201 => Ok(answer.body["id"].as_i64()),
            409 => Ok(user.meetings().await?.first().and_then(|meeting| meeting["id"].as_i64())),
            _ => bail!("{} {}", answer.status, answer.text),
        }
    };
    persist("a bot", try_it).await
}

async fn stop(user: &User, id: i64) -> Result<()> {
    let wish = json!({"meeting_id": id});
    persist("a stop", async || accept(user.client.post("/bots/stop", &wish).await?, 202)).await?;
    let over = user.wait_for(id, "completed", STEP_MAX).await?;
    ensure!(over["completion_reason"] == "stopped", "{over}");
    Ok(())
}

/// Waits until every event of the user has arrived, that of the end among them; returns them.
async fn delivered(user: &User) -> Result<Vec<Value>> {
    let look = async || {
        let page = user.client.get("/user/webhook/deliveries?limit=100").await?;
        let page = page.expect_status(200)?;
        let events = page.body["deliveries"].as_array().context("no list of deliveries")?;
        let all = events.iter().all(|event| event["state"] == "delivered");
        let ended = events.iter().any(|event| event["event_type"] == "meeting.completed");
        ensure!(all && ended, "{}", page.text);
        Ok(Some(events.clone()))
    };
    persist("deliveries", look).await
}

/// Tries until it works. The last error is what is shown if it never does.
async fn persist<T>(what: &str, mut step: impl AsyncFnMut() -> Result<Option<T>>) -> Result<T> {
    let mut last = None;
    let done = eventually(STEP_MAX, async || match step().await {
        Ok(done) => done,
        Err(error) => {
            last = Some(error);
            None
        }
    });
    let done = done.await;
    done.with_context(|| format!("{what}: {last:?}"))
}

fn accept(answer: JsonResponse, status: u16) -> Result<Option<()>> {
    answer.expect_status(status)?;
    Ok(Some(()))
}
