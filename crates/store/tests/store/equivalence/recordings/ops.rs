//! Random histories of a few recordings: few rooms, names and times, so that what is done often meets
//! what is known.

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
    Open {
        by: Pick,
        room: Pick,
    },
    /// Somebody comes: the meeting begins.
    Enter {
        meeting: Pick,
    },
    End {
        meeting: Pick,
    },
    Announce {
        told: Vec<Told>,
    },
    Begin {
        recording: Pick,
        lease: Lease,
    },
    Keep {
        recording: Pick,
        tracks: Vec<Pick>,
        lease: Lease,
    },
    Finish {
        recording: Pick,
        spoken: Vec<Spoken>,
        lease: Lease,
    },
    Fail {
        recording: Pick,
        lease: Lease,
    },
    Erased {
        recording: Pick,
        is_done: bool,
        lease: Lease,
    },
    Retry {
        by: Option<Pick>,
        recording: Option<Pick>,
        rows_max: u32,
    },
    /// A word that was said so many seconds ago.
    Consent {
        by: Option<Pick>,
        meeting: Pick,
        person: Pick,
        given: bool,
        ago_secs: u64,
    },
    ReadUpTo {
        recording: Pick,
    },
    /// Something is told while the meeting goes on.
    Say {
        meeting: Pick,
        spoken: Spoken,
    },
    Rename {
        meeting: Pick,
        from: Pick,
        to: Pick,
    },
    Delete {
        meeting: Pick,
    },
    Anonymise {
        meeting: Pick,
    },
}

#[derive(Debug, Clone)]
pub(super) struct Told {
    pub(super) recording: Pick,
    pub(super) room: Pick,
    pub(super) kind: Pick,
    pub(super) started_secs_ago: i64,
    pub(super) tracks: u8,
    pub(super) by_poll: bool,
}

#[derive(Debug, Clone)]
pub(super) struct Spoken {
    pub(super) start_ms: i64,
    pub(super) length_ms: i64,
    pub(super) text: Pick,
    pub(super) speaker: Option<Pick>,
    pub(super) language: Option<Pick>,
}

/// Under what something is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Lease {
    Held,
    Lost,
}

/// Single operations, and now and then some that follow each other: what takes several steps would
/// seldom happen by chance.
pub(super) fn histories(phrases_max: usize) -> impl Strategy<Value = Vec<Op>> {
    let phrase = prop_oneof![
        12 => op().prop_map(|op| vec![op]),
        2 => (any::<Pick>(), told(), vec(spoken(), 0..4))
            .prop_map(|(by, told, spoken)| it_is_heard(by, told, spoken)),
        1 => (any::<Pick>(), told()).prop_map(|(by, told)| it_fails(by, told)),
        1 => any::<Pick>().prop_map(it_is_forgotten),
    ];
    vec(phrase, 1..=phrases_max).prop_map(|phrases| phrases.concat())
}

fn it_is_heard(by: Pick, told: Told, spoken: Vec<Spoken>) -> Vec<Op> {
    let (room, recording, lease) = (told.room, told.recording, Lease::Held);
    vec![
        Op::Open { by, room },
        Op::Announce { told: vec![told] },
        Op::Begin { recording, lease },
        Op::Advance { secs: 7 },
        Op::Finish { recording, spoken, lease },
    ]
}

fn it_fails(by: Pick, told: Told) -> Vec<Op> {
    let (room, recording, lease) = (told.room, told.recording, Lease::Held);
    vec![
        Op::Open { by, room },
        Op::Announce { told: vec![told] },
        Op::Begin { recording, lease },
        Op::Fail { recording, lease },
    ]
}

fn it_is_forgotten(meeting: Pick) -> Vec<Op> {
    vec![Op::End { meeting }, Op::Anonymise { meeting }]
}

fn op() -> impl Strategy<Value = Op> {
    // A week and more is too far for a recording to be of a meeting.
    let secs = prop_oneof![Just(1u64), Just(40), Just(3600), Just(400_000)];
    let by = || prop_oneof![1 => Just(None), 2 => any::<Pick>().prop_map(Some)];
    prop_oneof![
        4 => secs.prop_map(|secs| Op::Advance { secs }),
        3 => (any::<Pick>(), any::<Pick>()).prop_map(|(by, room)| Op::Open { by, room }),
        1 => any::<Pick>().prop_map(|meeting| Op::Enter { meeting }),
        1 => any::<Pick>().prop_map(|meeting| Op::End { meeting }),
        5 => vec(told(), 1..4).prop_map(|told| Op::Announce { told }),
        3 => (any::<Pick>(), by(), any::<Pick>(), any::<bool>(), 0..3u64).prop_map(
            |(meeting, by, person, given, ago_secs)| Op::Consent {
                by,
                meeting,
                person,
                given,
                ago_secs
            }
        ),
        3 => (by(), option::of(any::<Pick>()), prop_oneof![Just(1u32), Just(10)])
            .prop_map(|(by, recording, rows_max)| Op::Retry { by, recording, rows_max }),
        1 => any::<Pick>().prop_map(|recording| Op::ReadUpTo { recording }),
        2 => (any::<Pick>(), spoken())
            .prop_map(|(meeting, spoken)| Op::Say { meeting, spoken }),
        1 => (any::<Pick>(), any::<Pick>(), any::<Pick>())
            .prop_map(|(meeting, from, to)| Op::Rename { meeting, from, to }),
        1 => any::<Pick>().prop_map(|meeting| Op::Delete { meeting }),
        1 => any::<Pick>().prop_map(|meeting| Op::Anonymise { meeting }),
        14 => work(),
    ]
}

/// What is written under the lease of a job.
fn work() -> impl Strategy<Value = Op> {
    let lease = || prop_oneof![6 => Just(Lease::Held), 1 => Just(Lease::Lost)];
    prop_oneof![
        4 => (any::<Pick>(), lease())
            .prop_map(|(recording, lease)| Op::Begin { recording, lease }),
        2 => (any::<Pick>(), vec(any::<Pick>(), 0..3), lease())
            .prop_map(|(recording, tracks, lease)| Op::Keep { recording, tracks, lease }),
        4 => (any::<Pick>(), vec(spoken(), 0..4), lease())
            .prop_map(|(recording, spoken, lease)| Op::Finish { recording, spoken, lease }),
        2 => (any::<Pick>(), lease()).prop_map(|(recording, lease)| Op::Fail { recording, lease }),
        2 => (any::<Pick>(), any::<bool>(), lease())
            .prop_map(|(recording, is_done, lease)| Op::Erased { recording, is_done, lease }),
    ]
}

fn told() -> impl Strategy<Value = Told> {
    let ago = proptest::sample::select(vec![-30i64, 0, 20, 3000, 700_000]);
    (any::<Pick>(), any::<Pick>(), any::<Pick>(), ago, 0..3u8, any::<bool>()).prop_map(
        |(recording, room, kind, started_secs_ago, tracks, by_poll)| Told {
            recording,
            room,
            kind,
            started_secs_ago,
            tracks,
            by_poll,
        },
    )
}

fn spoken() -> impl Strategy<Value = Spoken> {
    let start = proptest::sample::select(vec![-5i64, 0, 1000, 1500, 90_000_000]);
    let length = proptest::sample::select(vec![-5i64, 0, 400, 2000]);
    let name = || option::of(any::<Pick>());
    (start, length, any::<Pick>(), name(), name()).prop_map(
        |(start_ms, length_ms, text, speaker, language)| Spoken {
            start_ms,
            length_ms,
            text,
            speaker,
            language,
        },
    )
}
