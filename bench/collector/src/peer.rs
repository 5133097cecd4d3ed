//! The reference for comparison: a consumer in Python that does what the reference collector does
//! in Redis for each message, as a process of its own.

use std::path::Path;
use std::process::{Child, Command, Stdio};

use anyhow::Context;
use bench_support::server::SECRET;

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/peer.py");

pub(crate) struct Peer {
    child: Child,
}

impl Peer {
    pub(crate) fn start(python: &Path, redis: &str) -> anyhow::Result<Peer> {
        let mut command = Command::new(python);
        command.arg(SCRIPT).arg(redis).env("ADMIN_TOKEN", SECRET);
        let child = command.stdin(Stdio::null()).spawn();
        Ok(Peer { child: child.with_context(|| format!("cannot start {}", python.display()))? })
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
