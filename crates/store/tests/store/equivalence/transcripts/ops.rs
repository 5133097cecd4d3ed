//! Random histories of a few meetings: few sessions, times, texts and names, so that what is told
//! often meets what is known.

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

/// Places in the lists of the subject: whoever picks is always somebody.
pub(super) type Pick = u8;

#[derive(Debug, Clone)]
pub(super) enum Op {
    Advance {
        secs: u64,
    },
    Take {
        messages: Vec<Message>,
    },
    Hear {
        events: Vec<Event>,
    },
    Settle {
        room: Pick,
        stable_secs: Option<u64>,
        rows_max: u32,
    },
    Rename {
        by: Pick,
        room: Pick,
        from: Pick,
        to: Pick,
    },
    Delete {
        by: Pick,
        room: Pick,
    },
    /// So many frames before the last of them, which is so far back.
    Publish {
        room: Pick,
        back: i64,
        more: i64,
    },
    Search {
        by: Pick,
        query: Pick,
    },
    Prune {
        older_than_secs: u64,
    },
}

#[derive(Debug, Clone)]
pub(super) struct Message {
    pub(super) room: Pick,
    /// Somebody else's token.
    pub(super) foreign: bool,
    pub(super) version: i64,
    /// Seconds before the first session could have started.
    pub(super) hint_secs: Option<u64>,
    pub(super) body: Body,
}

#[derive(Debug, Clone)]
pub(super) enum Body {
    Says { session: Pick, segments: Vec<Segment> },
    Starts { session: Pick, secs: u64, token: u64 },
    Ends { session: Pick },
}

#[derive(Debug, Clone)]
pub(super) struct Segment {
    pub(super) start_ms: i64,
    pub(super) length_ms: i64,
    pub(super) text: Pick,
    pub(super) speaker: Option<Pick>,
    pub(super) id: Option<Pick>,
    pub(super) german: bool,
    pub(super) completed: Option<bool>,
}

#[derive(Debug, Clone)]
pub(super) struct Event {
    pub(super) room: Option<Pick>,
    pub(super) session: Pick,
    pub(super) starts: bool,
    pub(super) name: Pick,
    pub(super) at_ms: i64,
}

pub(super) fn histories(ops_max: usize) -> impl Strategy<Value = Vec<Op>> {
    vec(op(), 1..=ops_max)
}

fn op() -> impl Strategy<Value = Op> {
    let secs = prop_oneof![Just(1u64), Just(20), Just(31)];
    let stable = prop_oneof![Just(None), Just(Some(0u64)), Just(Some(15))];
    prop_oneof![
        3 => secs.prop_map(|secs| Op::Advance { secs }),
        12 => vec(message(), 1..5).prop_map(|messages| Op::Take { messages }),
        2 => vec(event(), 1..5).prop_map(|events| Op::Hear { events }),
        5 => (any::<Pick>(), stable, prop_oneof![Just(2u32), Just(100)])
            .prop_map(|(room, stable_secs, rows_max)| Op::Settle { room, stable_secs, rows_max }),
        2 => (any::<Pick>(), any::<Pick>(), any::<Pick>(), any::<Pick>())
            .prop_map(|(by, room, from, to)| Op::Rename { by, room, from, to }),
        1 => (any::<Pick>(), any::<Pick>()).prop_map(|(by, room)| Op::Delete { by, room }),
        3 => (any::<Pick>(), 0..6i64, 0..4i64)
            .prop_map(|(room, back, more)| Op::Publish { room, back, more }),
        2 => (any::<Pick>(), any::<Pick>()).prop_map(|(by, query)| Op::Search { by, query }),
        1 => prop_oneof![Just(0u64), Just(25)]
            .prop_map(|older_than_secs| Op::Prune { older_than_secs }),
    ]
}

fn message() -> impl Strategy<Value = Message> {
    let foreign = prop_oneof![15 => Just(false), 1 => Just(true)];
    let hint = prop_oneof![4 => Just(None), 1 => (0..3u64).prop_map(Some)];
    (any::<Pick>(), foreign, 0..6i64, hint, body()).prop_map(
        |(room, foreign, version, hint_secs, body)| Message {
            room,
            foreign,
            version,
            hint_secs,
            body,
        },
    )
}

fn body() -> impl Strategy<Value = Body> {
    prop_oneof![
        8 => (any::<Pick>(), vec(segment(), 1..5))
            .prop_map(|(session, segments)| Body::Says { session, segments }),
        2 => (any::<Pick>(), 0..3u64, 0..3u64)
            .prop_map(|(session, secs, token)| Body::Starts { session, secs, token }),
        1 => any::<Pick>().prop_map(|session| Body::Ends { session }),
    ]
}

/// No start is as far from one of the others as from another: which of two is meant is a rule of
/// its own.
fn segment() -> impl Strategy<Value = Segment> {
    let start = proptest::sample::select(vec![0i64, 15, 45, 1000, 1020, 2000, 2047, 3000]);
    let length = proptest::sample::select(vec![40i64, 400, 900, 2500]);
    let speaker = prop_oneof![3 => Just(None), 1 => any::<Pick>().prop_map(Some)];
    let id = prop_oneof![4 => Just(None), 1 => (0..2u8).prop_map(Some)];
    let completed = option::of(any::<bool>());
    (start, length, any::<Pick>(), speaker, id, any::<bool>(), completed).prop_map(
        |(start_ms, length_ms, text, speaker, id, german, completed)| Segment {
            start_ms,
            length_ms,
            text,
            speaker,
            id,
            german,
            completed,
        },
    )
}

fn event() -> impl Strategy<Value = Event> {
    let room = option::of(any::<Pick>());
    (room, any::<Pick>(), any::<bool>(), any::<Pick>(), 0..40i64).prop_map(
        |(room, session, starts, name, tenths)| Event {
            room,
            session,
            starts,
            name,
            at_ms: tenths * 100,
        },
    )
}
