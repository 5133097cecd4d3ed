//! What kinds ask for beyond being run, at random: gates, schedules, links, batches, and changes by hand.

use std::collections::BTreeMap;
use std::time::Duration;

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use roundsman_core::Timestamp;
use roundsman_core::effects::Effects;
use roundsman_core::jobs::{
    Batch, BatchId, Gate, GateChange, GateLimits, GateName, HELD_UNTIL, Job, JobId, Json, KindName,
    Lane, LeaseOwner, Missed, NewBatch, OnFailure, Outcome, Rate, Rhythm, SCHEDULE_KIND, Schedule,
    ScheduleChange, ScheduleId, ScheduleSpec, ScheduledJob, Settle,
};
use roundsman_core::ports::{AfterAnswer, BatchAnswer, Fired, IdempotencyKey, Scope, StoreError};
use roundsman_core::users::UserId;
use roundsman_store::conformance::kind;

use super::ops::{Pick, Place, Wish, place, wish};
use super::subject::{Subject, kind_name, new_job, scope, user};

#[derive(Debug, Clone)]
pub(super) enum Order {
    Gate {
        place: Place,
        of_all: bool,
        limits: Option<Limits>,
        paused: Option<bool>,
    },
    After {
        wish: Wish,
        after: Vec<Pick>,
        on_failure: usize,
    },
    Batch {
        wishes: Vec<Wish>,
        callback: Option<Wish>,
        /// A name and a body.
        idempotency: Option<(u8, u8)>,
    },
    Schedule {
        every_secs: u32,
        missed: usize,
        wish: Wish,
    },
    ChangeSchedule {
        pick: Pick,
        paused: Option<bool>,
        every_secs: Option<u32>,
    },
    DeleteSchedule {
        pick: Pick,
    },
    /// What a keeper does, from its claim to its end.
    Fire,
    Reprioritise {
        by: Option<u8>,
        job: Pick,
        priority: i16,
    },
    Delete {
        by: Option<u8>,
        job: Pick,
    },
}

#[derive(Debug, Clone)]
pub(super) struct Limits {
    concurrency: Option<u32>,
    tenant_concurrency: Option<u32>,
    rate: Option<(u32, u32)>,
    tenant_rate: Option<(u32, u32)>,
    weight: u32,
}

pub(super) fn order() -> impl Strategy<Value = Order> {
    let secs = prop_oneof![Just(5u32), Just(60)];
    let by = prop_oneof![2 => Just(None), 1 => (0..2u8).prop_map(Some)];
    prop_oneof![
        4 => (place(), any::<bool>(), option::of(limits()), option::of(any::<bool>())).prop_map(
            |(place, of_all, limits, paused)| Order::Gate { place, of_all, limits, paused }
        ),
        3 => (wish(), vec(any::<Pick>(), 1..4), 0..3usize)
            .prop_map(|(wish, after, on_failure)| Order::After { wish, after, on_failure }),
        3 => (vec(wish(), 1..4), option::of(wish()), option::of((0..2u8, 0..2u8))).prop_map(
            |(wishes, callback, idempotency)| Order::Batch { wishes, callback, idempotency }
        ),
        1 => (secs.clone(), 0..3usize, wish())
            .prop_map(|(every_secs, missed, wish)| Order::Schedule { every_secs, missed, wish }),
        1 => (any::<Pick>(), option::of(any::<bool>()), option::of(secs)).prop_map(
            |(pick, paused, every_secs)| Order::ChangeSchedule { pick, paused, every_secs }
        ),
        1 => any::<Pick>().prop_map(|pick| Order::DeleteSchedule { pick }),
        2 => Just(Order::Fire),
        1 => (by.clone(), any::<Pick>(), -5..6i16)
            .prop_map(|(by, job, priority)| Order::Reprioritise { by, job, priority }),
        1 => (by, any::<Pick>()).prop_map(|(by, job)| Order::Delete { by, job }),
    ]
}

fn limits() -> impl Strategy<Value = Limits> {
    let rate = || option::of((1..4u32, prop_oneof![Just(1u32), Just(30)]));
    (option::of(1..4u32), option::of(1..3u32), rate(), rate(), 1..4u32).prop_map(
        |(concurrency, tenant_concurrency, rate, tenant_rate, weight)| Limits {
            concurrency,
            tenant_concurrency,
            rate,
            tenant_rate,
            weight,
        },
    )
}

impl From<Limits> for GateLimits {
    fn from(limits: Limits) -> Self {
        let rate = |(count, per_secs)| Rate { count, per_secs, burst: count.div_ceil(2) };
        let weights = if limits.weight > 1 {
            BTreeMap::from([("acme".to_owned(), limits.weight)])
        } else {
            BTreeMap::new()
        };
        GateLimits {
            concurrency: limits.concurrency,
            tenant_concurrency: limits.tenant_concurrency,
            rate: limits.rate.map(rate),
            tenant_rate: limits.tenant_rate.map(rate),
            weights,
        }
    }
}

/// What can be seen of all this, by places.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct VisibleOrders {
    gates: Vec<Gate>,
    schedules: Vec<Schedule>,
    batches: Vec<Option<Batch>>,
    waits_for: Vec<(JobId, Vec<JobId>)>,
    dead: Vec<(KindName, u64)>,
}

impl Subject {
    pub(super) async fn obey(
        &mut self,
        order: &Order,
        now: Timestamp,
    ) -> Result<String, StoreError> {
        match order {
            Order::Gate { place, of_all, limits, paused } => {
                let kind = kind(kind_name(*place));
                let name = if *of_all {
                    GateName::of_kind(&kind)
                } else {
                    GateName::of_lane(&Lane::of(user(place.user), &kind))
                };
                let limits = limits.clone().map(GateLimits::from);
                let change = GateChange { limits, paused: *paused };
                Ok(format!("{:?}", self.store.change_gate(name, change, now).await?))
            }
            Order::After { wish, after, on_failure } => {
                self.enqueue_after(wish, after, OnFailure::ALL[*on_failure], now).await
            }
            Order::Batch { wishes, callback, idempotency } => {
                self.create_batch(wishes, callback.as_ref(), *idempotency, now).await
            }
            Order::Schedule { every_secs, missed, wish } => {
                let spec = schedule(*every_secs, Missed::ALL[*missed], wish, now);
                let made = self.store.create_schedule(user(wish.place.user), spec, now).await?;
                self.schedules.extend(made.as_ref().map(|made| made.id));
                Ok(format!("{made:?}"))
            }
            Order::ChangeSchedule { pick, paused, every_secs } => {
                let id = self.schedule(*pick);
                let known = self.store.schedule(Scope::All, id).await?;
                let spec = known.zip(*every_secs).map(|(known, secs)| ScheduleSpec {
                    rhythm: Rhythm::Every { secs, from: now },
                    ..known.spec
                });
                let change = ScheduleChange { spec, paused: *paused };
                let changed = self.store.change_schedule(Scope::All, id, change, now).await?;
                Ok(format!("{changed:?}"))
            }
            Order::DeleteSchedule { pick } => {
                let deleted = self.store.delete_schedule(Scope::All, self.schedule(*pick)).await?;
                Ok(format!("{deleted}"))
            }
            Order::Fire => self.fire(now).await,
            Order::Reprioritise { by, job, priority } => {
                let id = self.id(*job);
                let answer = self.store.reprioritise(scope(*by), id, *priority, now).await?;
                Ok(format!("{answer:?}"))
            }
            Order::Delete { by, job } => {
                Ok(format!("{:?}", self.store.delete_job(scope(*by), self.id(*job)).await?))
            }
        }
    }

    async fn enqueue_after(
        &mut self,
        wish: &Wish,
        after: &[Pick],
        on_failure: OnFailure,
        now: Timestamp,
    ) -> Result<String, StoreError> {
        let ids = after.iter().map(|pick| self.id(*pick)).collect();
        let answer = self.store.enqueue_after(new_job(wish, now), ids, on_failure, now).await?;
        self.discover(now).await?;
        Ok(match answer {
            AfterAnswer::Stored(id) => format!("stored {}", self.places[&id]),
            AfterAnswer::KeyTaken { by } => format!("taken by {}", self.places[&by]),
            // Which of several is named makes no difference.
            AfterAnswer::NoSuchJob(_) => "no such job".to_owned(),
        })
    }

    async fn create_batch(
        &mut self,
        wishes: &[Wish],
        callback: Option<&Wish>,
        idempotency: Option<(u8, u8)>,
        now: Timestamp,
    ) -> Result<String, StoreError> {
        // All of one user, as whoever takes a request sees to it.
        let owner = wishes[0].place.user;
        let owned = |wish: &Wish| {
            let place = Place { user: owner, ..wish.place };
            new_job(&Wish { place, ..wish.clone() }, now)
        };
        let batch = NewBatch {
            user_id: user(owner),
            name: "b".to_owned(),
            jobs: wishes.iter().map(owned).collect(),
            callback: callback.map(owned),
        };
        let idempotency = idempotency.map(|(name, body)| IdempotencyKey {
            user_id: user(owner),
            route: "batches",
            key: name.to_string(),
            body_hash: [body; 32],
        });
        let answer = self.store.create_batch(batch, idempotency, now).await?;
        self.discover(now).await?;
        let (how, id, jobs) = match answer {
            BatchAnswer::Stored(id, jobs) => {
                self.batches.push(id);
                ("stored", id, jobs)
            }
            BatchAnswer::Replayed(id, jobs) => ("replayed", id, jobs),
            BatchAnswer::KeyReused => return Ok("reused".to_owned()),
        };
        let place = self.batches.iter().position(|known| *known == id);
        let jobs: Vec<_> = jobs.iter().map(|one| (self.places[&one.id], one.coalesced)).collect();
        Ok(format!("{how} {place:?} {jobs:?}"))
    }

    async fn fire(&mut self, now: Timestamp) -> Result<String, StoreError> {
        let lane = Lane::of(UserId::SYSTEM, &kind(SCHEDULE_KIND));
        let claimed = self.claim_lane(lane, 1, LeaseOwner::Outside, now).await?;
        let Some(keeper) = claimed.first() else { return Ok("no keeper".to_owned()) };
        let number = keeper.facts.key.as_ref().and_then(|key| key.as_str().parse().ok());
        let id = ScheduleId::new(number.expect("keepers have the numbers of schedules"));
        let fired = self.store.fire_schedule(id, keeper.lease_ref(), now).await?;
        let outcome = match &fired {
            Fired::Done { next_at: Some(at), .. } => Outcome::Again { at: *at, payload: None },
            _ => Outcome::Done { result: Json::null() },
        };
        let settle = Settle { lease: keeper.lease_ref(), outcome, effects: Effects::default() };
        let settled = self.store.settle(vec![settle], 0, now).await?;
        Ok(format!("{fired:?} {settled:?}"))
    }

    fn schedule(&self, pick: Pick) -> ScheduleId {
        let none = ScheduleId::new(i64::MAX);
        pick.checked_rem(self.schedules.len()).map_or(none, |place| self.schedules[place])
    }

    pub(super) async fn look_at_orders(&self, now: Timestamp) -> Result<VisibleOrders, StoreError> {
        let mut batches = Vec::new();
        for (place, id) in (1..).zip(&self.batches) {
            let batch = self.store.batch(Scope::All, *id, now).await?;
            batches.push(batch.map(|batch| Batch {
                id: BatchId::new(place),
                callback: batch.callback.map(|id| self.places[&id]),
                ..batch
            }));
        }
        let mut waits_for = Vec::new();
        for job in self.all_jobs(now).await? {
            let Job::Waiting(job) = job else { continue };
            if job.not_before != Some(HELD_UNTIL) {
                continue;
            }
            let others = self.store.waits_for(job.facts.id).await?;
            let others = others.iter().map(|id| self.places[id]).collect();
            waits_for.push((self.places[&job.facts.id], others));
        }
        Ok(VisibleOrders {
            gates: self.store.all_gates(None, 1000).await?,
            schedules: self.store.schedules(Scope::All, None, 1000).await?,
            batches,
            waits_for,
            dead: self.store.dead_counts().await?,
        })
    }
}

fn schedule(every_secs: u32, missed: Missed, wish: &Wish, now: Timestamp) -> ScheduleSpec {
    let job = new_job(wish, now);
    ScheduleSpec {
        name: "s".to_owned(),
        rhythm: Rhythm::Every { secs: every_secs, from: now - Duration::from_secs(1) },
        missed,
        job: ScheduledJob {
            kind: job.kind,
            key: job.key,
            payload: job.payload,
            priority: job.priority,
            max_attempts: job.max_attempts,
            tenant: job.tenant,
        },
    }
}
