//! Looks at everything that can happen: all states that a model can get into, by whatever order of
//! steps.
//!
//! Invariant: breadth first, so that the way to a state that must not be is one of the shortest.

use std::collections::{HashMap, VecDeque};
use std::fmt::Debug;
use std::hash::Hash;

/// More states than any model here has: one that grows without an end is a mistake.
const STATES_MAX: usize = 5_000_000;

/// Something that changes in steps.
pub trait Model {
    type State: Clone + Eq + Hash + Debug;
    type Step: Clone + Debug;

    fn first(&self) -> Self::State;

    /// All that can happen next; nothing if all is over.
    fn steps(&self, state: &Self::State) -> Vec<(Self::Step, Self::State)>;

    /// What is wrong with a state, if anything is. `is_end`: nothing more can happen.
    fn wrong(&self, state: &Self::State, is_end: bool) -> Option<String>;
}

/// What was seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Explored {
    pub states: usize,
    /// States after which nothing happens.
    pub ends: usize,
}

/// A state that must not be.
#[derive(Debug, Clone)]
pub struct Violation<M: Model> {
    pub what: String,
    pub state: M::State,
    /// How it comes about.
    pub steps: Vec<M::Step>,
}

/// Looks at all states.
///
/// # Errors
/// If one of them must not be.
///
/// # Panics
/// If there are too many.
pub fn explore<M: Model>(model: &M) -> Result<Explored, Violation<M>> {
    let first = model.first();
    let mut states = vec![first.clone()];
    let mut from: Vec<Option<(usize, M::Step)>> = vec![None];
    let mut places = HashMap::from([(first, 0)]);
    let (mut queue, mut ends) = (VecDeque::from([0]), 0);
    while let Some(place) = queue.pop_front() {
        let state = states[place].clone();
        let steps = model.steps(&state);
        ends += usize::from(steps.is_empty());
        if let Some(what) = model.wrong(&state, steps.is_empty()) {
            return Err(Violation { what, state, steps: way_to(place, &from) });
        }
        for (step, next) in steps {
            if places.contains_key(&next) {
                continue;
            }
            let place_of_next = states.len();
            assert!(place_of_next < STATES_MAX, "more than {STATES_MAX} states");
            places.insert(next.clone(), place_of_next);
            states.push(next);
            from.push(Some((place, step)));
            queue.push_back(place_of_next);
        }
    }
    Ok(Explored { states: states.len(), ends })
}

fn way_to<S: Clone>(mut place: usize, from: &[Option<(usize, S)>]) -> Vec<S> {
    let mut steps = Vec::new();
    while let Some((before, step)) = &from[place] {
        steps.push(step.clone());
        place = *before;
    }
    steps.reverse();
    steps
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two who each read a number and write it back, one larger.
    struct Counting {
        /// Whoever has read is alone until they have written.
        locked: bool,
    }

    #[derive(Debug, Clone, PartialEq, Eq, Hash)]
    struct Counted {
        value: u8,
        /// What each has read, and whether they are done.
        read: [Option<u8>; 2],
        done: [bool; 2],
    }

    impl Model for Counting {
        type State = Counted;
        type Step = (&'static str, usize);

        fn first(&self) -> Counted {
            Counted { value: 0, read: [None; 2], done: [false; 2] }
        }

        fn steps(&self, state: &Counted) -> Vec<(Self::Step, Counted)> {
            let mut steps = Vec::new();
            let is_free = !self.locked || state.read == [None; 2];
            for who in 0..2 {
                let mut next = state.clone();
                if let Some(read) = next.read[who].take() {
                    (next.value, next.done[who]) = (read + 1, true);
                    steps.push((("write", who), next));
                } else if is_free && !state.done[who] {
                    next.read[who] = Some(state.value);
                    steps.push((("read", who), next));
                }
            }
            steps
        }

        fn wrong(&self, state: &Counted, is_end: bool) -> Option<String> {
            (is_end && state.value != 2).then(|| format!("{} is not 2", state.value))
        }
    }

    #[test]
    fn what_can_go_wrong_is_found_by_a_shortest_way() {
        let violation = explore(&Counting { locked: false }).unwrap_err();
        assert_eq!(violation.what, "1 is not 2");
        assert_eq!(violation.steps.len(), 4);
        let names: Vec<&str> = violation.steps.iter().map(|(name, _)| *name).collect();
        assert_eq!(names, ["read", "read", "write", "write"]);
    }

    #[test]
    fn what_cannot_is_looked_at_to_the_end() {
        // Nobody; either has read; either is done; the other has read then; both are done.
        let explored =
            explore(&Counting { locked: true }).unwrap_or_else(|_| panic!("it is right"));
        assert_eq!(explored, Explored { states: 8, ends: 1 });
    }
}
