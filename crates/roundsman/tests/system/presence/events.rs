//! and R1: whatever becomes of events on their way, who is there is known; and whoever was
//! there, if anybody was told.

use std::time::Duration;

use anyhow::{Result, ensure};
use roundsman_testkit::daily::{Guest, Lags, WebhookFaults};
use tokio_util::sync::CancellationToken;

use super::churn::Churn;
use super::on_both;
use super::place::PresenceSite;
use super::record::{Visits, check_counts, wait_true};
use crate::site::Backend;

const ROOMS: [&str; 2] = ["churn-1", "churn-2"];
const STEPS: usize = 60;

on_both! {
    events_that_are_late_doubled_and_out_of_order_tell_the_same
    without_any_event_everybody_is_found
    short_visits_and_rejoins_are_kept
}

async fn events_that_are_late_doubled_and_out_of_order_tell_the_same(
    backend: Backend,
) -> Result<()> {
    let faults = WebhookFaults {
        double_percent: 30,
        delay_max: Duration::from_millis(500),
        is_reordered: true,
        ..WebhookFaults::default()
    };
    under_churn(backend, faults, Visits::All).await
}

async fn without_any_event_everybody_is_found(backend: Backend) -> Result<()> {
    let faults = WebhookFaults { lose_percent: 100, ..WebhookFaults::default() };
    under_churn(backend, faults, Visits::Seen).await
}

/// With answers that are late, too.
async fn under_churn(backend: Backend, faults: WebhookFaults, visits: Visits) -> Result<()> {
    let site = PresenceSite::new(backend).await?;
    let node = site.start(site.options()).await?;
    let mut meetings = Vec::new();
    for room in ROOMS {
        meetings.push(site.meeting_of(room, &["first"]).await?);
    }
    site.subscribe().await?;
    let (room, domain) = (Duration::from_millis(200), Duration::from_millis(500));
    site.daily.set_lags(Lags { room, domain });
    site.daily.set_webhook_faults(faults);
    let churn = Churn::new(&site.daily, &ROOMS, 3);
    let stop = CancellationToken::new();
    let books = site.books().await?;
    let watching = async {
        let mut checked = Ok(());
        for _ in 0..4 {
            checked = checked.and(churn.wait_for_more(STEPS / 4).await);
            checked = checked.and(check_counts(&books).await);
        }
        stop.cancel();
        checked
    };
    let ((), checked) = tokio::join!(churn.run(&stop), watching);
    checked?;
    wait_true(&site, &meetings, visits).await?;
    site.end(vec![node]).await
}

/// Defect 7 of the reference, and R-11: somebody who comes and goes between two looks, who comes back
/// at once, who has no name, and who is there with two devices.
async fn short_visits_and_rejoins_are_kept(backend: Backend) -> Result<()> {
    let site = PresenceSite::new(backend).await?;
    let node = site.start(site.options()).await?;
    let meeting = site.meeting_of(ROOMS[0], &["host"]).await?;
    site.subscribe().await?;
    let room = meeting.room.as_str();
    let short = site.daily.join(room, Guest::named("short"));
    ensure!(site.daily.leave(room, &short), "they were not there");
    let first = site.daily.join(room, Guest::named("ada"));
    ensure!(site.daily.leave(room, &first), "they were not there");
    let again = site.daily.join(room, Guest::named("ada"));
    let device = site.daily.join(room, Guest { user_name: None, ..Guest::named("ada") });
    let nameless = site.daily.join(room, Guest::default());
    wait_true(&site, std::slice::from_ref(&meeting), Visits::All).await?;
    let record = meeting.record().await?;
    ensure!(record.sessions.len() == 6 && record.num_clients == 4, "{record:?}");
    let short = &record.sessions[&short];
    ensure!(short.left_by.as_deref() == Some("event"), "{short:?}");
    let ids = [&first, &again, &device].map(|id| record.sessions[id].user_id.clone());
    ensure!(ids.iter().all(|id| id.as_deref() == Some("user-ada")), "{ids:?}");
    ensure!(record.sessions[&nameless].user_name.is_none(), "{record:?}");
    site.end(vec![node]).await
}
