//! What an operator chooses about containers.

use std::path::PathBuf;
use std::time::Duration;

use crate::launchers::Installation;

/// Where the runtime listens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DockerAddress {
    Unix(PathBuf),
    Tcp { host: String, port: u16 },
}

/// The text is no address of a runtime.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a container runtime is named by unix:///path/of.sock or tcp://host:port")]
pub struct InvalidDockerAddress;

impl DockerAddress {
    pub fn parse(text: &str) -> Result<Self, InvalidDockerAddress> {
        if let Some(path) = text.strip_prefix("unix://").filter(|path| path.starts_with('/')) {
            return Ok(DockerAddress::Unix(PathBuf::from(path)));
        }
        let url = url::Url::parse(text).map_err(|_| InvalidDockerAddress)?;
        let is_plain = url.username().is_empty() && matches!(url.path(), "" | "/");
        match (url.scheme(), url.host_str(), url.port()) {
            ("tcp", Some(host), Some(port)) if is_plain => {
                let host = host.trim_start_matches('[').trim_end_matches(']');
                Ok(DockerAddress::Tcp { host: host.to_owned(), port })
            }
            _ => Err(InvalidDockerAddress),
        }
    }
}

/// How and where bots run. Not `Debug`: the environment may hold secrets.
#[derive(Clone)]
pub struct DockerOptions {
    pub installation: Installation,
    pub address: DockerAddress,
    pub image: String,
    /// Instead of the image's own.
    pub command: Option<Vec<String>>,
    /// `host`, `bridge`, or the name of a network.
    pub network: Option<String>,
    pub memory_bytes_max: Option<i64>,
    pub cpus_max: Option<f64>,
    pub pids_max: Option<i64>,
    /// Set beside what a bot is launched with.
    pub env: Vec<(String, String)>,
    /// Added to ours, which cannot be replaced.
    pub labels: Vec<(String, String)>,
    /// `name:address` lines for the container's hosts file.
    pub extra_hosts: Vec<String>,
    /// For one request.
    pub request_max: Duration,
    /// For a container to be gone after its removal was asked for.
    pub remove_max: Duration,
}

impl DockerOptions {
    pub fn new(installation: Installation, address: DockerAddress, image: String) -> Self {
        DockerOptions {
            installation,
            address,
            image,
            command: None,
            network: None,
            memory_bytes_max: None,
            cpus_max: None,
            pids_max: None,
            env: Vec::new(),
            labels: Vec::new(),
            extra_hosts: Vec::new(),
            request_max: Duration::from_secs(30),
            remove_max: Duration::from_secs(20),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read() {
        let unix = DockerAddress::Unix(PathBuf::from("/run/docker.sock"));
        assert_eq!(DockerAddress::parse("unix:///run/docker.sock"), Ok(unix));
        for (text, host, port) in [
            ("tcp://docker:2375", "docker", 2375),
            ("tcp://127.0.0.1:80/", "127.0.0.1", 80),
            ("tcp://[::1]:2375", "::1", 2375),
        ] {
            let expected = DockerAddress::Tcp { host: host.to_owned(), port };
            assert_eq!(DockerAddress::parse(text), Ok(expected));
        }
        for bad in ["", "unix://docker.sock", "http://docker:2375", "tcp://docker", "tcp://a:1/b"] {
            assert_eq!(DockerAddress::parse(bad), Err(InvalidDockerAddress), "{bad}");
        }
    }
}
