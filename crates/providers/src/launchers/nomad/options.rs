//! What an operator chooses about Nomad.

use std::time::Duration;

use secrecy::SecretString;

use crate::launchers::Installation;

/// Where Nomad is and what it runs. Not `Debug`: the environment may hold secrets.
#[derive(Clone)]
pub struct NomadOptions {
    pub installation: Installation,
    /// `http://host:port` or `https://…`.
    pub address: String,
    /// The parameterized job.
    pub job: String,
    pub token: Option<SecretString>,
    pub namespace: Option<String>,
    pub region: Option<String>,
    /// Certificates to trust beside the system's, as PEM.
    pub ca_pem: Option<String>,
    /// Set beside what a bot is launched with.
    pub env: Vec<(String, String)>,
    /// For one request.
    pub request_max: Duration,
    /// For a job to end after it was stopped; longer than the task's kill timeout.
    pub remove_max: Duration,
}

/// Why Nomad cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidNomadOptions {
    #[error("Nomad is named by http://host:port or https://host:port")]
    Address,
    #[error("the token for Nomad has characters that no header can carry")]
    Token,
    #[error("{0}")]
    Tls(String),
}

impl NomadOptions {
    pub fn new(installation: Installation, address: String, job: String) -> Self {
        NomadOptions {
            installation,
            address,
            job,
            token: None,
            namespace: None,
            region: None,
            ca_pem: None,
            env: Vec::new(),
            request_max: Duration::from_secs(15),
            remove_max: Duration::from_secs(30),
        }
    }
}
