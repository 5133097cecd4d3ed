//! The steps that a run takes, each of which a test may make the last, or hold up.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Semaphore;

/// Where a process dies in a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Death {
    /// It has asked for nothing yet.
    Before,
    /// What it asked for has happened, and it never learns of it.
    After,
}

/// Counts the steps towards the outside and the database.
#[derive(Debug, Default)]
pub(super) struct Steps {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    taken: Vec<&'static str>,
    death: Option<(usize, Death)>,
    is_dead: bool,
    gates: Vec<(&'static str, Arc<Semaphore>)>,
    waiting: Vec<&'static str>,
}

/// Ends when it may pass.
pub(super) struct Gate(Arc<Semaphore>);

impl Gate {
    /// Lets so many pass.
    pub(super) fn open(&self, count: usize) {
        self.0.add_permits(count);
    }
}

impl Steps {
    /// All steps so far, by name.
    pub(super) fn taken(&self) -> Vec<&'static str> {
        self.state().taken.clone()
    }

    pub(super) fn count(&self, name: &str) -> usize {
        self.state().taken.iter().filter(|taken| **taken == name).count()
    }

    pub(super) fn forget(&self) {
        self.state().taken.clear();
    }

    /// The process dies in the step with this number, counted from here.
    pub(super) fn die_at(&self, step: usize, death: Death) {
        let mut state = self.state();
        state.death = Some((state.taken.len() + step, death));
    }

    /// Whether it has died. The next process lives.
    pub(super) fn is_dead(&self) -> bool {
        self.state().is_dead
    }

    pub(super) fn live_again(&self) {
        let mut state = self.state();
        (state.death, state.is_dead) = (None, false);
    }

    /// Steps of this name wait from now on.
    pub(super) fn hold(&self, name: &'static str) -> Gate {
        let gate = Arc::new(Semaphore::new(0));
        self.state().gates.push((name, gate.clone()));
        Gate(gate)
    }

    /// How many steps of this name wait.
    pub(super) fn waiting(&self, name: &str) -> usize {
        self.state().waiting.iter().filter(|waiting| **waiting == name).count()
    }

    /// Takes a step.
    pub(super) async fn step<T>(&self, name: &'static str, work: impl Future<Output = T>) -> T {
        let (death, gate) = self.begin(name);
        if death == Some(Death::Before) {
            std::future::pending::<()>().await;
        }
        if let Some(gate) = gate {
            self.state().waiting.push(name);
            gate.acquire().await.unwrap().forget();
            let mut state = self.state();
            let place = state.waiting.iter().position(|waiting| *waiting == name).unwrap();
            state.waiting.remove(place);
        }
        let done = work.await;
        if death == Some(Death::After) {
            self.state().is_dead = true;
            std::future::pending::<()>().await;
        }
        done
    }

    fn begin(&self, name: &'static str) -> (Option<Death>, Option<Arc<Semaphore>>) {
        let mut state = self.state();
        let number = state.taken.len();
        state.taken.push(name);
        let death = state.death.filter(|(step, _)| *step == number).map(|(_, death)| death);
        if death == Some(Death::Before) {
            state.is_dead = true;
        }
        let gate = state.gates.iter().find(|(held, _)| *held == name);
        (death, gate.map(|(_, gate)| gate.clone()))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
