//! Random histories of a few rooms: few people, names and times, so that what is seen and heard often
//! meets what is known.

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

/// Places in the lists of the subject: whoever picks is always somebody.
pub(super) type Pick = u8;

#[derive(Debug, Clone)]
pub(super) enum Op {
    Advance { secs: u64 },
    Open { by: Pick, room: Pick, planned: bool },
    Look { meeting: Pick, look: Seen, heard: Vec<Heard>, lease: Lease },
    Judge { meeting: Pick, lease: Lease },
    End { by: Option<Pick>, meeting: Pick },
    Join { meeting: Pick, connection: Pick, secs: u64 },
    Arrive { meeting: Pick, connection: Pick },
    Keep { events: Vec<Event> },
    LookAtAll { secs_ago: u64 },
    Prune { older_than_secs: u64 },
    Note { meeting: Pick, number: Pick },
    Anonymise { meeting: Pick },
}

#[derive(Debug, Clone)]
pub(super) enum Seen {
    People(Vec<Person>),
    Gone,
    Failed,
}

#[derive(Debug, Clone)]
pub(super) struct Person {
    pub(super) session: Pick,
    pub(super) name: Option<Pick>,
    /// Seconds ago; the provider's clock may be ahead of ours.
    pub(super) joined_secs: i64,
}

#[derive(Debug, Clone)]
pub(super) struct Heard {
    pub(super) what: Pick,
    pub(super) session: Pick,
    pub(super) name: Option<Pick>,
    pub(super) joined_secs: Option<i64>,
    pub(super) left_secs: Option<i64>,
    pub(super) ago_secs: i64,
}

/// Under what something is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Lease {
    Fresh,
    /// Held, but the number of the look is not newer than the last.
    Stale,
    Lost,
}

#[derive(Debug, Clone)]
pub(super) struct Event {
    pub(super) name: Pick,
    pub(super) room: Option<Pick>,
    pub(super) outcome: Pick,
}

/// Single operations, and now and then some that follow each other: what takes patience would hardly
/// ever happen by chance.
pub(super) fn histories(phrases_max: usize) -> impl Strategy<Value = Vec<Op>> {
    let phrase = prop_oneof![
        20 => op().prop_map(|op| vec![op]),
        1 => any::<Pick>().prop_map(everybody_leaves),
        1 => any::<Pick>().prop_map(the_room_goes),
        1 => (any::<Pick>(), any::<Pick>(), any::<bool>())
            .prop_map(|(by, room, planned)| nobody_comes(by, room, planned)),
    ];
    vec(phrase, 1..=phrases_max).prop_map(|phrases| phrases.concat())
}

fn everybody_leaves(meeting: Pick) -> Vec<Op> {
    let judge = Op::Judge { meeting, lease: Lease::Fresh };
    let look = |people| look(meeting, Seen::People(people));
    let somebody = Person { session: 0, name: None, joined_secs: 0 };
    let (wait, grace) = (Op::Advance { secs: 16 }, Op::Advance { secs: 31 });
    vec![look(vec![somebody]), wait.clone(), look(vec![]), wait, look(vec![]), grace, judge]
}

fn the_room_goes(meeting: Pick) -> Vec<Op> {
    let look = || look(meeting, Seen::Gone);
    vec![look(), Op::Advance { secs: 61 }, look()]
}

fn nobody_comes(by: Pick, room: Pick, planned: bool) -> Vec<Op> {
    let judge = Op::Judge { meeting: 0, lease: Lease::Fresh };
    vec![Op::Open { by, room, planned }, Op::Advance { secs: 1801 }, judge]
}

fn look(meeting: Pick, look: Seen) -> Op {
    Op::Look { meeting, look, heard: vec![], lease: Lease::Fresh }
}

fn op() -> impl Strategy<Value = Op> {
    let secs = prop_oneof![Just(1u64), Just(16), Just(31), Just(61), Just(61), Just(1801)];
    let by = prop_oneof![1 => Just(None), 3 => any::<Pick>().prop_map(Some)];
    let lease =
        || prop_oneof![8 => Just(Lease::Fresh), 1 => Just(Lease::Stale), 1 => Just(Lease::Lost)];
    let wait = prop_oneof![Just(0u64), Just(10), Just(60)];
    prop_oneof![
        6 => secs.prop_map(|secs| Op::Advance { secs }),
        4 => (any::<Pick>(), any::<Pick>(), any::<bool>())
            .prop_map(|(by, room, planned)| Op::Open { by, room, planned }),
        12 => (any::<Pick>(), seen(), vec(heard(), 0..3), lease())
            .prop_map(|(meeting, look, heard, lease)| Op::Look { meeting, look, heard, lease }),
        4 => (any::<Pick>(), lease()).prop_map(|(meeting, lease)| Op::Judge { meeting, lease }),
        2 => (by, any::<Pick>()).prop_map(|(by, meeting)| Op::End { by, meeting }),
        1 => (any::<Pick>(), 0..2u8, wait)
            .prop_map(|(meeting, connection, secs)| Op::Join { meeting, connection, secs }),
        1 => (any::<Pick>(), 0..2u8)
            .prop_map(|(meeting, connection)| Op::Arrive { meeting, connection }),
        1 => vec(event(), 1..4).prop_map(|events| Op::Keep { events }),
        1 => (0..3u64).prop_map(|secs_ago| Op::LookAtAll { secs_ago }),
        1 => prop_oneof![Just(0u64), Just(60)]
            .prop_map(|older_than_secs| Op::Prune { older_than_secs }),
        1 => (any::<Pick>(), any::<Pick>())
            .prop_map(|(meeting, number)| Op::Note { meeting, number }),
        1 => any::<Pick>().prop_map(|meeting| Op::Anonymise { meeting }),
    ]
}

fn seen() -> impl Strategy<Value = Seen> {
    prop_oneof![
        8 => vec(person(), 0..4).prop_map(Seen::People),
        1 => Just(Seen::Gone),
        1 => Just(Seen::Failed),
    ]
}

fn person() -> impl Strategy<Value = Person> {
    let joined = proptest::sample::select(vec![-5i64, 0, 10, 30, 100]);
    (0..5u8, option::of(any::<Pick>()), joined).prop_map(|(session, name, joined_secs)| Person {
        session,
        name,
        joined_secs,
    })
}

fn heard() -> impl Strategy<Value = Heard> {
    let back = || option::of(proptest::sample::select(vec![-5i64, 0, 5, 20, 90, 700]));
    let heard = proptest::sample::select(vec![0i64, 2, 14, 15, 40]);
    (any::<Pick>(), 0..5u8, option::of(any::<Pick>()), back(), back(), heard).prop_map(
        |(what, session, name, joined_secs, left_secs, ago_secs)| Heard {
            what,
            session,
            name,
            joined_secs,
            left_secs,
            ago_secs,
        },
    )
}

fn event() -> impl Strategy<Value = Event> {
    (0..6u8, option::of(any::<Pick>()), any::<Pick>()).prop_map(|(name, room, outcome)| Event {
        name,
        room,
        outcome,
    })
}
