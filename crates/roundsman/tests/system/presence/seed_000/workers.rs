//! Scenarios 8 to 10.

use anyhow::{Context, Result, ensure};
use roundsman_testkit::daily::{Fault, FaultRule, Guest, Route};
use roundsman_testkit::eventually;

use super::{HELD, OTHER_ROOM, POLL, ROOM};
use crate::presence::meeting::Meeting;
use crate::presence::on_both;
use crate::presence::place::{
    EMPTY_GRACE, LAG, LOOKS_AT_ONCE, NEVER, PROCESS, PresenceSite, RECONCILE, metric,
};
use crate::presence::record::{Visits, wait_true};
use crate::site::{Backend, Node, SOON};

const JOINED: &str = "participant.joined";
const EVERYONE_LEFT: &str = "roundsman_presence_ended_total{reason=\"everyone_left\"}";
const JUDGE: &str = "presence.judge";

on_both! {
    scenario_8_two_workers_see_one_trigger
    scenario_9_two_workers_look_at_different_meetings
    scenario_10_processing_of_a_meeting_never_overlaps
}

/// Every worker hears everything. One of them looks; what it hears meanwhile waits, and is not lost.
async fn scenario_8_two_workers_see_one_trigger(backend: Backend) -> Result<()> {
    let mut site = PresenceSite::new(backend).await?;
    let (nodes, _door) =
        site.start_all(|options| options.env(RECONCILE, NEVER).env(LAG, "4")).await?;
    let meeting = site.meeting_of(ROOM, &["user1"]).await?;
    site.subscribe().await?;
    let looks = site.looks();
    site.daily.add_fault(FaultRule::times(Route::RoomPresence, Fault::Slow(HELD), 1));
    let user2 = site.daily.join(ROOM, Guest::named("user2"));
    eventually(SOON, async || (site.looks() > looks).then_some(())).await.context("no look")?;
    site.daily.join(ROOM, Guest::named("user3"));
    ensure!(site.wait_delivered(JOINED, 2).await? == Some(200), "not taken");

    // While the first look is under way there is no second one.
    let first = eventually(SOON, async || {
        let looked = site.looks() - looks;
        let record = meeting.record().await.ok()?;
        Some(record.sessions.contains_key(&user2)).filter(|is_written| {
            assert!(*is_written || looked == 1, "{looked} looks at once");
            *is_written
        })
    });
    first.await.context("the first look wrote nothing")?;
    meeting.wait_inside(&site.daily.present(ROOM)).await?;
    site.wait_quiet().await?;
    let looked = site.looks() - looks;
    // One for each burst, one more if a node told of the second later than it was looked at, and one
    // after the lag.
    ensure!((3..=4).contains(&looked), "{looked} looks");
    wait_true(&site, &[meeting], Visits::All).await?;
    site.end(nodes).await
}

/// Both looks are under way at the same time; with two nodes that look at one room at a time each, at
/// different nodes.
async fn scenario_9_two_workers_look_at_different_meetings(backend: Backend) -> Result<()> {
    let mut site = PresenceSite::new(backend).await?;
    let at_once = if backend == Backend::Postgres { "1" } else { "2" };
    let (nodes, _door) =
        site.start_all(|options| options.env(RECONCILE, NEVER).env(LOOKS_AT_ONCE, at_once)).await?;
    let first = site.meeting_of(ROOM, &[]).await?;
    let second = site.meeting_of(OTHER_ROOM, &[]).await?;
    site.subscribe().await?;
    site.daily.add_fault(FaultRule::times(Route::RoomPresence, Fault::Slow(HELD), 2));
    site.daily.join(ROOM, Guest::named("user1"));
    site.daily.join(OTHER_ROOM, Guest::named("user2"));
    let mut seen = Vec::new();
    let both = eventually(SOON, async || {
        seen = site.leases(POLL).await.ok()?;
        (seen.len() == 2).then_some(())
    });
    both.await.with_context(|| format!("not at the same time: {seen:?}"))?;
    let mut names: Vec<&str> = seen.iter().filter_map(|lease| lease["name"].as_str()).collect();
    names.sort_unstable();
    let expected = [&first, &second].map(|m| format!("meeting_presence_poll:{}", m.id));
    ensure!(names == expected, "{names:?}");
    let is_same_worker = seen[0]["worker"] == seen[1]["worker"];
    ensure!(is_same_worker == (backend == Backend::Sqlite), "{seen:?}");
    for meeting in [&first, &second] {
        meeting.wait_inside(&site.daily.present(&meeting.room)).await?;
    }
    wait_true(&site, &[first, second], Visits::All).await?;
    site.end(nodes).await
}

/// The timer comes round again and again while a meeting is decided about: nobody else does, others
/// are decided about meanwhile, and each ends once.
async fn scenario_10_processing_of_a_meeting_never_overlaps(backend: Backend) -> Result<()> {
    let mut site = PresenceSite::new(backend).await?;
    let (nodes, _door) =
        site.start_all(|options| options.env(PROCESS, "0.1").env(EMPTY_GRACE, "3")).await?;
    let slow = site.meeting_of(ROOM, &["user1"]).await?;
    let other = site.meeting_of(OTHER_ROOM, &["user2"]).await?;
    site.subscribe().await?;
    for meeting in [&slow, &other] {
        for session in site.daily.present(&meeting.room) {
            site.daily.leave(&meeting.room, &session);
        }
    }
    slow.wait_inside(&[]).await?;
    // On an embedded database nobody can hold up one meeting and not all of them.
    if backend == Backend::Postgres {
        let holder = hold(&site, &slow).await?;
        let lock = format!("meeting_process_lock:{}", slow.id);
        let mut seen = 0;
        let waits = eventually(SOON, async || {
            let leases = site.leases(JUDGE).await.ok()?;
            let of_slow = leases.iter().filter(|lease| lease["name"] == *lock).count();
            assert!(of_slow <= 1, "{leases:?}");
            seen += of_slow;
            let other_is_over = other.shown().await.ok()?["is_active"] == false;
            (seen >= 10 && other_is_over).then_some(())
        });
        waits.await.context("others are not decided about meanwhile")?;
        ensure!(slow.shown().await?["is_active"] == true, "it ended while it was held");
        holder.batch_execute("ROLLBACK").await?;
    }
    for meeting in [&slow, &other] {
        let shown = meeting.wait_active(false).await?;
        ensure!(shown["end_reason"] == "everyone_left", "{shown}");
    }
    ends_are_counted_once(&nodes, 2).await?;
    for meeting in [&slow, &other] {
        let steps = site.books().await?.steps(meeting.id).await?;
        let ends = steps.iter().filter(|step| step.to == "completed").count();
        ensure!(ends == 1, "{steps:?}");
    }
    site.end(nodes).await
}

/// Locks a meeting's row, as somebody who is slow would.
async fn hold(site: &PresenceSite, meeting: &Meeting) -> Result<tokio_postgres::Client> {
    let holder = site.database()?.connect().await?;
    let sql = format!(
        "BEGIN; SELECT 1 FROM roundsman.presence WHERE meeting_id = {} FOR UPDATE",
        meeting.id
    );
    holder.batch_execute(&sql).await?;
    Ok(holder)
}

async fn ends_are_counted_once(nodes: &[Node], ends: u64) -> Result<()> {
    let mut counted = 0;
    for node in nodes {
        counted += metric(node, EVERYONE_LEFT).await?;
    }
    ensure!(counted == ends, "{counted} ends of {ends} meetings");
    Ok(())
}
