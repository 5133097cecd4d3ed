//! The master diagram: events trigger, one look writes, the timer is the backup.

use anyhow::{Result, ensure};
use roundsman_testkit::daily::{Guest, WebhookFaults};

use super::ROOM;
use crate::presence::on_both;
use crate::presence::place::{EMPTY_GRACE, PresenceSite, metric};
use crate::presence::record::{Visits, check_counts, wait_true};
use crate::site::Backend;

on_both! { master_diagram_events_trigger_one_look_writes_and_the_timer_backs_up }

async fn master_diagram_events_trigger_one_look_writes_and_the_timer_backs_up(
    backend: Backend,
) -> Result<()> {
    let mut site = PresenceSite::new(backend).await?;
    let (nodes, _door) = site.start_all(|options| options.env(EMPTY_GRACE, "1")).await?;
    let meeting = site.meeting_of(ROOM, &["ada", "bob"]).await?;
    site.subscribe().await?;
    let books = site.books().await?;
    let [ada, bob] = &site.daily.present(ROOM)[..] else { anyhow::bail!("two are there") };

    // Somebody joins, somebody leaves: one event each, and what they tell is in one look.
    site.daily.join(ROOM, Guest::named("eve"));
    ensure!(site.daily.leave(ROOM, bob), "they were not there");
    meeting.wait_inside(&site.daily.present(ROOM)).await?;
    check_counts(&books).await?;
    ensure!(meeting.session(bob).await?.left_by.as_deref() == Some("event"), "it was told");

    // The backup, for what no event tells.
    site.daily.set_webhook_faults(WebhookFaults { lose_percent: 100, ..WebhookFaults::default() });
    site.daily.join(ROOM, Guest::named("joe"));
    ensure!(site.daily.leave(ROOM, ada), "they were not there");
    meeting.wait_inside(&site.daily.present(ROOM)).await?;
    check_counts(&books).await?;
    ensure!(meeting.session(ada).await?.left_by.as_deref() == Some("poll"), "nobody told");
    site.daily.set_webhook_faults(WebhookFaults::default());

    // Everybody leaves: the meeting is over, once, and opens again when people are seen.
    for session in site.daily.present(ROOM) {
        ensure!(site.daily.leave(ROOM, &session), "they were not there");
    }
    let shown = meeting.wait_active(false).await?;
    ensure!(shown["end_reason"] == "everyone_left" && shown["num_clients"] == 0, "{shown}");
    let mut ends = 0;
    for node in &nodes {
        ends += metric(node, "roundsman_presence_ended_total{reason=\"everyone_left\"}").await?;
    }
    ensure!(ends == 1, "it ended {ends} times");
    site.daily.join(ROOM, Guest::named("ada"));
    let shown = meeting.wait_active(true).await?;
    ensure!(shown["num_clients"] == 1, "{shown}");
    wait_true(&site, &[meeting], Visits::All).await?;
    check_counts(&books).await?;
    site.end(nodes).await
}
