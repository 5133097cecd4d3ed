//! The adapters of the [`Launcher`](roundsman_core::ports::Launcher) port.
//!
//! Each finds its workloads by the name that meeting and attempt give them, in the runtime itself:
//! none keeps a list of its own that a crash could leave wrong. One suite
//! (the `conformance` feature) says what all of them do alike.

mod docker;
mod installation;
mod nomad;
mod process;

pub use docker::{DockerAddress, DockerLauncher, DockerOptions, InvalidDockerAddress};
pub use installation::{Installation, InvalidInstallation};
pub use nomad::{InvalidNomadOptions, NomadLauncher, NomadOptions};
pub use process::{ProcessLauncher, ProcessOptions};
