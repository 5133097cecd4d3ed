//! Bots as dispatched instances of a parameterized Nomad job.
//!
//! The job is the operator's. It is a `batch` job that neither restarts nor reschedules, and it
//! permits what is dispatched with it:
//!
//! ```hcl
//! parameterized {
//!   payload       = "required" # the bot's environment, as a JSON object
//!   meta_required = ["user_id", "meeting_id", "platform", "native_meeting_id", "connection_id",
//!                    "roundsman_installation", "roundsman_name"]
//!   meta_optional = ["meeting_url", "bot_name", "user_token", "language", "task"]
//! }
//! ```
//!
//! Nomad numbers its instances itself, so a workload is found by its name in the instance's
//! metadata; the name is also the dispatch's idempotency token, so that a dispatch whose answer was
//! lost is not done twice. Nomad collects ended instances as garbage after a while.
//!
//! Nomad does not run where this was developed. The adapter follows its documented HTTP API, and is
//! tested against a stand-in that checks every request by that document.
//!
//! Invariants:
//! - Only instances whose metadata carries our installation and name are touched.
//! - An instance is gone when Nomad lists it no more *and* had said that nothing of it runs.

mod api;
mod options;
mod wire;

use std::collections::HashMap;

use async_trait::async_trait;
use hyper::Method;
use roundsman_core::bots::WorkloadId;
use roundsman_core::ports::{
    LaunchSpec, Launched, Launcher, Removed, SeenWorkload, Sighting, Unanswered,
};

use crate::wait;
use api::{Api, encoded};
pub use options::{InvalidNomadOptions, NomadOptions};
use wire::{Allocations, Instance};

/// Metadata by which an instance is found again.
const INSTALLATION: &str = "roundsman_installation";
const NAME: &str = "roundsman_name";

/// Instances of the job that are read one by one when the list does not tell their metadata.
const READS_MAX: usize = 200;

/// Runs bots on a Nomad cluster.
pub struct NomadLauncher {
    options: NomadOptions,
    api: Api,
}

impl NomadLauncher {
    pub fn new(options: NomadOptions) -> Result<Self, InvalidNomadOptions> {
        let api = Api::new(&options)?;
        Ok(NomadLauncher { options, api })
    }

    /// Every instance of ours, ended ones included.
    async fn instances(&self) -> Result<Vec<(WorkloadId, Instance)>, Unanswered> {
        let prefix = format!("{}/dispatch-", self.options.job);
        let query = [("prefix", prefix.as_str()), ("meta", "true")];
        let reply = self.api.call(Method::GET, "/v1/jobs", &query, None).await?;
        // We asked for no pages: one that announces another is not the whole list.
        if reply.has_more {
            return Err(Unanswered::new("Nomad answered with a part of the list"));
        }
        let mut listed: Vec<Instance> = reply.expect_json()?;
        listed.retain(|instance| instance.parent_id == self.options.job);
        self.complete_meta(&mut listed).await?;
        let ours =
            listed.into_iter().filter_map(|instance| Some((self.whose(&instance)?, instance)));
        Ok(ours.collect())
    }

    /// Older releases leave the metadata out of a list.
    async fn complete_meta(&self, listed: &mut [Instance]) -> Result<(), Unanswered> {
        let bare = || listed.iter().filter(|instance| instance.meta.is_none()).count();
        if bare() > READS_MAX {
            return Err(Unanswered::new("Nomad lists too many jobs without their metadata"));
        }
        for instance in listed.iter_mut().filter(|instance| instance.meta.is_none()) {
            let path = format!("/v1/job/{}", encoded(&instance.id));
            let reply = self.api.call(Method::GET, &path, &[], None).await?;
            let read: Instance = reply.expect_json()?;
            instance.meta = Some(read.meta.unwrap_or_default());
        }
        Ok(())
    }

    fn whose(&self, instance: &Instance) -> Option<WorkloadId> {
        let meta = instance.meta.as_ref()?;
        let installation = meta.get(INSTALLATION)?;
        let workload = self.options.installation.workload_of(meta.get(NAME)?)?;
        (installation == self.options.installation.as_str()).then_some(workload)
    }

    async fn find(&self, workload: WorkloadId) -> Result<Option<Instance>, Unanswered> {
        let mut found = self.instances().await?;
        found.retain(|(of, _)| *of == workload);
        if found.len() > 1 {
            return Err(Unanswered::new("Nomad has two instances of one name"));
        }
        Ok(found.pop().map(|(_, instance)| instance))
    }

    /// Nomad calls an instance dead as soon as it should be; its allocations say whether it is.
    async fn sighting(&self, instance: &Instance) -> Result<Sighting, Unanswered> {
        let running = Sighting::Running { handle: instance.id.clone() };
        match instance.status.as_str() {
            "pending" | "running" => return Ok(running),
            "dead" => {}
            other => return Err(Unanswered::new(format!("Nomad says that a job is {other:?}"))),
        }
        let path = format!("/v1/job/{}/allocations", encoded(&instance.id));
        let reply = self.api.call(Method::GET, &path, &[], None).await?;
        let allocations: Allocations = reply.expect_json()?;
        if allocations.have_ended()? {
            return Ok(Sighting::Exited { exit_code: allocations.exit_code() });
        }
        Ok(running)
    }

    async fn deregister(&self, instance: &Instance, purge: &str) -> Result<(), Unanswered> {
        let path = format!("/v1/job/{}", encoded(&instance.id));
        let reply = self.api.call(Method::DELETE, &path, &[("purge", purge)], None).await?;
        // Somebody else may have been faster.
        if reply.status == 404 && reply.says("not found") {
            return Ok(());
        }
        reply.expect_json::<HashMap<String, serde_json::Value>>().map(drop)
    }
}

#[async_trait]
impl Launcher for NomadLauncher {
    async fn ensure(&self, spec: &LaunchSpec) -> Result<Launched, Unanswered> {
        let name = self.options.installation.name_of(spec.workload);
        let body = match wire::dispatch(&self.options, spec, &name) {
            Ok(body) => body,
            Err(reason) => return Ok(Launched::Refused { reason }),
        };
        let path = format!("/v1/job/{}/dispatch", encoded(&self.options.job));
        let query = [("idempotency_token", name.as_str())];
        let reply = self.api.call(Method::POST, &path, &query, Some(body)).await?;
        if reply.is_refusal() {
            return Ok(Launched::Refused { reason: reply.message() });
        }
        let dispatched: wire::Dispatched = reply.expect_json()?;
        // The token may have met an instance that was there already.
        match self.find(spec.workload).await? {
            Some(instance) if instance.id == dispatched.id => match self.sighting(&instance).await?
            {
                Sighting::Exited { exit_code } => Ok(Launched::Exited { exit_code }),
                Sighting::Running { .. } | Sighting::Absent => {
                    Ok(Launched::Running { handle: instance.id })
                }
            },
            _ => {
                Err(Unanswered::new(format!("{} was dispatched and is not listed", dispatched.id)))
            }
        }
    }

    async fn look(&self, workload: WorkloadId) -> Result<Sighting, Unanswered> {
        match self.find(workload).await? {
            Some(instance) => self.sighting(&instance).await,
            None => Ok(Sighting::Absent),
        }
    }

    async fn list(&self) -> Result<Vec<SeenWorkload>, Unanswered> {
        let mut seen = Vec::new();
        for (workload, instance) in self.instances().await? {
            seen.push(SeenWorkload { workload, sighting: self.sighting(&instance).await? });
        }
        Ok(seen)
    }

    async fn terminate(&self, workload: WorkloadId) -> Result<(), Unanswered> {
        match self.find(workload).await? {
            // Stopping sends the task's kill signal, and kills after the task's kill timeout.
            Some(instance) => self.deregister(&instance, "false").await,
            None => Ok(()),
        }
    }

    async fn remove(&self, workload: WorkloadId) -> Result<Removed, Unanswered> {
        let Some(instance) = self.find(workload).await? else { return Ok(Removed::default()) };
        let exit_code = match self.sighting(&instance).await? {
            Sighting::Exited { exit_code } => exit_code,
            Sighting::Running { .. } | Sighting::Absent => {
                self.deregister(&instance, "false").await?;
                None
            }
        };
        // Purged at once, an instance would vanish from the list while it still runs.
        let ended = wait::until(self.options.remove_max, || async move {
            let sighting = self.look(workload).await;
            matches!(sighting, Ok(Sighting::Exited { .. } | Sighting::Absent)).then_some(())
        });
        ended.await.ok_or_else(|| Unanswered::new("the job was stopped and still runs"))?;
        self.deregister(&instance, "true").await?;
        let gone = wait::until(self.options.remove_max, || async move {
            matches!(self.find(workload).await, Ok(None)).then_some(())
        });
        gone.await.ok_or_else(|| Unanswered::new("the job was purged and is still listed"))?;
        Ok(Removed { was_there: true, exit_code })
    }

    fn name(&self) -> &'static str {
        "nomad"
    }
}
