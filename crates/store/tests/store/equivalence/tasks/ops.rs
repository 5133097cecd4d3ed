//! Random histories of a few tasks and alarms: few projects, names and times, so that what is done
//! often meets what is known.

use proptest::collection::vec;
use proptest::prelude::*;

/// Places in the lists of the subject: whoever picks is always somebody.
pub(super) type Pick = u8;

#[derive(Debug, Clone)]
pub(super) enum Op {
    Advance {
        secs: u64,
    },
    Create {
        project: Pick,
        service: Pick,
        count: u8,
    },
    Step {
        task: Pick,
        event: Event,
        version: Version,
        lease: Lease,
        told: bool,
        slots: bool,
    },
    Hint {
        task: Pick,
    },
    /// The round of a room, or a user's alarm, is due and ends: again, or for good.
    Fire {
        kind: Pick,
        again: bool,
    },
    /// Somebody takes a room's round away.
    Lose {
        project: Pick,
    },
    Rearm {
        rows_max: u32,
    },
    Tell {
        with_update: bool,
    },
    Prune {
        age_secs: u64,
        rows_max: u32,
    },
    SetAlarm {
        project: Pick,
        name: Pick,
        secs: u64,
        replace: bool,
    },
    CancelAlarm {
        project: Pick,
        name: Pick,
    },
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Event {
    Sending,
    NotSent,
    Accepted,
    Unfinished,
    PollFailed,
    TooEarly,
    Ready,
    Produced,
    Failed,
    Overdue,
    Cancelled,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Version {
    Any,
    Current,
    Old,
}

/// Under what something is written.
#[derive(Debug, Clone, Copy)]
pub(super) enum Lease {
    None,
    Held,
    Lost,
}

pub(super) fn histories(ops_max: usize) -> impl Strategy<Value = Vec<Op>> {
    vec(op(), 1..=ops_max)
}

fn op() -> impl Strategy<Value = Op> {
    let pick = any::<Pick>;
    prop_oneof![
        3 => prop_oneof![1..15u64, Just(7300u64)].prop_map(|secs| Op::Advance { secs }),
        3 => (pick(), pick(), 1..4u8)
            .prop_map(|(project, service, count)| Op::Create { project, service, count }),
        10 => step(),
        2 => pick().prop_map(|task| Op::Hint { task }),
        2 => (pick(), any::<bool>()).prop_map(|(kind, again)| Op::Fire { kind, again }),
        1 => pick().prop_map(|project| Op::Lose { project }),
        1 => (1..5u32).prop_map(|rows_max| Op::Rearm { rows_max }),
        1 => any::<bool>().prop_map(|with_update| Op::Tell { with_update }),
        1 => (prop_oneof![Just(0u64), Just(20)], 1..4u32)
            .prop_map(|(age_secs, rows_max)| Op::Prune { age_secs, rows_max }),
        3 => (pick(), pick(), 0..100u64, any::<bool>())
            .prop_map(|(project, name, secs, replace)| Op::SetAlarm { project, name, secs, replace }),
        1 => (pick(), pick()).prop_map(|(project, name)| Op::CancelAlarm { project, name }),
    ]
}

fn step() -> impl Strategy<Value = Op> {
    let event = prop_oneof![
        6 => Just(Event::Sending),
        1 => Just(Event::NotSent),
        6 => Just(Event::Accepted),
        3 => Just(Event::Unfinished),
        3 => Just(Event::PollFailed),
        1 => Just(Event::TooEarly),
        2 => Just(Event::Ready),
        2 => Just(Event::Produced),
        1 => Just(Event::Failed),
        1 => Just(Event::Overdue),
        1 => Just(Event::Cancelled),
    ];
    let version =
        prop_oneof![2 => Just(Version::Any), 4 => Just(Version::Current), 1 => Just(Version::Old)];
    let lease = prop_oneof![4 => Just(Lease::None), 2 => Just(Lease::Held), 1 => Just(Lease::Lost)];
    (any::<Pick>(), event, version, lease, any::<bool>(), any::<bool>()).prop_map(
        |(task, event, version, lease, told, slots)| Op::Step {
            task,
            event,
            version,
            lease,
            told,
            slots,
        },
    )
}
