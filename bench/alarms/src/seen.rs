//! Which alarms have fired, and when, as the database has it.

use std::time::Duration;

use anyhow::Context;
use bench_support::pause;
use bench_support::place::Place;
use roundsman_core::Timestamp;
use serde_json::Value;

const LOOK_EVERY: Duration = Duration::from_millis(500);

/// Every firing: when it was to be, and when it was committed.
pub(crate) struct Firings {
    pairs: Vec<(Timestamp, Timestamp)>,
}

impl Firings {
    /// Waits until so many have fired.
    pub(crate) async fn wait(
        place: &Place,
        alarms: usize,
        patience: Duration,
    ) -> anyhow::Result<Firings> {
        let rounds = patience.as_millis() / LOOK_EVERY.as_millis();
        for _ in 0..rounds {
            pause(LOOK_EVERY).await;
            if count(place).await? >= alarms {
                let pairs = read(place).await?;
                anyhow::ensure!(pairs.len() == alarms, "{} of {alarms} fired", pairs.len());
                return Ok(Firings { pairs });
            }
        }
        anyhow::bail!("{} of {alarms} alarms have fired in {patience:?}", count(place).await?)
    }

    /// How late each was, in milliseconds.
    #[expect(clippy::cast_precision_loss, reason = "a figure needs no more than 52 bits")]
    pub(crate) fn late_ms(&self) -> anyhow::Result<Vec<f64>> {
        let mut late = Vec::with_capacity(self.pairs.len());
        for (due, fired) in &self.pairs {
            let micros = fired.as_micros() - due.as_micros();
            anyhow::ensure!(micros >= 0, "an alarm fired {micros} µs early");
            late.push(micros as f64 / 1e3);
        }
        Ok(late)
    }

    pub(crate) fn per_second(&self) -> f64 {
        let first = self.pairs.iter().map(|(_, fired)| *fired).min();
        let last = self.pairs.iter().map(|(_, fired)| *fired).max();
        let time = last.zip(first).map_or(Duration::ZERO, |(last, first)| last.since(first));
        bench_support::per_second(self.pairs.len(), time)
    }
}

const COUNT: &str = "SELECT count(*) FROM webhook_events WHERE event_type = 'alarm.fired'";

async fn count(place: &Place) -> anyhow::Result<usize> {
    let count: i64 = match place.postgres().await? {
        Some(client) => {
            let statement = COUNT.replace("webhook_events", "roundsman.webhook_events");
            client.query_one(&statement, &[]).await?.get(0)
        }
        None => place.sqlite()?.query_row(COUNT, [], |row| row.get(0))?,
    };
    Ok(usize::try_from(count)?)
}

async fn read(place: &Place) -> anyhow::Result<Vec<(Timestamp, Timestamp)>> {
    let rows: Vec<(String, i64)> = if let Some(client) = place.postgres().await? {
        let statement = "SELECT body, (extract(epoch FROM created_at) * 1000000)::bigint \
             FROM roundsman.webhook_events WHERE event_type = 'alarm.fired'";
        let rows = client.query(statement, &[]).await?;
        rows.iter().map(|row| (row.get(0), row.get(1))).collect()
    } else {
        let conn = place.sqlite()?;
        let statement =
            "SELECT body, created_at FROM webhook_events WHERE event_type = 'alarm.fired'";
        let mut statement = conn.prepare(statement)?;
        let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
        rows.collect::<rusqlite::Result<_>>()?
    };
    rows.into_iter().map(|(body, created)| pair(&body, created)).collect()
}

fn pair(body: &str, created: i64) -> anyhow::Result<(Timestamp, Timestamp)> {
    let body: Value = serde_json::from_str(body)?;
    let due = body["alarm"]["due_at"].as_str().context("no time in the event")?;
    Ok((Timestamp::parse_rfc3339(due)?, Timestamp::from_micros(created)))
}
