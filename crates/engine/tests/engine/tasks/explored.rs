//! L-1 in all orders: rounds that end, tasks that are made and end, workers that die. The model is made
//! of the rules themselves; the same with the mistake of the seed is found at once.

use std::time::Duration;

use roundsman_core::Timestamp;
use roundsman_core::tasks::{TaskId, TaskLook, TaskRules, TaskStage, come_back_at};
use roundsman_testkit::explore::{Model, explore};

const RULES: TaskRules = TaskRules {
    poll_every: Duration::from_secs(10),
    deadline: Duration::from_secs(7200),
    max_retries: 3,
};

/// A room with up to so many tasks, and one job that looks after them.
struct Rooms {
    tasks: u8,
    deaths: u8,
    /// As in the seed: one slot, which the round overwrites when it ends.
    is_one_slot: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Room {
    /// Made so far, and which of them are not over.
    made: u8,
    active: u8,
    /// A job waits with the key of the room.
    waits: bool,
    round: Round,
    deaths: u8,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Round {
    None,
    /// Claimed; has not looked yet.
    Begun,
    /// Has seen so many that are not over.
    Looked {
        active: u8,
    },
}

impl Rooms {
    /// What a round that has seen so many answers: come back, or rest.
    fn comes_back(active: u8) -> bool {
        let look = |number: u8| TaskLook {
            id: TaskId::new(number.into()),
            stage: TaskStage::Polling,
            retry_count: 0,
            next_poll_at: Some(Timestamp::EPOCH + RULES.poll_every),
            deadline_at: Timestamp::EPOCH + RULES.deadline,
        };
        let looks: Vec<TaskLook> = (0..active).map(look).collect();
        come_back_at(&looks, RULES, Timestamp::EPOCH).is_some()
    }
}

impl Model for Rooms {
    type State = Room;
    type Step = &'static str;

    fn first(&self) -> Room {
        Room { made: 0, active: 0, waits: false, round: Round::None, deaths: 0 }
    }

    fn steps(&self, room: &Room) -> Vec<(&'static str, Room)> {
        let mut steps = Vec::new();
        let mut can = |name, next| steps.push((name, next));
        if room.made < self.tasks {
            // Row and alarm are one transaction: a job that runs leaves one more waiting.
            let next = Room { made: room.made + 1, active: room.active + 1, ..room.clone() };
            can("a task is made", Room { waits: true, ..next });
        }
        if room.active > 0 {
            // By a round, a broadcast or a cancel: whoever ends it sets nothing.
            can("a task ends", Room { active: room.active - 1, ..room.clone() });
        }
        match &room.round {
            Round::None if room.waits => {
                can("a round begins", Room { waits: false, round: Round::Begun, ..room.clone() });
            }
            Round::None => {}
            Round::Begun => {
                let active = room.active;
                can("it looks", Room { round: Round::Looked { active }, ..room.clone() });
            }
            Round::Looked { active } => {
                let comes_back = Rooms::comes_back(*active);
                // It waits again, or folds into the one that waits; or it ends and touches no other.
                let waits = if self.is_one_slot { comes_back } else { room.waits || comes_back };
                can("it ends", Room { waits, round: Round::None, ..room.clone() });
            }
        }
        if room.round != Round::None && room.deaths < self.deaths {
            // Its lease is over: it is rescued, which is to wait again.
            let deaths = room.deaths + 1;
            let next = Room { waits: true, round: Round::None, deaths, ..room.clone() };
            can("its worker dies", next);
        }
        steps
    }

    fn wrong(&self, room: &Room, _is_end: bool) -> Option<String> {
        let is_looked_after = room.waits || room.round != Round::None;
        (room.active > 0 && !is_looked_after).then(|| "nobody comes back".to_owned())
    }
}

#[test]
fn nobody_is_left_behind_in_any_order() {
    let explored = explore(&Rooms { tasks: 6, deaths: 3, is_one_slot: false });
    let explored = explored.unwrap_or_else(|found| panic!("{}: {:?}", found.what, found.steps));
    assert!(explored.states > 500, "{explored:?} is not much");
}

#[test]
fn the_mistake_of_the_seed_is_found() {
    let found = explore(&Rooms { tasks: 2, deaths: 0, is_one_slot: true }).unwrap_err();
    assert_eq!(found.what, "nobody comes back");
    let ways = ["a task is made", "a round begins", "a task ends", "it looks"];
    assert!(found.steps.iter().any(|step| ways.contains(step)), "{:?}", found.steps);
    assert_eq!(found.steps.last(), Some(&"it ends"), "{:?}", found.steps);
}
