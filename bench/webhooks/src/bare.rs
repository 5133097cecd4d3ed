//! What HTTP costs on this machine at least: the process of `bin/bare.rs`.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, ensure};
use bench_support::apart::start_beside;

use crate::running::Room;

pub(crate) struct Bare {
    child: Child,
    address: String,
}

impl Bare {
    /// Returns when it has said where it is.
    pub(crate) fn start(binary: &Path, room: Room) -> anyhow::Result<Bare> {
        let mut command = Command::new(binary);
        command.env_clear().stdin(Stdio::null()).stdout(Stdio::piped());
        let child = match room {
            Room::Everywhere => command.spawn().context("cannot start the bare loop")?,
            Room::BesideTheClient => start_beside(&mut command)?,
        };
        let mut bare = Bare { child, address: String::new() };
        let said = bare.child.stdout.take().context("no standard output")?;
        BufReader::new(said).read_line(&mut bare.address)?;
        bare.address = bare.address.trim().to_owned();
        ensure!(!bare.address.is_empty(), "the bare loop did not start");
        Ok(bare)
    }

    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Bare {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
