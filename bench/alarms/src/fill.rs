//! Alarms in a database that no server has yet.

use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use bench_support::per_second;
use bench_support::place::Place;
use roundsman_core::alarms::{AlarmName, AlarmWish, SetMode, alarm_wish};
use roundsman_core::jobs::{Json, KindCatalog, KindName, KindSpec, NewJob};
use roundsman_core::ports::{Clock, EnqueueRequest, JobStore, Store};
use roundsman_core::rooms::ProjectId;
use roundsman_core::users::{NewUser, UserId};
use roundsman_engine::alarms::alarm_spec;
use roundsman_engine::clock::DatabaseClock;
use roundsman_store::postgres::{PostgresOptions, PostgresStore};
use roundsman_store::sqlite::{SqliteOptions, SqliteStore};

const BATCH: usize = 5_000;

pub(crate) struct Filler {
    store: Arc<dyn Store>,
    clock: DatabaseClock,
    owner: UserId,
}

impl Filler {
    pub(crate) async fn open(place: &Place) -> anyhow::Result<Filler> {
        let defaults = KindSpec::new(KindName::new("default")?);
        let catalog = Arc::new(KindCatalog::new(defaults).with(alarm_spec()));
        let url = place.variables().into_iter().find(|(name, _)| *name == "ROUNDSMAN_DATABASE_URL");
        let store: Arc<dyn Store> = if let Some((_, url)) = url {
            let config = tokio_postgres::Config::from_str(&url)?;
            Arc::new(PostgresStore::connect(PostgresOptions::new(config), catalog).await?)
        } else {
            let options = SqliteOptions::new(place.data().join("roundsman.db"));
            Arc::new(SqliteStore::open(&options, catalog)?)
        };
        let clock = DatabaseClock::start();
        clock.sync(store.as_ref()).await?;
        let person = NewUser {
            email: "bench@example.org".to_owned(),
            name: None,
            image_url: None,
            max_concurrent_bots: 1,
        };
        let (user, _) = store.find_or_create_user(person, clock.now()).await?;
        Ok(Filler { store, clock, owner: user.id })
    }

    /// Sets an alarm in each of so many rooms: the first after a time, the others spread over another.
    /// Returns how many were set each second.
    pub(crate) async fn set(
        &self,
        rooms: usize,
        after: Duration,
        spread: Duration,
    ) -> anyhow::Result<f64> {
        let first = self.clock.now() + after;
        let began = self.clock.monotonic();
        let step = spread / u32::try_from(rooms.max(1))?;
        let wish = |room: usize| -> anyhow::Result<NewJob> {
            Ok(alarm_wish(&AlarmWish {
                project: ProjectId::new(&format!("room-{room}"))?,
                owner: self.owner,
                name: AlarmName::new("wake")?,
                at: first + step * u32::try_from(room)?,
                payload: Json::null(),
                mode: SetMode::Earliest,
            }))
        };
        let all: Vec<usize> = (0..rooms).collect();
        for some in all.chunks(BATCH) {
            let jobs = some.iter().map(|room| wish(*room)).collect::<anyhow::Result<_>>()?;
            let request = EnqueueRequest { jobs, idempotency: None };
            JobStore::enqueue(self.store.as_ref(), request, self.clock.now())
                .await
                .context("cannot set alarms")?;
        }
        Ok(per_second(rooms, self.clock.monotonic().saturating_sub(began)))
    }

    pub(crate) async fn close(self) {
        self.store.close().await;
    }
}
