//! Disks that are too small, and disks that fail: for a server whose database is on one.

use std::fs::File;
use std::io::{ErrorKind, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use rustix::process::Signal;
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

use crate::child::ManagedChild;

const READY_LIMIT: Duration = Duration::from_secs(20);
/// What is written at once to fill a disk; then page by page.
const LARGE_BYTES: usize = 64 * 1024;
const PAGE_BYTES: usize = 4096;
const BALLAST: &str = "ballast";

/// Mounts in a namespace of its own, and stays until its standard input is closed: which it is when
/// the test ends, however it ends. The mount goes with the last process in the namespace.
const KEEPER: &str =
    "mount -t tmpfs -o size=\"$1\"m,mode=0755 small \"$2\" && echo mounted && exec cat >/dev/null";

/// A file system of a few MiB in memory that only those see who are started by
/// [`SmallDisk::program`].
#[derive(Debug)]
pub struct SmallDisk {
    keeper: Child,
    /// Where it is mounted, and the program beside it.
    folder: TempDir,
}

impl SmallDisk {
    /// Needs the right to mount; without it this fails, because a test of full disks that fills
    /// none proves nothing.
    pub async fn mount(size_mib: u32) -> Result<Self> {
        let folder = tempfile::Builder::new().prefix("disk-").tempdir()?;
        let mounted = folder.path().join("mounted");
        std::fs::create_dir(&mounted)?;
        let mut command = Command::new("unshare");
        command.args(["--mount", "--propagation", "private", "sh", "-c", KEEPER, "sh"]);
        command.arg(size_mib.to_string()).arg(&mounted).kill_on_drop(true);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut keeper = command.spawn().context("cannot start unshare (util-linux)")?;
        let output = keeper.stdout.take().context("no standard output")?;
        let mut lines = BufReader::new(output).lines();
        let said = tokio::time::timeout(READY_LIMIT, lines.next_line()).await;
        let said = said.context("mounting hangs")??;
        if said.as_deref() != Some("mounted") {
            let output = keeper.wait_with_output().await?;
            bail!(
                "a small file system cannot be mounted, and tests of full disks need one: run them \
                 as root, as scripts/test does. It says: {}",
                String::from_utf8_lossy(&output.stderr).trim()
            );
        }
        Ok(SmallDisk { keeper, folder })
    }

    /// Where those find it who are on it.
    pub fn path(&self) -> PathBuf {
        self.folder.path().join("mounted")
    }

    /// The same place as this process finds it.
    pub fn seen_from_outside(&self) -> Result<PathBuf> {
        let pid = self.pid()?;
        let path = self.path();
        let inside = path.strip_prefix("/").context("the folder's path is not absolute")?;
        Ok(Path::new("/proc").join(pid.to_string()).join("root").join(inside))
    }

    /// A program that runs `binary` where the disk is mounted. It becomes the binary, so that
    /// signals reach it.
    pub fn program(&self, binary: &str) -> Result<PathBuf> {
        let path = self.folder.path().join("on-the-disk");
        let namespace = format!("/proc/{}/ns/mnt", self.pid()?);
        let text = format!("#!/bin/sh\nexec nsenter --mount={namespace} -- '{binary}' \"$@\"\n");
        std::fs::write(&path, text)?;
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o700))?;
        Ok(path)
    }

    /// Takes all the room that is left.
    pub fn fill(&self) -> Result<()> {
        let path = self.seen_from_outside()?.join(BALLAST);
        let mut file = File::options().create(true).append(true).open(path)?;
        for bytes in [LARGE_BYTES, PAGE_BYTES] {
            let block = vec![b'x'; bytes];
            loop {
                match file.write(&block) {
                    Ok(_) => {}
                    Err(error) if error.kind() == ErrorKind::StorageFull => break,
                    Err(error) => return Err(error).context("cannot fill the disk"),
                }
            }
        }
        Ok(())
    }

    /// Gives back what [`SmallDisk::fill`] took.
    pub fn free(&self) -> Result<()> {
        Ok(std::fs::remove_file(self.seen_from_outside()?.join(BALLAST))?)
    }

    /// Makes it read-only, or not. Linux refuses the former while a file on it is open for writing.
    pub async fn set_read_only(&self, read_only: bool) -> Result<()> {
        let mut command = Command::new("nsenter");
        command.arg(format!("--mount=/proc/{}/ns/mnt", self.pid()?)).kill_on_drop(true);
        let option = if read_only { "remount,ro" } else { "remount,rw" };
        let output = command.args(["mount", "-o", option]).arg(self.path()).output().await?;
        ensure!(output.status.success(), "{option}: {}", String::from_utf8_lossy(&output.stderr));
        Ok(())
    }

    fn pid(&self) -> Result<u32> {
        self.keeper.id().context("the keeper of the mount has ended")
    }
}

/// The calls by which a database changes its files.
const WRITING: &str = "pwrite64,pwritev,write,ftruncate,fallocate,fsync,fdatasync";

/// A process whose writes to certain files fail until this is ended or dropped: `strace` stands
/// between it and the system.
///
/// What a file system answers that has turned read-only is shown in this way too: Linux refuses to
/// remount one while a file on it is open for writing.
#[derive(Debug)]
pub struct FailingWrites {
    strace: ManagedChild,
}

impl FailingWrites {
    /// `error` is the name of what the system answers, such as `EIO`.
    pub async fn begin(pid: u32, files: &[PathBuf], error: &str, log: &Path) -> Result<Self> {
        let mut command = Command::new("strace");
        command.arg("-f").arg("-p").arg(pid.to_string());
        command.arg("-o").arg("/dev/null").arg("-e").arg(format!("trace={WRITING}"));
        command.arg("-e").arg(format!("inject={WRITING}:error={error}"));
        for file in files {
            command.arg("-P").arg(file);
        }
        let mut strace = ManagedChild::spawn(command, log)?;
        let attached = async || {
            let said = std::fs::read_to_string(log).unwrap_or_default();
            said.lines().any(|line| line.contains(" attached"))
        };
        strace.wait_ready(READY_LIMIT, attached).await.context("strace does not attach")?;
        Ok(FailingWrites { strace })
    }

    /// From here on everything works again.
    pub async fn end(mut self) -> Result<()> {
        self.strace.end(Signal::TERM, READY_LIMIT).await
    }
}

/// How much processor time a process has used so far.
pub fn processor_time(pid: u32) -> Result<Duration> {
    // In ticks of a hundredth of a second, which is what Linux shows on every architecture we run on.
    const TICK: Duration = Duration::from_millis(10);
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
    // The second field is the name, in parentheses, and may contain anything.
    let (_, rest) = stat.rsplit_once(')').context("no name in the process's state")?;
    let fields: Vec<&str> = rest.split_whitespace().collect();
    ensure!(fields.len() > 12, "the process's state is too short: {stat}");
    let ticks = fields[11].parse::<u32>()? + fields[12].parse::<u32>()?;
    Ok(TICK * ticks)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::eventually;

    #[tokio::test]
    async fn a_small_disk_is_seen_by_its_own_processes_alone_and_fills() {
        let disk = SmallDisk::mount(2).await.unwrap();
        assert!(std::fs::read_dir(disk.path()).unwrap().next().is_none());
        let outside = disk.seen_from_outside().unwrap();
        let program = disk.program("/bin/sh").unwrap();
        let script = format!("echo hello > '{}/said'", disk.path().display());
        let status = Command::new(&program).args(["-c", &script]).status().await.unwrap();
        assert!(status.success());
        assert!(!disk.path().join("said").exists(), "it is mounted for everybody");
        assert_eq!(std::fs::read_to_string(outside.join("said")).unwrap(), "hello\n");

        disk.fill().unwrap();
        let full = std::fs::write(outside.join("more"), "x").unwrap_err();
        assert_eq!(full.kind(), ErrorKind::StorageFull);
        disk.free().unwrap();
        std::fs::write(outside.join("more"), "x").unwrap();

        disk.set_read_only(true).await.unwrap();
        let refused = std::fs::write(outside.join("more"), "y").unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::ReadOnlyFilesystem);
        disk.set_read_only(false).await.unwrap();
        std::fs::write(outside.join("more"), "y").unwrap();
    }

    #[tokio::test]
    async fn writes_fail_for_as_long_as_they_are_told_to() {
        let folder = tempfile::tempdir().unwrap();
        let (file, other) = (folder.path().join("file"), folder.path().join("other"));
        let script = format!(
            "while :; do echo 1 > '{}' || echo failed >&2; echo 1 > '{}'; done",
            file.display(),
            other.display()
        );
        let log = folder.path().join("log");
        let mut command = Command::new("sh");
        command.args(["-c", &script]);
        let writer = ManagedChild::spawn(command, &log).unwrap();
        eventually(READY_LIMIT, async || other.exists().then_some(())).await.unwrap();
        let failures = || std::fs::read_to_string(&log).unwrap().matches("failed").count();
        assert_eq!(failures(), 0);
        let strace_log = folder.path().join("strace");
        let pid = writer.pid().unwrap();
        let failing = FailingWrites::begin(pid, &[file], "EIO", &strace_log).await.unwrap();
        eventually(READY_LIMIT, async || (failures() > 3).then_some(())).await.unwrap();
        failing.end().await.unwrap();
        let after = failures();
        let used = processor_time(pid).unwrap();
        eventually(READY_LIMIT, async || {
            (processor_time(pid).unwrap() > used + Duration::from_millis(50)).then_some(())
        })
        .await
        .unwrap();
        assert!(failures() <= after + 1, "it still fails");
    }
}
