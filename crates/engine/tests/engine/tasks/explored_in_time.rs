//! L-1 and L-2 in all orders and with time: tasks that are made, taken, hinted at, cancelled and
//! polled, rounds that begin, look and end, workers that die and come back as zombies, an operator who
//! loses the alarm, the sweeps of jobs and of tasks.
//!
//! When a round comes back is decided by the rules themselves. Times are counted in pauses of a round,
//! from now: so there are so many states and no more, however long the world goes on. Each rule is left
//! out once, to see that it would be missed.

use std::time::Duration;

use roundsman_core::Timestamp;
use roundsman_core::tasks::{TaskId, TaskLook, TaskRules, TaskStage, come_back_at};
use roundsman_testkit::explore::{Model, Violation, explore};

const RULES: TaskRules = TaskRules {
    poll_every: Duration::from_secs(10),
    deadline: Duration::from_secs(1_000_000),
    max_retries: 3,
};
const NOW: Timestamp = Timestamp::from_micros(1_767_225_600_000_000);
const TASKS: usize = 2;
const DEATHS_MAX: u8 = 1;
const ROBBERIES_MAX: u8 = 1;
/// In pauses of a round: how long a lease lasts, and how often the tasks are swept.
const LEASE: u8 = 3;
const SWEEP_EVERY: u8 = 6;

/// Which rule is left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Without {
    Nothing,
    /// The row and the alarm are one transaction.
    Transaction,
    /// What waits beside a round that runs is not that round's to end.
    SecondSlot,
    /// Of two times the earlier counts.
    Earlier,
    /// A job whose worker died comes back.
    Rescue,
    /// Whoever lost the lease changes nothing.
    Fence,
    /// Tasks without an alarm get one.
    Sweep,
    /// A round that finds nothing ends.
    Rest,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Doing {
    Unmade,
    /// To be sent, by another job.
    Waiting,
    /// The generator has it, and is asked after this time.
    Polling(u8),
    Over,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Round {
    Begun,
    /// It has decided: come back after this time, or never.
    Decided(Option<u8>),
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Room {
    tasks: [Doing; TASKS],
    /// The job that waits with the key of the room is due after this time.
    alarm: Option<u8>,
    /// A task is written whose alarm is not.
    owed: bool,
    round: Option<Round>,
    /// The job runs, and whoever ran it is dead or stands still; its lease ends after this time.
    orphan: Option<u8>,
    /// Somebody who stood still, with what they were about to do.
    zombie: Option<Round>,
    deaths: u8,
    robberies: u8,
    /// How long ago the alarm was lost.
    robbed: Option<u8>,
    /// Rounds that began although nothing waited any more.
    idle_rounds: u8,
}

struct Rooms(Without);

impl Room {
    fn is_active(&self) -> bool {
        self.tasks.iter().any(|task| matches!(task, Doing::Waiting | Doing::Polling(_)))
    }

    fn runs(&self) -> bool {
        self.round.is_some() || self.orphan.is_some()
    }

    fn looks(&self) -> Vec<TaskLook> {
        let look = |(number, task): (i64, &Doing)| {
            let (stage, next_poll_at) = match task {
                Doing::Unmade | Doing::Over => return None,
                Doing::Waiting => (TaskStage::Waiting, None),
                Doing::Polling(after) => {
                    (TaskStage::Polling, Some(NOW + RULES.poll_every * u32::from(*after)))
                }
            };
            let deadline_at = NOW + RULES.deadline;
            Some(TaskLook {
                id: TaskId::new(number),
                stage,
                retry_count: 0,
                next_poll_at,
                deadline_at,
            })
        };
        (1..).zip(&self.tasks).filter_map(look).collect()
    }

    /// What a round that looks now decides.
    fn decided(&self) -> Option<u8> {
        let at = come_back_at(&self.looks(), RULES, NOW)?;
        let pauses = at.since(NOW).as_secs() / RULES.poll_every.as_secs();
        Some(u8::try_from(pauses).expect("a few pauses"))
    }

    /// Within the usual pause, or later if the rules say that nobody need be asked before.
    fn is_set_in_time(&self) -> bool {
        let in_time = self.decided().unwrap_or(1).max(1);
        !self.is_active() || self.alarm.is_some_and(|after| after <= in_time)
    }

    fn with(&self, place: usize, task: Doing) -> Room {
        let mut next = self.clone();
        next.tasks[place] = task;
        next
    }

    /// Somebody wishes for a round after this time.
    fn set(mut self, after: u8) -> Room {
        self.alarm = Some(self.alarm.map_or(after, |known| known.min(after)));
        self
    }
}

type Steps = Vec<(&'static str, Room)>;

impl Rooms {
    fn task_steps(&self, room: &Room, steps: &mut Steps) {
        for (place, task) in room.tasks.iter().enumerate() {
            match task {
                // All that are not made are alike.
                Doing::Unmade if room.tasks[..place].contains(&Doing::Unmade) => {}
                Doing::Unmade => {
                    let mut next = room.with(place, Doing::Waiting);
                    next.idle_rounds = 0;
                    if self.0 == Without::Transaction {
                        next.owed = true;
                    } else {
                        next = next.set(1);
                    }
                    steps.push(("a task is made", next));
                }
                Doing::Waiting => {
                    steps.push(("it is taken", room.with(place, Doing::Polling(1)).set(1)));
                    steps.push(("it ends at once", room.with(place, Doing::Over)));
                }
                Doing::Polling(_) => {
                    steps.push(("it is hinted at", room.with(place, Doing::Polling(0)).set(0)));
                    steps.push(("it is cancelled", room.with(place, Doing::Over)));
                }
                Doing::Over => {}
            }
        }
        if room.owed {
            steps.push(("its alarm is set", Room { owed: false, ..room.clone() }.set(1)));
            steps.push(("its maker dies", Room { owed: false, ..room.clone() }));
        }
    }

    fn round_steps(&self, room: &Room, steps: &mut Steps) {
        match room.round {
            None if room.alarm == Some(0) && room.orphan.is_none() => {
                let idle_rounds = room.idle_rounds + u8::from(!room.is_active());
                let round = Some(Round::Begun);
                let next = Room { alarm: None, round, idle_rounds, ..room.clone() };
                steps.push(("a round begins", next));
            }
            None => {}
            Some(Round::Begun) => {
                for (place, _) in
                    room.tasks.iter().enumerate().filter(|(_, task)| **task == Doing::Polling(0))
                {
                    steps.push(("it is unfinished", room.with(place, Doing::Polling(1))));
                    steps.push(("nothing is learned", room.with(place, Doing::Polling(2))));
                    steps.push(("it is done", room.with(place, Doing::Over)));
                }
                let decided = match room.decided() {
                    None if self.0 == Without::Rest => Some(1),
                    decided => decided,
                };
                let round = Some(Round::Decided(decided));
                steps.push(("the round looks", Room { round, ..room.clone() }));
            }
            Some(Round::Decided(back)) => {
                let next = Room { round: None, ..room.clone() };
                steps.push(("the round ends", self.ended(next, back)));
            }
        }
        if let Some(round) = room.round.filter(|_| room.deaths < DEATHS_MAX) {
            let deaths = room.deaths + 1;
            let (orphan, zombie) = (Some(LEASE), Some(round));
            let next = Room { round: None, orphan, zombie, deaths, ..room.clone() };
            steps.push(("its worker stands still", next));
        }
    }

    /// The round ends: it waits again, folds into what waits, or is over.
    fn ended(&self, room: Room, back: Option<u8>) -> Room {
        let alarm = match (self.0, room.alarm, back) {
            (Without::SecondSlot, _, back) => back,
            (Without::Earlier, Some(known), Some(back)) => Some(known.max(back)),
            (_, known, None) => known,
            (_, _, Some(back)) => return room.set(back),
        };
        Room { alarm, ..room }
    }

    fn other_steps(&self, room: &Room, steps: &mut Steps) {
        if let Some(round) = room.zombie {
            let next = Room { zombie: None, ..room.clone() };
            let next = match round {
                Round::Decided(back) if self.0 == Without::Fence && room.runs() => {
                    // It ends whoever runs now.
                    self.ended(Room { round: None, orphan: None, ..next }, back)
                }
                _ => next,
            };
            steps.push(("a zombie ends", next));
        }
        if room.orphan == Some(0) {
            let idle_rounds = room.idle_rounds.saturating_sub(1);
            let next = Room { orphan: None, idle_rounds, ..room.clone() };
            let next = if self.0 == Without::Rescue { next } else { next.set(1) };
            steps.push(("jobs are swept", next));
        }
        if room.alarm.is_some() && room.robberies < ROBBERIES_MAX {
            let (robberies, robbed) = (room.robberies + 1, Some(0));
            let next = Room { alarm: None, robberies, robbed, ..room.clone() };
            steps.push(("an operator loses the alarm", next));
        }
        if room.robbed.is_some() && self.0 != Without::Sweep {
            // A room whose round runs is left alone: it may have decided before the alarm was lost, and
            // then the next sweep finds it.
            // One that has an alarm keeps it, although an earlier one may have been lost.
            let is_lost = room.is_active() && room.alarm.is_none() && !room.runs();
            let mut next = if is_lost { room.clone().set(0) } else { room.clone() };
            next.robbed = (room.runs() || !next.is_set_in_time()).then_some(0);
            steps.push(("tasks are swept", next));
        }
        // What is periodic is not put off for ever.
        let is_late = room.robbed == Some(SWEEP_EVERY) && self.0 != Without::Sweep;
        let later = later(room);
        if later != *room && !is_late {
            steps.push(("time passes", later));
        }
    }
}

fn later(room: &Room) -> Room {
    let sooner = |time: u8| time.saturating_sub(1);
    let decided = |round: Round| match round {
        Round::Decided(back) => Round::Decided(back.map(sooner)),
        Round::Begun => Round::Begun,
    };
    let mut later = Room {
        alarm: room.alarm.map(sooner),
        round: room.round.map(decided),
        orphan: room.orphan.map(sooner),
        zombie: room.zombie.map(decided),
        robbed: room.robbed.map(|ago| (ago + 1).min(SWEEP_EVERY + 1)),
        ..room.clone()
    };
    for task in &mut later.tasks {
        if let Doing::Polling(after) = task {
            *after = sooner(*after);
        }
    }
    later
}

impl Model for Rooms {
    type State = Room;
    type Step = &'static str;

    fn first(&self) -> Room {
        Room {
            tasks: [Doing::Unmade; TASKS],
            alarm: None,
            owed: false,
            round: None,
            orphan: None,
            zombie: None,
            deaths: 0,
            robberies: 0,
            robbed: None,
            idle_rounds: 0,
        }
    }

    fn steps(&self, room: &Room) -> Vec<(&'static str, Room)> {
        let mut steps = Vec::new();
        self.task_steps(room, &mut steps);
        self.round_steps(room, &mut steps);
        self.other_steps(room, &mut steps);
        steps
    }

    fn wrong(&self, room: &Room, is_end: bool) -> Option<String> {
        if room.robbed.is_none() && !room.is_set_in_time() && !room.runs() {
            return Some("L1: nobody comes in time".to_owned());
        }
        let is_lost = room.is_active() && room.alarm.is_none() && !room.runs();
        if is_lost && room.robbed > Some(SWEEP_EVERY) {
            return Some("L1: nobody ever comes".to_owned());
        }
        if room.idle_rounds > 1 {
            return Some("L2: it does not rest".to_owned());
        }
        let is_over = room.tasks == [Doing::Over; TASKS] && room.alarm.is_none() && !room.runs();
        (is_end && !is_over).then(|| "it stands still".to_owned())
    }
}

fn violation(without: Without) -> Violation<Rooms> {
    match explore(&Rooms(without)) {
        Ok(explored) => panic!("{without:?} is not missed in {explored:?}"),
        Err(violation) => violation,
    }
}

#[test]
fn l_1_somebody_comes_in_time_in_any_order() {
    match explore(&Rooms(Without::Nothing)) {
        Ok(explored) => assert!(explored.states > 10_000 && explored.ends > 0, "{explored:?}"),
        Err(found) => panic!("{}: {:?}\n{:?}", found.what, found.steps, found.state),
    }
}

#[test]
fn l_1_every_rule_would_be_missed() {
    for (without, what) in [
        (Without::Transaction, "L1: nobody comes in time"),
        (Without::SecondSlot, "L1: nobody comes in time"),
        (Without::Earlier, "L1: nobody comes in time"),
        (Without::Rescue, "L1: nobody comes in time"),
        (Without::Fence, "L1: nobody comes in time"),
        (Without::Sweep, "L1: nobody ever comes"),
        (Without::Rest, "L2: it does not rest"),
    ] {
        assert_eq!(violation(without).what, what, "{without:?}");
    }
}

/// The window that the seed left open, by one of the shortest ways into it.
#[test]
fn l_1_a_task_made_between_the_look_and_the_end_is_the_one_that_was_lost() {
    let found = violation(Without::SecondSlot);
    let place = |step: &str| found.steps.iter().rposition(|taken| *taken == step);
    assert_eq!(found.steps.last(), Some(&"the round ends"), "{:?}", found.steps);
    assert!(place("the round looks") < place("a task is made"), "{:?}", found.steps);
}
