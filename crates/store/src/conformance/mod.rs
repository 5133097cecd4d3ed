//! What every storage adapter must do, as one suite.
//!
//! An adapter's test provides a [`Fixture`] over a fresh database and calls
//! [`conformance_suite!`](crate::conformance_suite), which makes one test of every case. Each test
//! ends with `check()`, which must find nothing.
//!
//! Invariants: a case knows the ports and the rules of `roundsman_core` and nothing of an adapter.
//! Where a rule decides what must come out, the case computes it with that rule instead of
//! repeating its numbers. Time stands still unless a case moves it.

pub mod alarms;
mod attend;
pub mod audits;
pub mod audits_told;
mod backdoor;
pub mod batches;
pub mod bots;
pub mod bots_beats;
pub mod bots_events;
pub mod bots_finish;
pub mod bots_foreign;
pub mod bots_launch;
pub mod bots_races;
pub mod bots_read;
pub mod bots_sweep;
pub mod bots_wishes;
pub mod bulk;
pub mod by_hand;
mod cases;
pub mod claim;
pub mod coalesce;
pub mod effects;
pub mod enqueue;
mod fixture;
pub mod gates;
pub mod idempotency;
pub mod keys;
pub mod lease;
pub mod presence;
pub mod presence_bots;
pub mod presence_ends;
pub mod presence_inbox;
pub mod presence_lists;
pub mod presence_looks;
pub mod presence_races;
pub mod process;
pub mod prune;
pub mod races;
pub mod read;
mod record;
pub mod recordings;
pub mod recordings_begin;
pub mod recordings_consent;
pub mod recordings_fails;
pub mod recordings_finish;
pub mod recordings_forget;
pub mod recordings_lists;
pub mod recordings_media;
pub mod recordings_races;
pub mod recordings_texts;
pub mod rooms;
pub mod schedules;
pub mod settle;
mod speak;
pub mod sweep;
mod task;
pub mod tasks;
pub mod tasks_races;
pub mod transcripts;
pub mod transcripts_delete;
pub mod transcripts_letters;
pub mod transcripts_races;
pub mod transcripts_read;
pub mod transcripts_search;
pub mod transcripts_sessions;
pub mod transcripts_settle;
pub mod transcripts_shares;
pub mod transcripts_speakers;
pub mod users;
mod visit;
pub mod webhooks;
mod wishes;

pub use backdoor::{Backdoor, Said};
pub use fixture::{Fixture, Traits, assert_keys_are_unique};
pub use speak::{Shown, apply, shown};
pub use wishes::{ADA, BOB, COLLECT, FIRST, RENDER, SHARED, catalog, json, key, kind};

/// Makes one test of every case. `$make` is an expression that gives a future of a [`Fixture`].
#[macro_export]
macro_rules! conformance_suite {
    ($make:expr) => {
        async fn fresh_fixture() -> std::sync::Arc<$crate::conformance::Fixture> {
            std::sync::Arc::new($make.await)
        }

        $crate::for_each_conformance_case!($crate::conformance_tests);
    };
}

/// Turns the list of cases into tests that begin with `fresh_fixture()`.
#[doc(hidden)]
#[macro_export]
macro_rules! conformance_tests {
    ($($topic:ident { $($case:ident)* })*) => {
        $(
            mod $topic {
                $(
                    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                    async fn $case() {
                        let fixture = super::fresh_fixture().await;
                        $crate::conformance::$topic::$case(&fixture).await;
                        fixture.finish().await;
                    }
                )*
            }
        )*
    };
}
