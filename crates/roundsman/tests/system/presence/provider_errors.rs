//! R5, R-7 and R-8: whatever Daily answers instead of the truth, nobody's session is closed by it.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use roundsman_testkit::daily::{Fault, FaultRule, Guest, Route};
use roundsman_testkit::eventually;
use serde_json::Value;

use super::on_both;
use super::place::{PresenceSite, RECONCILE, breathe, metric};
use super::record::{Visits, check_counts, wait_true};
use crate::site::{Backend, SOON};

const ROOMS: [&str; 10] = [
    "room-0", "room-1", "room-2", "room-3", "room-4", "room-5", "room-6", "room-7", "room-8",
    "room-9",
];
const PEOPLE: [&str; 3] = ["ada", "bob", "eve"];
/// What counts sessions that were closed, and those that were closed by a look alone.
const CLOSED: [&str; 2] = ["left", "vanished"];

on_both! {
    no_error_of_the_provider_closes_a_session
    while_the_provider_is_silent_that_is_shown
    a_session_that_was_missed_and_is_seen_again_is_open_again
    a_room_that_is_gone_ends_its_meeting_after_a_grace
}

fn every_fault() -> Vec<Fault> {
    vec![
        Fault::Status(500),
        Fault::Status(503),
        Fault::Status(401),
        Fault::Status(403),
        Fault::TooManyRequests { retry_after_secs: Some(1) },
        Fault::TooManyRequests { retry_after_secs: None },
        Fault::Hang,
        Fault::Reset,
        Fault::Html,
        Fault::EmptyObject,
        Fault::Truncated,
        Fault::CutAfter(20),
        Fault::WrongTypes,
        Fault::Huge,
        Fault::MissingIds,
        Fault::DuplicateIds,
        Fault::Partial,
        Fault::SpuriousEmpty,
        Fault::NullNames,
        Fault::NotFound,
        Fault::Answer(200, "null".to_owned()),
    ]
}

/// Each comes once, about a room and about all of them, while nobody leaves.
async fn no_error_of_the_provider_closes_a_session(backend: Backend) -> Result<()> {
    let site = PresenceSite::new(backend).await?;
    let options = site.options().env("ROUNDSMAN_DAILY_REQUEST_SECS_MAX", "0.5");
    let node = site.start(options.env(RECONCILE, "0.2")).await?;
    let mut meetings = Vec::new();
    for room in ROOMS {
        meetings.push(site.meeting_of(room, &PEOPLE).await?);
    }
    site.subscribe().await?;
    for fault in every_fault() {
        for route in [Route::RoomPresence, Route::DomainPresence] {
            site.daily.add_fault(FaultRule::times(route, fault.clone(), 1));
        }
    }
    // Somebody comes now and then, so that there is something to look for.
    let mut came = 0;
    let all = eventually(SOON * 2, async || {
        let left = site.daily.faults_left();
        if left > 0 && came < 40 {
            let name = format!("guest-{came}");
            site.daily.join(ROOMS[came % ROOMS.len()], Guest::named(&name));
            came += 1;
        }
        (left == 0).then_some(())
    });
    all.await.with_context(|| format!("{} faults are left", site.daily.faults_left()))?;
    wait_true(&site, &meetings, Visits::All).await?;
    check_counts(&site.books().await?).await?;
    for change in CLOSED {
        let name = format!("roundsman_presence_changes_total{{change=\"{change}\"}}");
        let closed = metric(&node, &name).await?;
        ensure!(closed == 0, "{closed} {change}, and everybody is still there");
    }
    for meeting in &meetings {
        let shown = meeting.shown().await?;
        let is_well = shown["is_active"] == true && shown["stale_since"] == Value::Null;
        ensure!(is_well, "{shown}");
    }
    site.end(vec![node]).await
}

async fn while_the_provider_is_silent_that_is_shown(backend: Backend) -> Result<()> {
    let site = PresenceSite::new(backend).await?;
    let node = site.start(site.options()).await?;
    let meeting = site.meeting_of(ROOMS[0], &PEOPLE).await?;
    for route in [Route::RoomPresence, Route::DomainPresence] {
        site.daily.add_fault(FaultRule::always(route, Fault::Status(500)));
    }
    let stale = eventually(SOON, async || {
        let shown = meeting.shown().await.ok()?;
        (shown["stale_since"] != Value::Null).then_some(shown)
    });
    let shown = stale.await.context("nothing shows that nobody answers")?;
    ensure!(shown["num_clients"] == 3 && shown["is_active"] == true, "{shown}");
    ensure!(shown["stale_reason"].as_str().is_some_and(|text| text.contains("500")), "{shown}");
    site.daily.clear_faults();
    let fresh = eventually(SOON, async || {
        let shown = meeting.shown().await.ok()?;
        (shown["stale_since"] == Value::Null).then_some(())
    });
    fresh.await.context("it is still taken for silent")?;
    wait_true(&site, &[meeting], Visits::All).await?;
    site.end(vec![node]).await
}

/// Defect 1 of the reference: an answer leaves somebody out, and the next one shows them. Whoever
/// came meanwhile is kept, too.
async fn a_session_that_was_missed_and_is_seen_again_is_open_again(backend: Backend) -> Result<()> {
    let site = PresenceSite::new(backend).await?;
    let node = site.start(site.options()).await?;
    let meeting = site.meeting_of(ROOMS[0], &PEOPLE[..2]).await?;
    site.subscribe().await?;
    let whole = site.daily_client()?.get(&format!("/rooms/{}/presence", ROOMS[0])).await?.body;
    let mut without_ada = whole.clone();
    let people = without_ada["data"].as_array_mut().context("no list")?;
    people.remove(0);
    without_ada["total_count"] = 1.into();
    // Nobody is taken for gone who has only just come.
    breathe(Duration::from_secs(1)).await;
    let missed = Fault::Answer(200, without_ada.to_string());
    site.daily.add_fault(FaultRule::times(Route::RoomPresence, missed, 1));
    let looks = site.looks();
    site.daily.join(ROOMS[0], Guest::named("eve"));
    eventually(SOON, async || (site.looks() >= looks + 2).then_some(())).await.context("looks")?;
    wait_true(&site, &[meeting], Visits::All).await?;
    for change in ["vanished", "reopened"] {
        let name = format!("roundsman_presence_changes_total{{change=\"{change}\"}}");
        let counted = metric(&node, &name).await?;
        ensure!(counted == 1, "{counted} {change}");
    }
    site.end(vec![node]).await
}

/// Defect 4 of the reference: with the room, everybody in it is gone.
async fn a_room_that_is_gone_ends_its_meeting_after_a_grace(backend: Backend) -> Result<()> {
    let site = PresenceSite::new(backend).await?;
    let node = site.start(site.options()).await?;
    let meeting = site.meeting_of(ROOMS[0], &PEOPLE).await?;
    ensure!(site.daily.remove_room(ROOMS[0]), "there was no room");
    let shown = meeting.wait_active(false).await?;
    ensure!(shown["end_reason"] == "room_gone" && shown["num_clients"] == 0, "{shown}");
    let record = meeting.record().await?;
    let by_room = |by: Option<&str>| by == Some("room_gone");
    ensure!(record.sessions.values().all(|s| by_room(s.left_by.as_deref())), "{record:?}");
    // Nobody looks for it any more.
    site.wait_quiet().await?;
    site.end(vec![node]).await
}
