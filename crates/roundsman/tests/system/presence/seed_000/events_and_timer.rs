//! Scenarios 4 to 7.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use roundsman_testkit::daily::{Fault, FaultRule, Guest, Lags, Route, WebhookFaults};
use roundsman_testkit::eventually;
use serde_json::json;

use super::{HELD, OTHER_ROOM, POLL, ROOM};
use crate::presence::on_both;
use crate::presence::place::{
    DEBOUNCE, DEBOUNCE_MAX, LAG, NEVER, PresenceSite, RECONCILE, breathe,
};
use crate::presence::record::{Visits, wait_true};
use crate::site::{Backend, SOON, Stopwatch};

const JOINED: &str = "participant.joined";
/// What a debug build on two busy cores may add.
const SLACK: Duration = Duration::from_secs(4);

on_both! {
    scenario_4_a_webhook_triggers_a_look
    scenario_5_a_burst_of_joins_is_one_look
    scenario_6_a_lost_webhook_is_found_by_the_timer
    scenario_7_the_timer_compares_all_and_looks_only_where_it_differs
}

async fn scenario_4_a_webhook_triggers_a_look(backend: Backend) -> Result<()> {
    let site = PresenceSite::new(backend).await?;
    let options = site.options().env(DEBOUNCE, "1").env(DEBOUNCE_MAX, "3").env(LAG, "2");
    let node = site.start(options.env(RECONCILE, NEVER)).await?;
    let meeting = site.meeting_of(ROOM, &["user1", "user2", "user3"]).await?;
    site.subscribe().await?;

    // The webhook asks for a look, and writes nothing.
    let looks = site.looks();
    site.daily.add_fault(FaultRule::times(Route::RoomPresence, Fault::Slow(HELD), 1));
    let user4 = site.daily.join(ROOM, Guest::named("user4"));
    ensure!(site.wait_delivered(JOINED, 1).await? == Some(200), "not taken");
    ensure!(site.looks() == looks, "somebody looked at once");
    ensure!(meeting.record().await?.num_clients == 3, "something was written");

    // Whoever looks has the lock, and writes when it knows who is there.
    let lease = eventually(SOON, async || site.leases(POLL).await.ok()?.first().cloned());
    let lease = lease.await.context("nobody looks")?;
    ensure!(lease["name"] == format!("meeting_presence_poll:{}", meeting.id), "{lease}");
    ensure!(lease["ttl_secs"] == json!(120.0), "{lease}");
    eventually(SOON, async || (site.looks() == looks + 1).then_some(())).await?;
    ensure!(meeting.record().await?.num_clients == 3, "written before the answer came");
    meeting.wait_inside(&site.daily.present(ROOM)).await?;
    let session = meeting.session(&user4).await?;
    ensure!(session.user_name.as_deref() == Some("user4"), "{session:?}");

    // Once more after the provider's lag, and then never again.
    site.wait_quiet().await?;
    ensure!(site.looks() == looks + 2, "{} looks", site.looks() - looks);
    wait_true(&site, &[meeting], Visits::All).await?;
    site.end(vec![node]).await
}

async fn scenario_5_a_burst_of_joins_is_one_look(backend: Backend) -> Result<()> {
    let site = PresenceSite::new(backend).await?;
    let options = site.options().env(DEBOUNCE, "1").env(DEBOUNCE_MAX, "3").env(LAG, "3");
    let node = site.start(options.env(RECONCILE, NEVER)).await?;
    let meeting = site.meeting_of(ROOM, &["user1"]).await?;
    site.subscribe().await?;
    let looks = site.looks();
    site.daily.join(ROOM, Guest::named("user2"));
    breathe(Duration::from_millis(250)).await;
    site.daily.join(ROOM, Guest::named("user3"));
    breathe(Duration::from_millis(400)).await;
    site.daily.join(ROOM, Guest::named("user4"));
    ensure!(site.wait_delivered(JOINED, 3).await? == Some(200), "not taken");
    meeting.wait_inside(&site.daily.present(ROOM)).await?;
    ensure!(site.looks() == looks + 1, "3 webhooks, {} looks", site.looks() - looks);
    site.wait_quiet().await?;
    ensure!(site.looks() == looks + 2, "one after the lag: {}", site.looks() - looks);
    wait_true(&site, &[meeting], Visits::All).await?;
    site.end(vec![node]).await
}

/// With Daily's lag, within the timer's interval and the lag; who left, too.
async fn scenario_6_a_lost_webhook_is_found_by_the_timer(backend: Backend) -> Result<()> {
    let (reconcile, lag) = (Duration::from_secs(1), Duration::from_millis(600));
    let site = PresenceSite::new(backend).await?;
    let node = site.start(site.options().env(RECONCILE, "1")).await?;
    let meeting = site.meeting_of(ROOM, &["user1", "user2"]).await?;
    site.subscribe().await?;
    site.daily.set_lags(Lags { room: Duration::from_millis(300), domain: lag });
    site.daily.set_webhook_faults(WebhookFaults { lose_percent: 100, ..WebhookFaults::default() });
    let heard = site.daily.delivered().len();

    let watch = Stopwatch::start();
    let user3 = site.daily.join(ROOM, Guest::named("user3"));
    meeting.wait_inside(&site.daily.present(ROOM)).await?;
    ensure!(watch.elapsed() <= reconcile + lag + SLACK, "found after {:?}", watch.elapsed());

    let watch = Stopwatch::start();
    ensure!(site.daily.leave(ROOM, &user3), "they were not there");
    meeting.wait_inside(&site.daily.present(ROOM)).await?;
    ensure!(watch.elapsed() <= reconcile + lag + SLACK, "found after {:?}", watch.elapsed());
    let left = meeting.session(&user3).await?;
    ensure!(left.left_by.as_deref() == Some("poll"), "{left:?}");
    ensure!(site.daily.lost() == 2 && site.daily.delivered().len() == heard, "it was told");
    wait_true(&site, &[meeting], Visits::All).await?;
    site.end(vec![node]).await
}

/// The seed's timer polls every meeting, however recently it was polled. Ours asks about all rooms at
/// once as unconditionally, and polls those that differ; all of them if it gets no answer.
async fn scenario_7_the_timer_compares_all_and_looks_only_where_it_differs(
    backend: Backend,
) -> Result<()> {
    let site = PresenceSite::new(backend).await?;
    let node = site.start(site.options()).await?;
    let meeting = site.meeting_of(ROOM, &["user1"]).await?;
    let other = site.meeting_of(OTHER_ROOM, &["user9"]).await?;
    site.subscribe().await?;
    site.daily.join(ROOM, Guest::named("user2"));
    meeting.wait_inside(&site.daily.present(ROOM)).await?;
    site.wait_quiet().await?;

    let (looks, compared) = (site.looks(), site.daily.requests(Route::DomainPresence));
    let again = eventually(SOON, async || {
        (site.daily.requests(Route::DomainPresence) >= compared + 3).then_some(())
    });
    again.await.context("the timer does not come round")?;
    ensure!(site.looks() == looks, "nothing differed, and somebody looked");

    let rule = FaultRule::times(Route::DomainPresence, Fault::Status(500), 1);
    site.daily.add_fault(rule);
    let looked = eventually(SOON, async || (site.looks() >= looks + 2).then_some(()));
    looked.await.context("without an answer about all, each is looked at")?;
    site.wait_quiet().await?;
    ensure!(site.looks() == looks + 2, "each once: {}", site.looks() - looks);
    wait_true(&site, &[meeting, other], Visits::All).await?;
    site.end(vec![node]).await
}
