//! A runtime that does what a test tells it: loses answers, refuses, is away, shows half a list.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard};

use async_trait::async_trait;
use roundsman_core::bots::WorkloadId;
use roundsman_core::ports::{
    LaunchSpec, Launched, Launcher, Removed, SeenWorkload, Sighting, Unanswered,
};

/// How a workload is, and whether it listens to SIGTERM.
#[derive(Debug, Clone, Copy)]
struct Workload {
    ended: bool,
    exit_code: Option<i32>,
    deaf: bool,
}

impl Workload {
    fn running(deaf: bool) -> Self {
        Workload { ended: false, exit_code: None, deaf }
    }

    /// Ends it, unless it has ended.
    fn end(&mut self, exit_code: Option<i32>) {
        if !self.ended {
            (self.ended, self.exit_code) = (true, exit_code);
        }
    }
}

/// What goes wrong with one sort of call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Mishap {
    /// Nothing happens, and nobody answers.
    Down,
    /// It happens, and nobody answers.
    AnswerLost,
    /// The runtime will not run it.
    Refuses(&'static str),
}

#[derive(Debug, Default)]
struct State {
    workloads: BTreeMap<WorkloadId, Workload>,
    mishaps: BTreeMap<&'static str, Mishap>,
    hidden: BTreeSet<WorkloadId>,
    calls: Vec<(&'static str, Option<WorkloadId>)>,
    /// How often each workload was really started.
    starts: BTreeMap<WorkloadId, usize>,
    newcomers_are_deaf: bool,
}

#[derive(Debug, Default)]
pub(super) struct FakeLauncher(Mutex<State>);

impl FakeLauncher {
    pub(super) fn set(&self, call: &'static str, mishap: Mishap) {
        self.state().mishaps.insert(call, mishap);
    }

    pub(super) fn set_all(&self, mishap: &Mishap) {
        for call in ["ensure", "look", "list", "terminate", "remove"] {
            self.set(call, mishap.clone());
        }
    }

    pub(super) fn mend(&self) {
        self.state().mishaps.clear();
    }

    /// Bots that start from now on hear no signal.
    pub(super) fn make_deaf(&self) {
        self.state().newcomers_are_deaf = true;
    }

    /// Leaves a workload out of lists.
    pub(super) fn hide(&self, workload: WorkloadId) {
        self.state().hidden.insert(workload);
    }

    pub(super) fn show_all(&self) {
        self.state().hidden.clear();
    }

    /// A workload that nobody here started.
    pub(super) fn put(&self, workload: WorkloadId) {
        self.state().workloads.insert(workload, Workload::running(false));
    }

    /// The workload ends by itself.
    pub(super) fn exit(&self, workload: WorkloadId, exit_code: Option<i32>) {
        if let Some(workload) = self.state().workloads.get_mut(&workload) {
            workload.end(exit_code);
        }
    }

    /// Somebody took it away without a trace.
    pub(super) fn vanish(&self, workload: WorkloadId) {
        self.state().workloads.remove(&workload);
    }

    pub(super) fn is_running(&self, workload: WorkloadId) -> bool {
        self.state().workloads.get(&workload).is_some_and(|found| !found.ended)
    }

    pub(super) fn all(&self) -> Vec<WorkloadId> {
        self.state().workloads.keys().copied().collect()
    }

    /// How many calls of a sort there were for a workload.
    pub(super) fn calls(&self, call: &'static str, workload: WorkloadId) -> usize {
        let wanted = (call, Some(workload));
        self.state().calls.iter().filter(|made| **made == wanted).count()
    }

    pub(super) fn starts(&self, workload: WorkloadId) -> usize {
        self.state().starts.get(&workload).copied().unwrap_or(0)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap()
    }

    /// Does a call unless a mishap keeps it from happening, and answers unless one keeps it from
    /// that.
    fn call<T>(
        &self,
        call: &'static str,
        workload: Option<WorkloadId>,
        happen: impl FnOnce(&mut State) -> T,
    ) -> Result<T, Unanswered> {
        let mut state = self.state();
        state.calls.push((call, workload));
        let mishap = state.mishaps.get(call).cloned();
        if mishap == Some(Mishap::Down) {
            return Err(Unanswered::new("the runtime is away"));
        }
        let answer = happen(&mut state);
        if mishap == Some(Mishap::AnswerLost) {
            return Err(Unanswered::new("the answer was lost"));
        }
        Ok(answer)
    }
}

fn handle(workload: WorkloadId) -> String {
    workload.name("test")
}

fn sighting(workload: WorkloadId, found: Workload) -> Sighting {
    if found.ended {
        return Sighting::Exited { exit_code: found.exit_code };
    }
    Sighting::Running { handle: handle(workload) }
}

#[async_trait]
impl Launcher for FakeLauncher {
    async fn ensure(&self, spec: &LaunchSpec) -> Result<Launched, Unanswered> {
        let workload = spec.workload;
        self.call("ensure", Some(workload), |state| {
            if let Some(Mishap::Refuses(reason)) = state.mishaps.get("ensure") {
                return Launched::Refused { reason: (*reason).to_owned() };
            }
            let deaf = state.newcomers_are_deaf;
            let found = state.workloads.entry(workload).or_insert_with(|| {
                *state.starts.entry(workload).or_default() += 1;
                Workload::running(deaf)
            });
            if found.ended {
                return Launched::Exited { exit_code: found.exit_code };
            }
            Launched::Running { handle: handle(workload) }
        })
    }

    async fn look(&self, workload: WorkloadId) -> Result<Sighting, Unanswered> {
        self.call("look", Some(workload), |state| {
            let found = state.workloads.get(&workload);
            found.map_or(Sighting::Absent, |found| sighting(workload, *found))
        })
    }

    async fn list(&self) -> Result<Vec<SeenWorkload>, Unanswered> {
        self.call("list", None, |state| {
            let shown = state.workloads.iter().filter(|(id, _)| !state.hidden.contains(id));
            shown
                .map(|(id, found)| SeenWorkload { workload: *id, sighting: sighting(*id, *found) })
                .collect()
        })
    }

    async fn terminate(&self, workload: WorkloadId) -> Result<(), Unanswered> {
        self.call("terminate", Some(workload), |state| {
            if let Some(found) = state.workloads.get_mut(&workload)
                && !found.deaf
            {
                found.end(Some(143));
            }
        })
    }

    async fn remove(&self, workload: WorkloadId) -> Result<Removed, Unanswered> {
        self.call("remove", Some(workload), |state| {
            let found = state.workloads.remove(&workload);
            let exit_code = found.and_then(|found| found.exit_code);
            Removed { was_there: found.is_some(), exit_code }
        })
    }

    fn name(&self) -> &'static str {
        "fake"
    }
}
