//! Two nodes on one database: they share the work, and never work on the same recording at once.
//! What one of them leaves the other takes over, and one that comes back too late changes nothing.

use std::collections::BTreeSet;

use anyhow::{Context, Result, ensure};
use roundsman_testkit::{JsonClient, eventually};
use serde_json::Value;

use super::host::Host;
use super::place::{RecordingSite, hurry};
use super::transcriber::Said;
use crate::site::{Backend, Node, SOON};

const SAID: [Said; 1] = [Said { start: 0.0, end: 1.0, text: "One of several." }];
/// As many as two nodes process at once.
const AT_ONCE: usize = 4;
const RECORDINGS: usize = 10;

struct Pair {
    place: RecordingSite,
    first: Node,
    second: Node,
    host: Host,
}

impl Pair {
    async fn start() -> Result<Pair> {
        let place = RecordingSite::new(Backend::Postgres).await?;
        let (first, host) = place.start(place.options()).await?;
        let second = place.site.start(place.options_beside()).await?;
        Ok(Pair { place, first, second, host })
    }

    /// The node that works on a recording, and the other one.
    async fn holder(&mut self, id: &str) -> Result<(&mut Node, &mut Node)> {
        let lease = self.place.lease(id).await?;
        let holds = format!("node-{}-", self.first.pid()?);
        let worker = lease["worker"].as_str().context("nobody works on it")?;
        Ok(if worker.starts_with(&holds) {
            (&mut self.first, &mut self.second)
        } else {
            (&mut self.second, &mut self.first)
        })
    }

    fn dead_and_alive(&mut self) -> (&mut Node, &mut Node) {
        if self.first.pid().is_err() {
            (&mut self.first, &mut self.second)
        } else {
            (&mut self.second, &mut self.first)
        }
    }

    /// Waits until somebody else asks what is said in the recording.
    async fn wait_taken_over(&self, admin: &JsonClient) -> Result<()> {
        let asked = eventually(SOON, async || {
            hurry(admin, "recordings.process").await.ok()?;
            (self.place.transcriber.asked("rec-1") == 2).then_some(())
        });
        asked.await.context("nobody takes it over")
    }

    /// Waits until nothing is left of what the nodes worked on.
    async fn wait_cleared(&self) -> Result<()> {
        let cleared =
            eventually(SOON, async || self.place.work_files().ok().filter(Vec::is_empty).map(drop));
        cleared.await.with_context(|| format!("left: {:?}", self.place.work_files()))
    }

    async fn end(mut self, kept: usize) -> Result<()> {
        self.second.stop().await?;
        self.place.end(self.first, kept).await
    }
}

#[tokio::test]
async fn two_nodes_share_the_work_and_never_overlap() {
    async fn run() -> Result<()> {
        let pair = Pair::start().await?;
        let Pair { place, host, second, .. } = &pair;
        place.transcriber.hold();
        let names: Vec<String> = (0..RECORDINGS).map(|n| format!("rec-{n}")).collect();
        let ids: Vec<String> =
            names.iter().map(|name| place.record(&host.room, name, &SAID)).collect();
        let workers = eventually(SOON, async || {
            let asked = names.iter().map(|name| place.transcriber.asked(name)).sum::<usize>();
            if asked < AT_ONCE {
                return None;
            }
            let page = place.admin().ok()?.get("/leases?limit=200").await.ok()?;
            let leases = page.body["leases"].as_array()?.clone();
            let held = leases.iter().filter(|lease| lease["kind"] == "recordings.process");
            let workers: BTreeSet<String> = held.map(|lease| lease["worker"].to_string()).collect();
            (workers.len() == 2).then_some(workers)
        });
        workers.await.context("the nodes do not share the work")?;
        // Everybody is told of everything again, by Daily and by its list.
        for id in &ids {
            ensure!(place.daily.tell_recording(id), "it is gone");
            place.tell_at(&second.base_url(), &host.room, id).await?;
        }
        place.wait_told(2 * RECORDINGS).await?;
        place.wait_listed(4).await?;
        place.transcriber.release();
        for (id, name) in ids.iter().zip(&names) {
            let done = place.wait_completed(id).await?;
            ensure!(done["repeats"].as_u64() >= Some(2), "{done}");
            ensure!(place.transcriber.asked(name) == 1, "{name} was heard more than once");
        }
        ensure!(place.transcriber.at_once() == 1, "a recording was heard twice at once");
        ensure!(host.said().await?.len() == RECORDINGS, "{:?}", host.said().await?);
        pair.end(RECORDINGS).await
    }
    run().await.unwrap();
}

#[tokio::test]
async fn what_a_dead_node_leaves_is_taken_over() {
    async fn run() -> Result<()> {
        let mut pair = Pair::start().await?;
        pair.place.transcriber.hold();
        let id = pair.place.record(&pair.host.room, "rec-1", &SAID);
        pair.place.transcriber.wait_asked("rec-1", 1).await?;
        let (dies, lives) = pair.holder(&id).await?;
        let admin = lives.admin()?;
        dies.kill_9().await?;
        pair.place.transcriber.wait_left_alone("rec-1").await?;
        ensure!(!pair.place.work_files()?.is_empty(), "nothing was left");
        pair.place.leases_end().await?;
        pair.wait_taken_over(&admin).await?;
        pair.place.transcriber.release();
        wait_saved(&admin, &id).await?;
        ensure!(pair.place.transcriber.at_once() == 1, "it was heard twice at once");
        // The files of the dead one are where only its successor finds them.
        let (dead, _) = pair.dead_and_alive();
        dead.start_again().await?;
        pair.wait_cleared().await?;
        ensure!(pair.host.texts().await? == [SAID[0].text], "{:?}", pair.host.said().await?);
        pair.end(1).await
    }
    run().await.unwrap();
}

/// A node stands still with a recording in its hands until its lease is over and another one has
/// saved it; then it goes on, and has nothing to say.
#[tokio::test]
async fn a_node_that_comes_back_too_late_changes_nothing() {
    async fn run() -> Result<()> {
        let mut pair = Pair::start().await?;
        pair.place.transcriber.hold();
        let id = pair.place.record(&pair.host.room, "rec-1", &SAID);
        pair.place.transcriber.wait_asked("rec-1", 1).await?;
        let (sleeps, wakes) = pair.holder(&id).await?;
        let (admin, asleep) = (wakes.admin()?, sleeps.pid()?);
        sleeps.sigstop()?;
        pair.place.leases_end().await?;
        pair.wait_taken_over(&admin).await?;
        pair.place.transcriber.release();
        let saved = wait_saved(&admin, &id).await?;
        let sleeper = if pair.first.pid()? == asleep { &pair.first } else { &pair.second };
        sleeper.sigcont()?;
        // It clears away what it had, and that is all.
        pair.wait_cleared().await?;
        let after = pair.place.recording(&id).await?;
        ensure!(after == saved, "{after} was {saved}");
        ensure!(pair.host.texts().await? == [SAID[0].text], "{:?}", pair.host.said().await?);
        pair.end(1).await
    }
    run().await.unwrap();
}

async fn wait_saved(admin: &JsonClient, id: &str) -> Result<Value> {
    let path = format!("/recordings/{id}");
    let saved = eventually(SOON, async || {
        let recording = admin.get(&path).await.ok()?.body;
        (recording["status"] == "completed").then_some(recording)
    });
    saved.await.context("nobody took it over")
}
