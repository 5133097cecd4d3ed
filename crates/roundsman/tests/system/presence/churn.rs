//! People who come and go, all the time and everywhere, until they are told to stop.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Context, Result};
use roundsman_core::ports::Random;
use roundsman_testkit::daily::Guest;
use roundsman_testkit::{DailyStandIn, SeededRandom, eventually};
use tokio_util::sync::CancellationToken;

use super::place::breathe;
use crate::site::SOON;

/// Between two of them.
const PAUSE: Duration = Duration::from_millis(40);
/// Nobody joins a room that is as full as this.
const INSIDE_MAX: usize = 6;

/// Everybody in some rooms.
pub(super) struct Churn<'a> {
    daily: &'a DailyStandIn,
    rooms: Vec<String>,
    random: SeededRandom,
    steps: AtomicUsize,
}

impl<'a> Churn<'a> {
    pub(super) fn new(daily: &'a DailyStandIn, rooms: &[&str], seed: u64) -> Churn<'a> {
        let rooms = rooms.iter().map(|room| (*room).to_owned()).collect();
        Churn { daily, rooms, random: SeededRandom::new(seed), steps: AtomicUsize::new(0) }
    }

    /// People come and go until it is over.
    pub(super) async fn run(&self, stop: &CancellationToken) {
        let mut inside: BTreeMap<&str, Vec<String>> = BTreeMap::new();
        for room in &self.rooms {
            inside.insert(room, self.daily.present(room));
        }
        while !stop.is_cancelled() {
            let room = &self.rooms[self.draw(self.rooms.len())];
            let people = inside.entry(room).or_default();
            match self.draw(10) {
                // Somebody looks in.
                0 => {
                    let session = self.joins(room);
                    self.daily.leave(room, &session);
                }
                // Everybody goes, as at the end of a meeting.
                1 => {
                    for session in people.drain(..) {
                        self.daily.leave(room, &session);
                    }
                }
                // Somebody comes back at once, as with a page that is loaded again.
                2 | 3 if !people.is_empty() => {
                    let session = people.swap_remove(self.draw(people.len()));
                    self.daily.leave(room, &session);
                    people.push(self.joins(room));
                }
                4..7 if !people.is_empty() => {
                    let session = people.swap_remove(self.draw(people.len()));
                    self.daily.leave(room, &session);
                }
                _ if people.len() < INSIDE_MAX => people.push(self.joins(room)),
                _ => {}
            }
            self.steps.fetch_add(1, Ordering::SeqCst);
            breathe(PAUSE).await;
        }
    }

    /// Waits until so many more have come or gone.
    pub(super) async fn wait_for_more(&self, steps: usize) -> Result<()> {
        let enough = self.steps.load(Ordering::SeqCst) + steps;
        let more =
            eventually(SOON, async || (self.steps.load(Ordering::SeqCst) >= enough).then_some(()));
        more.await.context("nobody comes or goes")
    }

    /// Everybody has a name of their own, so that no two events can have the same.
    fn joins(&self, room: &str) -> String {
        let name = format!("guest-{:x}", self.random.next_u64());
        self.daily.join(room, Guest::named(&name))
    }

    fn draw(&self, below: usize) -> usize {
        let below = u64::try_from(below).unwrap_or(u64::MAX).max(1);
        usize::try_from(self.random.below(below)).unwrap_or_default()
    }
}
