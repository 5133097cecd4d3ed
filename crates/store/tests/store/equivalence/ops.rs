//! Random operations that mean the same on every store: what they refer to, they name by its place
//! in the order of appearance and not by its number.

use std::collections::BTreeMap;

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

use super::orders::{Order, order};

/// A job or lease among those that have appeared so far, counted round and round.
pub(super) type Pick = usize;

#[derive(Debug, Clone)]
pub(super) enum Op {
    Advance { secs: u64 },
    Enqueue { wishes: Vec<Wish>, idempotency: Option<(u8, u8)> },
    Claim { inside: bool, lanes: Vec<(Place, u32)>, total_max: u32, deadline: bool },
    Heartbeat { beats: Vec<(Pick, Option<u64>, bool)> },
    Settle { ends: Vec<(Pick, End, After)>, jitter: u64 },
    Sweep { after_outage: bool, jitter: u64 },
    Cancel { by: Option<u8>, job: Pick },
    Retry { by: Option<u8>, job: Pick },
    Commit { guard: Option<Pick>, after: After },
    Prune { older_than_secs: u64 },
    Order(Order),
}

/// Which user's jobs of which kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    pub(super) user: u8,
    pub(super) kind: u8,
}

#[derive(Debug, Clone)]
pub(super) struct Wish {
    pub(super) place: Place,
    pub(super) key: Option<u8>,
    pub(super) payload: u8,
    pub(super) priority: i16,
    pub(super) delay_secs: i64,
    pub(super) max_attempts: Option<u32>,
    pub(super) tenant: Option<u8>,
}

#[derive(Debug, Clone)]
pub(super) enum End {
    Done,
    Again { delay_secs: i64, payload: bool },
    Retry { after_secs: Option<u64> },
    Fail,
    Cancelled,
    Release,
}

/// What is to be written together with something else.
#[derive(Debug, Clone, Default)]
pub(super) struct After {
    pub(super) job: Option<Wish>,
    pub(super) frames: u8,
    pub(super) webhook: bool,
}

/// Half of them without anything that kinds have to ask for: those take other ways. Says which.
pub(super) fn sequences(ops_max: usize) -> impl Strategy<Value = (bool, Vec<Op>)> {
    let with_orders = prop_oneof![3 => op(), 1 => order().prop_map(Op::Order)];
    prop_oneof![
        vec(op().prop_map(plain), 1..=ops_max).prop_map(|ops| (false, ops)),
        vec(with_orders, 1..=ops_max).prop_map(|ops| (true, ops)),
    ]
}

/// The same without tenants.
fn plain(mut op: Op) -> Op {
    let without = |wish: &mut Wish| wish.tenant = None;
    match &mut op {
        Op::Enqueue { wishes, .. } => wishes.iter_mut().for_each(without),
        Op::Settle { ends, .. } => {
            ends.iter_mut().filter_map(|(_, _, after)| after.job.as_mut()).for_each(without);
        }
        Op::Commit { after, .. } => after.job.iter_mut().for_each(without),
        _ => {}
    }
    op
}

fn op() -> impl Strategy<Value = Op> {
    let idempotency = prop_oneof![4 => Just(None), 1 => (0..3u8, 0..2u8).prop_map(Some)];
    let seconds = prop_oneof![Just(1u64), Just(7), Just(31), Just(61), Just(301)];
    let by = prop_oneof![2 => Just(None), 1 => (0..2u8).prop_map(Some)];
    let ttl = option::of(prop_oneof![Just(5u64), Just(600)]);
    let lanes = vec((place().prop_map(lane_of), 0..4u32), 0..5)
        .prop_map(|lanes| lanes.into_iter().collect::<BTreeMap<_, _>>().into_iter().collect());
    prop_oneof![
        3 => seconds.prop_map(|secs| Op::Advance { secs }),
        6 => (vec(wish(), 1..5), idempotency)
            .prop_map(|(wishes, idempotency)| Op::Enqueue { wishes, idempotency }),
        6 => (any::<bool>(), lanes, 0..8u32, any::<bool>()).prop_map(
            |(inside, lanes, total_max, deadline)| Op::Claim { inside, lanes, total_max, deadline }
        ),
        2 => vec((any::<Pick>(), ttl, any::<bool>()), 1..4).prop_map(|beats| Op::Heartbeat { beats }),
        6 => (vec((any::<Pick>(), end(), after()), 1..4), any::<u64>())
            .prop_map(|(ends, jitter)| Op::Settle { ends, jitter }),
        2 => (any::<bool>(), any::<u64>())
            .prop_map(|(after_outage, jitter)| Op::Sweep { after_outage, jitter }),
        1 => (by.clone(), any::<Pick>()).prop_map(|(by, job)| Op::Cancel { by, job }),
        2 => (by, any::<Pick>()).prop_map(|(by, job)| Op::Retry { by, job }),
        1 => (option::of(any::<Pick>()), after())
            .prop_map(|(guard, after)| Op::Commit { guard, after }),
        1 => prop_oneof![Just(30u64), Just(300)]
            .prop_map(|older_than_secs| Op::Prune { older_than_secs }),
    ]
}

pub(super) fn place() -> impl Strategy<Value = Place> {
    (0..2u8, 0..3u8).prop_map(|(user, kind)| Place { user, kind })
}

/// Users share the lane of the built-in kind, and each lane may be demanded once.
fn lane_of(place: Place) -> Place {
    if place.kind == 2 { Place { user: 0, ..place } } else { place }
}

pub(super) fn wish() -> impl Strategy<Value = Wish> {
    let delay = prop_oneof![4 => Just(0i64), 1 => Just(-90), 1 => Just(5), 1 => Just(60)];
    let attempts = prop_oneof![Just(None), Just(Some(1u32)), Just(Some(3))];
    let key = prop_oneof![1 => Just(None), 4 => (0..2u8).prop_map(Some)];
    let tenant = prop_oneof![2 => Just(None), 1 => (0..2u8).prop_map(Some)];
    (place(), key, any::<u8>(), -2..3i16, delay, attempts, tenant).prop_map(
        |(place, key, payload, priority, delay_secs, max_attempts, tenant)| Wish {
            place,
            key,
            payload,
            priority,
            delay_secs,
            max_attempts,
            tenant,
        },
    )
}

fn end() -> impl Strategy<Value = End> {
    let delay = prop_oneof![Just(-1i64), Just(0), Just(10)];
    let wait = option::of(prop_oneof![Just(0u64), Just(10)]);
    prop_oneof![
        2 => Just(End::Done),
        2 => (delay, any::<bool>()).prop_map(|(delay_secs, payload)| End::Again { delay_secs, payload }),
        3 => wait.prop_map(|after_secs| End::Retry { after_secs }),
        1 => Just(End::Fail),
        1 => Just(End::Cancelled),
        1 => Just(End::Release),
    ]
}

fn after() -> impl Strategy<Value = After> {
    let something = (option::of(wish()), 0..3u8, any::<bool>())
        .prop_map(|(job, frames, webhook)| After { job, frames, webhook });
    prop_oneof![2 => Just(After::default()), 1 => something]
}
