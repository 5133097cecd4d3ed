//! Bots as containers, over Docker's HTTP API (version 1.41; Podman speaks it too).
//!
//! A container's name is the workload's, so that one whose making was not confirmed is found by the
//! next try; its labels say whose it is. Containers are not removed by the runtime when they end:
//! the exit code would go with them.
//!
//! Invariants:
//! - A container of the right name with other labels is not ours: it is never started, signalled or
//!   removed.
//! - "Not there" is believed only if the runtime itself says so of containers; a 404 of something
//!   else on that address is no answer.

mod api;
mod options;
mod wire;

use async_trait::async_trait;
use hyper::Method;
use roundsman_core::bots::WorkloadId;
use roundsman_core::ports::{
    LaunchSpec, Launched, Launcher, Removed, SeenWorkload, Sighting, Unanswered,
};
use serde_json::json;

use crate::wait;
use api::{Api, Reply};
pub use options::{DockerAddress, DockerOptions, InvalidDockerAddress};
use wire::{Container, Phase};

/// Labels on every container that we make.
const INSTALLATION: &str = "roundsman.installation";
const MEETING: &str = "roundsman.meeting_id";
const ATTEMPT: &str = "roundsman.attempt";
/// The label by which tools made for Vexa find a user's bots.
const USER: &str = "vexa.user_id";

/// Runs bots as containers.
pub struct DockerLauncher {
    options: DockerOptions,
    api: Api,
}

impl DockerLauncher {
    pub fn new(options: DockerOptions) -> Self {
        let api = Api::new(&options);
        DockerLauncher { options, api }
    }

    /// The workload's container, if there is one. One that only looks like it is an error.
    async fn find(&self, workload: WorkloadId) -> Result<Option<Container>, Unanswered> {
        let name = self.options.installation.name_of(workload);
        let reply = self.api.call(Method::GET, &format!("/containers/{name}/json"), None).await?;
        if reply.status == 404 && reply.says("no such container") {
            return Ok(None);
        }
        let container = wire::inspected(&reply.expect(&[200])?)?;
        if container.workload(&self.options.installation) != Some(workload) {
            return Err(Unanswered::new(format!("the container {name} is not ours")));
        }
        Ok(Some(container))
    }

    /// Makes the container. Whatever the runtime says to that, one of its name may be there: made by
    /// this call, or by an earlier one whose answer was lost.
    async fn create(&self, spec: &LaunchSpec) -> Result<Made, Unanswered> {
        let name = self.options.installation.name_of(spec.workload);
        let path = format!("/containers/create?name={name}");
        let body = wire::creation(&self.options, spec);
        let reply = self.api.call(Method::POST, &path, Some(body)).await?;
        if let Some(container) = self.find(spec.workload).await? {
            return Ok(Made::There(container));
        }
        match reply.status {
            400 | 404 if reply.is_json() => Ok(Made::Refused(reply.message())),
            201 => Err(Unanswered::new(format!("{name} was made and is gone"))),
            _ => Err(reply.unexpected()),
        }
    }

    async fn start(&self, container: Container, spec: &LaunchSpec) -> Result<Launched, Unanswered> {
        let path = format!("/containers/{}/start", container.id);
        let reply = self.api.call(Method::POST, &path, None).await?;
        if matches!(reply.status, 204 | 304) {
            return Ok(Launched::Running { handle: container.id });
        }
        // Somebody else may have started it meanwhile, and it may even have ended.
        let Some(now) = self.find(spec.workload).await? else {
            return Err(Unanswered::new("the container was removed while it was started"));
        };
        match now.phase {
            Phase::Running => Ok(Launched::Running { handle: now.id }),
            Phase::Exited => Ok(Launched::Exited { exit_code: now.exit_code }),
            Phase::Created if reply.says_no_such_program() => {
                self.remove(spec.workload).await?;
                Ok(Launched::Refused { reason: reply.message() })
            }
            Phase::Created | Phase::Removing => Err(reply.unexpected()),
        }
    }

    /// Waits for a removal, which takes its time and may be somebody else's.
    async fn until_gone(&self, workload: WorkloadId) -> Result<(), Unanswered> {
        let gone = wait::until(self.options.remove_max, || async move {
            matches!(self.find(workload).await, Ok(None)).then_some(())
        });
        gone.await.ok_or_else(|| Unanswered::new("the container was removed and is still there"))
    }
}

/// What became of making a container.
enum Made {
    There(Container),
    Refused(String),
}

#[async_trait]
impl Launcher for DockerLauncher {
    async fn ensure(&self, spec: &LaunchSpec) -> Result<Launched, Unanswered> {
        let container = match self.create(spec).await? {
            Made::There(container) => container,
            Made::Refused(reason) => return Ok(Launched::Refused { reason }),
        };
        match container.phase {
            Phase::Created => self.start(container, spec).await,
            Phase::Running => Ok(Launched::Running { handle: container.id }),
            Phase::Exited => Ok(Launched::Exited { exit_code: container.exit_code }),
            Phase::Removing => Err(Unanswered::new("the container is being removed")),
        }
    }

    async fn look(&self, workload: WorkloadId) -> Result<Sighting, Unanswered> {
        let found = self.find(workload).await?;
        Ok(found.map_or(Sighting::Absent, |container| container.sighting()))
    }

    async fn list(&self) -> Result<Vec<SeenWorkload>, Unanswered> {
        let label = format!("{INSTALLATION}={}", self.options.installation.as_str());
        let filters = json!({ "label": [label] }).to_string();
        let filters: String = url::form_urlencoded::byte_serialize(filters.as_bytes()).collect();
        let path = format!("/containers/json?all=true&filters={filters}");
        let reply = self.api.call(Method::GET, &path, None).await?;
        let mut seen = Vec::new();
        for container in wire::listed(&reply.expect(&[200])?)? {
            let Some(workload) = container.workload(&self.options.installation) else {
                tracing::warn!(id = container.id, "a container has our label and is not ours");
                continue;
            };
            seen.push(SeenWorkload { workload, sighting: container.sighting() });
        }
        Ok(seen)
    }

    async fn terminate(&self, workload: WorkloadId) -> Result<(), Unanswered> {
        let Some(container) = self.find(workload).await? else { return Ok(()) };
        if container.phase != Phase::Running {
            return Ok(());
        }
        let path = format!("/containers/{}/kill?signal=SIGTERM", container.id);
        let reply = self.api.call(Method::POST, &path, None).await?;
        if reply.status == 204 {
            return Ok(());
        }
        // Runtimes differ in what they say of a container that has just ended.
        match self.find(workload).await? {
            Some(now) if now.phase == Phase::Running => Err(reply.unexpected()),
            _ => Ok(()),
        }
    }

    async fn remove(&self, workload: WorkloadId) -> Result<Removed, Unanswered> {
        let Some(container) = self.find(workload).await? else { return Ok(Removed::default()) };
        let path = format!("/containers/{}?force=true&v=true", container.id);
        let reply = self.api.call(Method::DELETE, &path, None).await?;
        // Whatever it says, it is gone when it is not found; a removal may also be under way.
        self.until_gone(workload).await.map_err(|gone| match reply.status {
            200 | 204 => gone,
            _ => reply.unexpected(),
        })?;
        Ok(Removed { was_there: true, exit_code: container.exit_code })
    }

    fn name(&self) -> &'static str {
        "docker"
    }
}

impl Reply {
    /// The words of Docker and Podman for a command that the image does not have.
    fn says_no_such_program(&self) -> bool {
        ["executable file not found", "command that was not found", "no such file or directory"]
            .iter()
            .any(|words| self.says(words))
    }
}
