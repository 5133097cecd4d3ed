//! The data folder: whether it is there, whose it is, and whether it has room.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use super::finding::Finding;
use crate::config::{Config, DatabaseTarget};

const AREA: &str = "data folder";
/// Below this a backup, a migration or a full log ends in trouble.
const FREE_MIB_MIN: u64 = 512;

pub(super) fn look(config: &Config) -> Vec<Finding> {
    let folder = &config.server.data;
    let needed = matches!(config.database.target, DatabaseTarget::Sqlite(_));
    if !folder.exists() {
        let found = format!("{} does not exist yet", folder.display());
        return vec![Finding::fine(AREA, format!("{found}; the first start makes it"))];
    }
    let mut findings = vec![writable(folder, needed), private(folder)];
    findings.push(room(folder));
    findings
}

fn writable(folder: &Path, needed: bool) -> Finding {
    match tempfile_in(folder) {
        Ok(()) => Finding::fine(AREA, format!("{} can be written to", folder.display())),
        Err(error) if needed => {
            let found = format!("{} cannot be written to: {error}", folder.display());
            Finding::wrong(
                AREA,
                found,
                "give it to the user that runs the server, or name another (--data)",
            )
        }
        Err(error) => {
            let found = format!("{} cannot be written to: {error}", folder.display());
            Finding::doubtful(AREA, found, "logs of bots and media cannot be kept there")
        }
    }
}

fn tempfile_in(folder: &Path) -> std::io::Result<()> {
    let probe = folder.join(".doctor");
    std::fs::write(&probe, b"")?;
    std::fs::remove_file(&probe)
}

fn private(folder: &Path) -> Finding {
    let mode =
        std::fs::metadata(folder).map_or(0, |metadata| metadata.permissions().mode() & 0o777);
    let for_others = mode & 0o077;
    if for_others == 0 {
        return Finding::fine(AREA, "is its owner's alone");
    }
    let found = format!("others may look into it (mode {mode:03o})");
    Finding::doubtful(AREA, found, "it holds secrets and what users store: chmod 700")
}

fn room(folder: &Path) -> Finding {
    match rustix::fs::statvfs(folder) {
        Ok(disk) => {
            let free_mib = disk.f_bavail.saturating_mul(disk.f_frsize) >> 20;
            if free_mib >= FREE_MIB_MIN {
                return Finding::fine(AREA, format!("{free_mib} MiB are free"));
            }
            Finding::wrong(
                AREA,
                format!("{free_mib} MiB are free"),
                "make room: a full disk stops all writing",
            )
        }
        Err(error) => Finding::doubtful(AREA, format!("its disk cannot be asked: {error}"), ""),
    }
}
