//! Gates, and claims that pass through them.

use std::collections::BTreeMap;

use async_trait::async_trait;
use roundsman_core::Timestamp;
use roundsman_core::jobs::{
    Gate, GateChange, GateName, GateScene, Lane, NewJob, RunningJob, gates_of, plan, ranges_from,
    spend,
};
use roundsman_core::ports::{ClaimAnswer, ClaimRequest, GateStore, LaneDemand, StoreError};

use super::{Reference, State};

#[async_trait]
impl GateStore for Reference {
    async fn change_gate(
        &self,
        name: GateName,
        change: GateChange,
        now: Timestamp,
    ) -> Result<Gate, StoreError> {
        let mut state = self.lock();
        let before = state.gates.get(&name).cloned().unwrap_or_else(|| Gate::new(name.clone()));
        let after = before.clone().changed(change, now);
        if after.limits != before.limits {
            state.buckets.retain(|(gate, _), _| *gate != name);
        }
        if after.is_needless() {
            state.gates.remove(&name);
        } else {
            state.gates.insert(name, after.clone());
        }
        Ok(after)
    }

    async fn gates(&self, names: Vec<GateName>) -> Result<Vec<Gate>, StoreError> {
        let state = self.lock();
        Ok(state.gates.values().filter(|gate| names.contains(&gate.name)).cloned().collect())
    }

    async fn all_gates(
        &self,
        after: Option<GateName>,
        rows_max: u32,
    ) -> Result<Vec<Gate>, StoreError> {
        let state = self.lock();
        let later = |gate: &&Gate| after.as_ref().is_none_or(|after| gate.name > *after);
        Ok(state.gates.values().filter(later).take(rows_max as usize).cloned().collect())
    }
}

impl State {
    pub(super) fn note_tenant(&mut self, wish: &NewJob) {
        if wish.tenant.is_some() {
            let name = GateName::of_lane(&wish.base_lane());
            let gate = self.gates.entry(name.clone()).or_insert_with(|| Gate::new(name));
            gate.has_tenants = true;
        }
    }

    pub(super) fn claim(&mut self, request: &ClaimRequest, now: Timestamp) -> ClaimAnswer {
        let named: Vec<GateName> = self.gates.keys().cloned().collect();
        let gated = move |demand: &LaneDemand| named.iter().any(|gate| gate.covers(&demand.lane));
        let total = request.total_max as usize;
        let any_gated = request.demands.iter().any(&gated);
        let kept = match (any_gated, total) {
            (false, _) => 0,
            (true, 1) => usize::from(self.last_lease % 2 == 1),
            (true, total) => total / 2,
        };
        let plain: Vec<LaneDemand> =
            request.demands.iter().filter(|one| !gated(one)).cloned().collect();
        let mut jobs = self.claim_plain(request, &plain, total - kept, now);
        let of_lane = |lane: &Lane| jobs.iter().filter(|job| job.facts.lane() == *lane).count();
        let left = |one: &LaneDemand| {
            one.max - u32::try_from(of_lane(&one.lane)).expect("a claim is small")
        };
        let rest: Vec<LaneDemand> =
            plain.iter().map(|one| LaneDemand { max: left(one), ..one.clone() }).collect();
        let mut open_at = None;
        for demand in request.demands.iter().filter(|one| gated(one)) {
            let jobs_max = (demand.max as usize).min(total - jobs.len());
            let (more, opens) = self.pass(request, demand, jobs_max, now);
            jobs.extend(more);
            open_at = [open_at, opens].into_iter().flatten().min();
        }
        jobs.extend(self.claim_plain(request, &rest, total - jobs.len(), now));
        let due = self.waiting.values().map(roundsman_core::jobs::WaitingJob::due_at);
        let next_due_at = due.filter(|due| *due > now).chain(open_at).min();
        ClaimAnswer { jobs, next_due_at, gated: any_gated }
    }

    fn pass(
        &mut self,
        request: &ClaimRequest,
        demand: &LaneDemand,
        jobs_max: usize,
        now: Timestamp,
    ) -> (Vec<RunningJob>, Option<Timestamp>) {
        let names = gates_of(&demand.lane);
        let gates: Vec<Gate> =
            names.iter().filter_map(|name| self.gates.get(name).cloned()).collect();
        let own = gates.iter().find(|gate| gate.name.as_str() == demand.lane.as_str());
        let turn = own.and_then(|gate| gate.turn.clone());
        let ready = self.ready(&demand.lane, now);
        let mut waiting = Vec::new();
        for range in ranges_from(&demand.lane, turn.as_ref()) {
            let here = ready.iter().filter(|(lane, _)| range.holds(lane));
            let count =
                |jobs: &Vec<_>| u32::try_from(jobs.len().min(jobs_max)).expect("a claim is small");
            waiting.extend(here.map(|(lane, jobs)| (lane.clone(), count(jobs))));
        }
        let mut running: BTreeMap<Lane, u32> = BTreeMap::new();
        for job in self.running.values() {
            if job.facts.kind.as_str() == demand.lane.kind() {
                *running.entry(job.facts.lane()).or_default() += 1;
            }
        }
        let running: Vec<_> = running.into_iter().collect();
        let plan = plan(&GateScene {
            base: &demand.lane,
            gates: &gates,
            running: &running,
            buckets: &self.buckets,
            waiting: &waiting,
            jobs_max: u32::try_from(jobs_max).expect("a claim is small"),
            now,
        });
        let changed = spend(&demand.lane, &gates, &self.buckets, &plan.quotas, now);
        self.buckets.extend(changed);
        if let Some(gate) = self.gates.get_mut(&GateName::of_lane(&demand.lane)) {
            gate.turn = plan.turn;
        }
        let of_lane = |(lane, quota): &(Lane, u32)| ready[lane].iter().take(*quota as usize);
        let mut chosen: Vec<_> = plan.quotas.iter().flat_map(of_lane).copied().collect();
        chosen.sort_unstable();
        let mut jobs = Vec::new();
        for (_, id) in chosen {
            jobs.push(self.hand_out(id, request, demand, now));
        }
        (jobs, plan.open_at)
    }

    /// What could be claimed of a lane and those of its tenants, best first.
    fn ready(
        &self,
        base: &Lane,
        now: Timestamp,
    ) -> BTreeMap<Lane, Vec<(Timestamp, roundsman_core::jobs::JobId)>> {
        let mut lanes: BTreeMap<Lane, Vec<_>> = BTreeMap::new();
        for job in self.waiting.values() {
            let lane = job.facts.lane();
            if lane.base() == *base && job.due_at() <= now && !self.key_is_running(job) {
                lanes.entry(lane).or_default().push((job.rank(), job.facts.id));
            }
        }
        for jobs in lanes.values_mut() {
            jobs.sort_unstable();
        }
        lanes
    }
}
