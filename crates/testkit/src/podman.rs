//! A private Podman behind Docker's API, with images made from files of this machine.

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::Output;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use rustix::process::Signal;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::process::Command;

use crate::child::ManagedChild;
use crate::{env, eventually, real_time};

const READY_LIMIT: Duration = Duration::from_secs(30);
const KILL_LIMIT: Duration = Duration::from_secs(20);
/// How long a destructor waits for others to be done with the folder: ten seconds.
const CLEANUP_LOOKS_MAX: u32 = 500;
const CLEANUP_PAUSE: Duration = Duration::from_millis(20);

/// Works without a registry, without systemd and without networks of its own.
const CONTAINERS_CONF: &str = r#"[containers]
default_ulimits = ["nofile=1024:1024", "nproc=1000:1000"]
netns = "host"
[engine]
cgroup_manager = "cgroupfs"
runtime = "runc"
"#;

/// What Podman itself needs of the environment.
const INHERITED: [&str; 4] = ["PATH", "HOME", "XDG_RUNTIME_DIR", "TMPDIR"];

/// Commands of the shell that scripts in a [`PodmanService::import_busybox`] image may use.
const APPLETS: [&str; 14] = [
    "cat", "cut", "echo", "env", "false", "head", "kill", "printf", "sh", "sleep", "sort", "tail",
    "true", "wget",
];

/// `podman system service` with storage of its own. Its containers, images and folder are removed
/// when it is dropped.
#[derive(Debug)]
pub struct PodmanService {
    child: Option<ManagedChild>,
    folder: TempDir,
}

impl PodmanService {
    /// Starts the service and waits until it answers. Podman is part of what tests need: without it
    /// this fails.
    pub async fn start() -> Result<Self> {
        let folder = tempfile::Builder::new().prefix("podman-").tempdir()?;
        std::fs::write(folder.path().join("containers.conf"), CONTAINERS_CONF)?;
        let mut service = PodmanService { child: None, folder };
        service.start_again().await?;
        Ok(service)
    }

    /// The path of the socket that speaks Docker's API.
    pub fn socket(&self) -> PathBuf {
        self.folder.path().join("podman.sock")
    }

    /// The socket as a setting has it.
    pub fn url(&self) -> String {
        format!("unix://{}", self.socket().display())
    }

    /// Ends the service as a crash would; containers live on.
    pub async fn kill_9(&mut self) -> Result<()> {
        if let Some(mut child) = self.child.take() {
            child.end(Signal::KILL, KILL_LIMIT).await?;
        }
        Ok(())
    }

    /// Freezes the service: connections are taken and nothing answers.
    pub async fn pause(&self) -> Result<()> {
        self.running()?.signal(Signal::STOP)?;
        // Its threads stop one by one, and one that still runs still answers.
        let pid = self.running()?.pid().context("the service has ended")?;
        eventually(KILL_LIMIT, async || all_threads_stopped(pid).then_some(())).await?;
        Ok(())
    }

    pub fn resume(&self) -> Result<()> {
        self.running()?.signal(Signal::CONT)
    }

    /// Starts the service after [`PodmanService::kill_9`], with the same containers and images.
    pub async fn start_again(&mut self) -> Result<()> {
        let _ = std::fs::remove_file(self.socket());
        let mut command: Command = self.podman().into();
        command.args(["system", "service", "--time=0", &self.url()]);
        let log = self.folder.path().join("podman.log");
        let mut child = ManagedChild::spawn(command, &log)
            .context("podman is part of what the tests need: `scripts/test` installs it")?;
        let socket = self.socket();
        let ready = async || answers(&socket).await.unwrap_or(false);
        child.wait_ready(READY_LIMIT, ready).await.context("podman system service")?;
        self.child = Some(child);
        Ok(())
    }

    /// Makes an image of everything in a folder, such as one statically linked program.
    pub async fn import_folder(&self, rootfs: &Path, image: &str) -> Result<()> {
        let archive = self.folder.path().join("image.tar");
        let mut tar = Command::new("tar");
        tar.arg("-C").arg(rootfs).arg("-cf").arg(&archive).arg(".");
        checked(&tar.output().await?, "tar")?;
        let mut import: Command = self.podman().into();
        import.arg("import").arg(&archive).arg(image);
        checked(&import.output().await?, "podman import")?;
        std::fs::remove_file(archive)?;
        Ok(())
    }

    /// Makes an image of programs of this machine, each at its path in the image. They have to be
    /// statically linked.
    pub async fn import_programs(&self, programs: &[(&Path, &str)], image: &str) -> Result<()> {
        let rootfs = tempfile::tempdir_in(self.folder.path())?;
        for (program, path) in programs {
            let inside = rootfs.path().join(path.trim_start_matches('/'));
            std::fs::create_dir_all(inside.parent().context("a program has a folder")?)?;
            std::fs::copy(program, &inside)
                .with_context(|| format!("cannot copy {}", program.display()))?;
        }
        make_folders(rootfs.path())?;
        self.import_folder(rootfs.path(), image).await
    }

    /// Makes an image with a shell and a few commands, from Debian's `busybox-static`.
    pub async fn import_busybox(&self, image: &str) -> Result<()> {
        let rootfs = tempfile::tempdir_in(self.folder.path())?;
        make_folders(rootfs.path())?;
        let bin = rootfs.path().join("bin");
        std::fs::create_dir(&bin)?;
        let busybox = ["/bin/busybox", "/usr/bin/busybox"].into_iter().find(|p| is_file(p));
        let busybox = busybox.context(
            "busybox (package busybox-static) is part of what the tests need: `scripts/test` \
             installs it",
        )?;
        std::fs::copy(busybox, bin.join("busybox"))?;
        for applet in APPLETS {
            std::os::unix::fs::symlink("busybox", bin.join(applet))?;
        }
        self.import_folder(rootfs.path(), image).await
    }

    /// The names of all containers, ended ones included, sorted.
    pub async fn containers(&self) -> Result<Vec<String>> {
        let mut list: Command = self.podman().into();
        list.args(["ps", "--all", "--format", "{{.Names}}"]);
        let output = checked(&list.output().await?, "podman ps")?;
        let mut names: Vec<String> = output.lines().map(str::to_owned).collect();
        names.sort();
        Ok(names)
    }

    /// What a container has written to its standard output and error.
    pub async fn logs(&self, container: &str) -> Result<String> {
        let mut logs: Command = self.podman().into();
        logs.args(["logs", container]);
        let output = logs.output().await?;
        Ok(checked(&output, "podman logs")? + &String::from_utf8_lossy(&output.stderr))
    }

    /// Any other command of Podman, such as `["kill", "--signal", "KILL", "name"]`.
    pub async fn run(&self, arguments: &[&str]) -> Result<String> {
        let mut command: Command = self.podman().into();
        command.args(arguments);
        checked(&command.output().await?, "podman")
    }

    /// The command with its private storage.
    fn podman(&self) -> std::process::Command {
        let folder = self.folder.path();
        let mut command = std::process::Command::new("podman");
        command.env_clear().env("CONTAINERS_CONF", folder.join("containers.conf"));
        for name in INHERITED {
            command.envs(env::optional(name).map(|value| (name, value)));
        }
        command.arg("--root").arg(folder.join("root"));
        command.arg("--runroot").arg(folder.join("run"));
        command.arg("--tmpdir").arg(folder.join("tmp"));
        command.args(["--storage-driver", "vfs"]);
        command
    }

    fn running(&self) -> Result<&ManagedChild> {
        self.child.as_ref().context("the service is stopped")
    }
}

impl Drop for PodmanService {
    fn drop(&mut self) {
        // Killed when dropped, so that it starts nothing more while the rest is removed.
        drop(self.child.take());
        let removed = self.podman().args(["rm", "--all", "--force", "--time", "0"]).output();
        // The folder cannot be removed while a container's mounts are in it.
        if let Err(error) = removed {
            #[expect(clippy::print_stderr, reason = "a destructor has nobody to tell")]
            {
                eprintln!("containers were left behind: {error}");
            }
        }
        // What a container's end sets off goes on by itself, and makes folders where it finds none.
        let folder = self.folder.path().to_owned();
        let mut looks = 0;
        while looks < CLEANUP_LOOKS_MAX && is_named_by_a_process(&folder) {
            real_time::pause_thread(CLEANUP_PAUSE);
            looks += 1;
        }
    }
}

fn is_named_by_a_process(folder: &Path) -> bool {
    let folder = folder.as_os_str().as_bytes();
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let arguments = processes.filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok());
    arguments.into_iter().any(|text| text.windows(folder.len()).any(|part| part == folder))
}

fn all_threads_stopped(pid: u32) -> bool {
    let Ok(threads) = std::fs::read_dir(format!("/proc/{pid}/task")) else { return false };
    threads.flatten().all(|thread| {
        let stat = std::fs::read_to_string(thread.path().join("stat")).unwrap_or_default();
        stat.rsplit_once(") ").is_some_and(|(_, state)| state.starts_with('T'))
    })
}

async fn answers(socket: &Path) -> Result<bool> {
    let mut stream = UnixStream::connect(socket).await?;
    stream.write_all(b"GET /_ping HTTP/1.0\r\nHost: podman\r\n\r\n").await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    Ok(answer.starts_with("HTTP/1.0 200") || answer.starts_with("HTTP/1.1 200"))
}

/// Where the runtime mounts what every container has.
fn make_folders(rootfs: &Path) -> Result<()> {
    for name in ["dev", "etc", "proc", "run", "sys", "tmp"] {
        std::fs::create_dir_all(rootfs.join(name))?;
    }
    Ok(())
}

fn is_file(path: &str) -> bool {
    Path::new(path).is_file()
}

fn checked(output: &Output, what: &str) -> Result<String> {
    let errors = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{what}: {}: {errors}", output.status);
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
