//! Keeping leases, and stopping what may no longer run.

use std::time::Duration;

use roundsman_core::jobs::LeaseRef;
use roundsman_core::ports::{Heartbeat, HeartbeatAnswer, StoreError};

use super::{StopReason, Worker};

impl Worker {
    /// Stops what has lost its lease or passed its deadline by this process's own clock, then
    /// extends every lease that is due, all with one call.
    pub async fn keep_tick(&self) -> Result<(), StoreError> {
        let asked = self.deps.clock.monotonic();
        self.stop_overdue(asked);
        let beats = self.due_beats(asked);
        if beats.is_empty() {
            return Ok(());
        }
        let sent: Vec<(LeaseRef, bool)> =
            beats.iter().map(|beat| (beat.lease, beat.progress.is_some())).collect();
        match self.deps.store.heartbeat(beats, self.deps.clock.now()).await {
            Ok(answers) => {
                for ((lease, _), answer) in sent.into_iter().zip(answers) {
                    self.heard(lease, answer, asked);
                }
                Ok(())
            }
            Err(error) => {
                self.beat_again(sent, asked);
                Err(error)
            }
        }
    }

    fn stop_overdue(&self, now: Duration) {
        self.running.for_each(|lease, held| {
            if !held.active {
                return;
            }
            if now >= held.lease_ends {
                // The database may have given the job to somebody else by now.
                let before = held.stop.send_replace(Some(StopReason::LeaseLost));
                if before != Some(StopReason::LeaseLost) {
                    self.deps.metrics.lease_lost();
                    tracing::warn!(job = lease.id.get(), "gave a job up: its lease ran out");
                }
            } else if held.deadline.is_some_and(|deadline| now >= deadline) {
                held.stop.send_replace(Some(StopReason::DeadlineExceeded));
            }
        });
    }

    fn due_beats(&self, now: Duration) -> Vec<Heartbeat> {
        let mut beats = Vec::new();
        self.running.for_each(|lease, held| {
            let reported = held.progress.has_changed().unwrap_or(false);
            // A heartbeat for a lease that was given up would only keep others from the job.
            let given_up = held.active && now >= held.lease_ends;
            if given_up || (now < held.next_beat && !reported) {
                return;
            }
            let progress = if reported { held.progress.borrow_and_update().clone() } else { None };
            held.next_beat = now + held.heartbeat_every;
            beats.push(Heartbeat { lease, ttl: None, progress });
        });
        beats
    }

    /// Heartbeats that were not heard are due at once, with the progress they carried.
    fn beat_again(&self, sent: Vec<(LeaseRef, bool)>, asked: Duration) {
        for (lease, reported) in sent {
            self.running.with(lease, |held| {
                held.next_beat = asked;
                if reported {
                    held.progress.mark_changed();
                }
            });
        }
    }

    fn heard(&self, lease: LeaseRef, answer: HeartbeatAnswer, asked: Duration) {
        match answer {
            HeartbeatAnswer::Extended { cancel_requested, .. } => {
                self.running.with(lease, |held| {
                    held.lease_ends = asked + held.lease_ttl;
                    if cancel_requested {
                        held.stop.send_replace(Some(StopReason::Cancelled));
                    }
                });
            }
            HeartbeatAnswer::LeaseLost => {
                self.deps.metrics.lease_lost();
                self.running.with(lease, |held| {
                    held.stop.send_replace(Some(StopReason::LeaseLost));
                });
            }
        }
    }
}
