//! How much may be asked, and when: the rules, without the waiting.
//!
//! A request is allowed if, with it, no stretch of time as long as a rate's has more requests than
//! the rate allows. A bucket that fills up would not promise that: it allows twice as many at once
//! after a rest.

use std::collections::VecDeque;
use std::time::Duration;

use super::Class;
use crate::daily::{DailyLimits, Rate};

/// Two requests may arrive closer together than they were sent.
const MARGIN: Duration = Duration::from_millis(50);
/// The first pause after a refusal; it doubles with every further one.
const PAUSE_MIN: Duration = Duration::from_secs(1);
/// No longer, whatever the provider asks for.
const PAUSE_MAX: Duration = Duration::from_mins(5);

/// What was sent, as far as it matters.
pub(super) struct Budget {
    most: Vec<Window>,
    scarce: Vec<Window>,
    pause: Pause,
}

impl Budget {
    pub(super) fn new(limits: &DailyLimits) -> Self {
        let windows = |rates: &[Rate]| rates.iter().copied().map(Window::new).collect();
        Budget {
            most: windows(&limits.most),
            scarce: windows(&limits.scarce),
            pause: Pause::default(),
        }
    }

    /// When the next request may be sent.
    pub(super) fn free_at(&self, class: Class) -> Duration {
        let scarce: &[Window] = if class == Class::Scarce { &self.scarce } else { &[] };
        let windows = self.most.iter().chain(scarce).map(Window::free_at);
        windows.fold(self.pause.until, Duration::max)
    }

    /// One is sent. Those of a scarce sort count among the others as well.
    pub(super) fn spend(&mut self, class: Class, now: Duration) {
        let scarce: &mut [Window] = if class == Class::Scarce { &mut self.scarce } else { &mut [] };
        self.most.iter_mut().chain(scarce).for_each(|window| window.note(now));
    }

    /// Until when nothing is sent at all.
    pub(super) fn paused_until(&self) -> Duration {
        self.pause.until
    }

    /// The provider found that one too many. Returns how long nothing is sent now.
    pub(super) fn refused(
        &mut self,
        sent_at: Duration,
        now: Duration,
        asked: Option<Duration>,
    ) -> Duration {
        self.pause.refused(sent_at, now, asked);
        self.pause.until.saturating_sub(now)
    }

    /// The provider did not mind that one.
    pub(super) fn answered(&mut self, sent_at: Duration) {
        if sent_at >= self.pause.until {
            self.pause.refusals = 0;
        }
    }
}

/// The latest requests: as many as a rate allows.
struct Window {
    rate: Rate,
    sent: VecDeque<Duration>,
}

impl Window {
    fn new(rate: Rate) -> Self {
        Window { rate, sent: VecDeque::new() }
    }

    fn free_at(&self) -> Duration {
        let is_full = self.sent.len() >= self.rate.requests.max(1);
        let oldest = self.sent.front().filter(|_| is_full);
        oldest.map_or(Duration::ZERO, |oldest| *oldest + self.rate.within + MARGIN)
    }

    fn note(&mut self, now: Duration) {
        self.sent.push_back(now);
        if self.sent.len() > self.rate.requests.max(1) {
            self.sent.pop_front();
        }
    }
}

/// Silence after refusals.
#[derive(Default)]
struct Pause {
    began: Duration,
    until: Duration,
    refusals: u32,
}

impl Pause {
    fn refused(&mut self, sent_at: Duration, now: Duration, asked: Option<Duration>) {
        // Those that were on their way when the first was refused say nothing new.
        if self.refusals == 0 || sent_at > self.began {
            self.refusals = self.refusals.saturating_add(1);
            self.began = now;
        }
        let doubled = PAUSE_MIN.saturating_mul(1 << (self.refusals - 1).min(16));
        let pause = doubled.max(asked.unwrap_or_default()).min(PAUSE_MAX);
        self.until = self.until.max(now + pause);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn secs(secs: u64) -> Duration {
        Duration::from_secs(secs)
    }

    /// Sends as fast as is allowed, with a rest now and then; returns when each was sent.
    fn send(class: impl Fn(usize) -> Class, count: usize) -> Vec<Duration> {
        let mut budget = Budget::new(&DailyLimits::default());
        let mut now = secs(100);
        (0..count)
            .map(|number| {
                if number % 270 == 269 {
                    now += secs(7);
                }
                now = now.max(budget.free_at(class(number)));
                budget.spend(class(number), now);
                now
            })
            .collect()
    }

    fn most_within(sent: &[Duration], within: Duration) -> usize {
        let from = |start: &Duration| {
            sent.iter().filter(|at| (*start..*start + within).contains(*at)).count()
        };
        sent.iter().map(from).max().unwrap_or(0)
    }

    #[test]
    fn no_stretch_of_time_has_more_requests_than_are_allowed() {
        let sent = send(|_| Class::Most, 1000);
        assert_eq!(most_within(&sent, secs(1)), 20);
        assert_eq!(most_within(&sent, secs(5)), 100);
        let took = sent.last().unwrap().saturating_sub(sent[0]);
        assert!(took < secs(80), "the limit is also used: {took:?}");
    }

    #[test]
    fn scarce_requests_have_limits_of_their_own_and_count_among_the_others() {
        let sent = send(|_| Class::Scarce, 200);
        assert_eq!(most_within(&sent, secs(1)), 2);
        assert!(most_within(&sent, secs(30)) <= 50);
        let is_scarce = |number: usize| number.is_multiple_of(5);
        let class = |number| if is_scarce(number) { Class::Scarce } else { Class::Most };
        let sent = send(class, 600);
        assert!(most_within(&sent, secs(5)) <= 100 && most_within(&sent, secs(1)) <= 20);
        let scarce: Vec<Duration> = sent.iter().copied().step_by(5).collect();
        assert!(most_within(&scarce, secs(1)) <= 2 && most_within(&scarce, secs(30)) <= 50);
    }

    #[test]
    fn refusals_double_the_silence_and_an_answer_ends_it() {
        let mut budget = Budget::new(&DailyLimits::default());
        let mut now = secs(100);
        for pause in [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300] {
            assert_eq!(budget.refused(now, now, None), secs(pause));
            assert_eq!(budget.free_at(Class::Most), now + secs(pause));
            now = budget.free_at(Class::Most);
        }
        budget.answered(now.saturating_sub(MS));
        assert_eq!(budget.refused(now, now, None), secs(300), "it was sent before the silence");
        now += secs(300);
        budget.answered(now);
        assert_eq!(budget.refused(now, now, None), secs(1));
    }

    #[test]
    fn those_that_were_on_their_way_count_as_one() {
        let mut budget = Budget::new(&DailyLimits::default());
        let now = secs(100);
        for late in 0..10 {
            budget.refused(now, now + MS * late, None);
        }
        assert!(budget.paused_until() < now + secs(2));
    }

    #[test]
    fn the_provider_may_ask_for_longer_but_not_for_ever() {
        let mut budget = Budget::new(&DailyLimits::default());
        assert_eq!(budget.refused(secs(1), secs(1), Some(secs(20))), secs(20));
        assert_eq!(budget.refused(secs(21), secs(21), Some(secs(86_400))), secs(300));
        assert_eq!(budget.refused(secs(321), secs(321), Some(Duration::MAX)), secs(300));
    }
}
