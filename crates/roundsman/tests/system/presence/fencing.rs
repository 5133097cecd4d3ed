//! R3 and R-6: a node that stands still in the middle of a look, until its lease is over and somebody
//! else has looked, writes nothing when it goes on.

use anyhow::{Context, Result, ensure};
use roundsman_testkit::daily::{Fault, FaultRule, Guest, Route};
use roundsman_testkit::eventually;

use super::door::Door;
use super::place::{LAG, PresenceSite, metric};
use super::record::{Visits, check_counts, wait_true};
use crate::site::{Backend, SOON};

const ROOM: &str = "weekly-sync";
/// The answer is on its way while the node stands still.
const HELD: std::time::Duration = std::time::Duration::from_secs(1);
const STALE_LOOKS: &str = "roundsman_presence_stale_looks_total";
const TOO_LATE: &str = "a look came too late";

#[tokio::test]
async fn a_zombie_writes_nothing() {
    async fn run() -> Result<()> {
        let mut site = PresenceSite::new(Backend::Postgres).await?;
        let door = Door::open().await?;
        site.events_go_to(door.url());
        let options = site.options().env(LAG, "0.2").env("ROUNDSMAN_DAILY_REQUEST_SECS_MAX", "20");
        let paused = site.start(options).await?;
        door.leads_to([paused.base_url()]);
        let mut meeting = site.meeting_of(ROOM, &["ada"]).await?;
        site.subscribe().await?;

        // It asks who is there, and stands still before it hears the answer: ada and bob.
        let looks = site.looks();
        site.daily.add_fault(FaultRule::times(Route::RoomPresence, Fault::Slow(HELD), 1));
        let ada = site.daily.present(ROOM);
        let bob = site.daily.join(ROOM, Guest::named("bob"));
        eventually(SOON, async || (site.looks() > looks).then_some(())).await.context("no look")?;
        paused.sigstop()?;

        // Meanwhile ada leaves and eve comes, and the other node looks.
        let other = site.start(site.options_beside().env(LAG, "0.2")).await?;
        door.leads_to([other.base_url()]);
        meeting.user = meeting.user.at(&other.base_url())?;
        ensure!(site.daily.leave(ROOM, &ada[0]), "ada was not there");
        let eve = site.daily.join(ROOM, Guest::named("eve"));
        let before = meeting.record().await?;
        ensure!(before.inside().contains(&*ada[0]), "the zombie has written: {before:?}");
        site.leases_end(paused.pid()?).await?;
        meeting.wait_inside(&[bob, eve]).await?;
        let written = last_look(&site).await?;

        // It goes on, with an answer that is not true any more and a lease that is not its own.
        paused.sigcont()?;
        paused.wait_for_log(TOO_LATE, SOON).await?;
        let record = meeting.record().await?;
        record.compare(&site.daily.visits(ROOM), Visits::All).context("the zombie has written")?;
        ensure!(metric(&paused, STALE_LOOKS).await? >= 1, "it was not counted");
        ensure!(last_look(&site).await? >= written, "an earlier look was written");
        check_counts(&site.books().await?).await?;

        // Both go on together.
        door.leads_to([paused.base_url(), other.base_url()]);
        site.daily.join(ROOM, Guest::named("joe"));
        wait_true(&site, &[meeting], Visits::All).await?;
        site.end(vec![paused, other]).await
    }
    run().await.unwrap();
}

/// R2: the number under which the last look was written.
async fn last_look(site: &PresenceSite) -> Result<i64> {
    let value = site.books().await?.value("SELECT look_no FROM presence").await?;
    Ok(value.context("no look")?.parse()?)
}
