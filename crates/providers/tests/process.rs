//! Bots as processes: the suite, and what only processes do.

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use roundsman_core::bots::WorkloadId;
use roundsman_core::ports::{Launched, Launcher, Removed, Sighting};
use roundsman_providers::conformance::{
    COMMAND, LauncherHost, id, running, spec, until_exited, until_output,
};
use roundsman_providers::launcher_conformance_suite;
use roundsman_providers::launchers::{Installation, ProcessLauncher, ProcessOptions};
use roundsman_testkit::eventually;
use rustix::process::{Pid, Signal, kill_process, kill_process_group, test_kill_process};
use tempfile::TempDir;
use tokio::io::AsyncWriteExt;

const LIMIT: Duration = Duration::from_secs(20);
const FOREVER: &str = "echo ready; while :; do sleep 0.1; done";

launcher_conformance_suite!(ProcessHost::new());

/// A folder and two installations that no other test uses: marks are seen on the whole machine.
struct ProcessHost {
    folder: TempDir,
    installation: String,
}

impl ProcessHost {
    #[expect(clippy::unused_async, reason = "the suite awaits its hosts")]
    async fn new() -> Self {
        let folder = tempfile::Builder::new().prefix("bots").tempdir().unwrap();
        // The random part of the folder's name, without what a name may not have.
        let unique = folder.path().file_name().unwrap().to_str().unwrap();
        let unique: Vec<String> = unique.bytes().map(|byte| format!("{byte:x}")).collect();
        ProcessHost { installation: unique.concat(), folder }
    }

    fn options(&self, installation: &str, command: &[&str]) -> ProcessOptions {
        let installation = Installation::new(installation).unwrap();
        let command = command.iter().copied().map(str::to_owned).collect();
        let mut options = ProcessOptions::new(installation, command, self.bots());
        options.env = vec![
            ("CONFIGURED".to_owned(), "yes".to_owned()),
            ("PATH".to_owned(), "/usr/bin:/bin".to_owned()),
        ];
        options
    }

    fn with(&self, change: impl Fn(&mut ProcessOptions)) -> ProcessLauncher {
        let mut options = self.options(&self.installation, &COMMAND);
        change(&mut options);
        ProcessLauncher::new(options).unwrap()
    }

    fn bots(&self) -> PathBuf {
        self.folder.path().join("bots")
    }

    fn file(&self, workload: WorkloadId, kind: &str) -> PathBuf {
        self.bots().join(format!("{}.{kind}", workload.name(&self.installation)))
    }

    /// Starts it and waits until its script says that it is ready.
    async fn start(&self, workload: WorkloadId, script: &str) -> Pid {
        let launched = self.launcher().ensure(&spec(workload, script)).await.unwrap();
        until_output(self, workload, "ready").await;
        pid_in(&running(launched))
    }
}

impl Drop for ProcessHost {
    /// A test that fails leaves no bot behind.
    fn drop(&mut self) {
        let mark = format!("ROUNDSMAN_WORKLOAD=roundsman-{}-", self.installation);
        for entry in std::fs::read_dir("/proc").unwrap().flatten() {
            let environment = std::fs::read(entry.path().join("environ")).unwrap_or_default();
            if String::from_utf8_lossy(&environment).contains(&mark) {
                let pid = entry.file_name().to_str().and_then(|name| name.parse().ok());
                let _ = pid.and_then(Pid::from_raw).map(|pid| kill_process(pid, Signal::KILL));
            }
        }
    }
}

#[async_trait]
impl LauncherHost for ProcessHost {
    fn launcher(&self) -> Arc<dyn Launcher> {
        Arc::new(self.with(|_| {}))
    }

    fn of_another_installation(&self) -> Arc<dyn Launcher> {
        let mut options = self.options("other", &COMMAND);
        options.installation = Installation::new(&self.installation[1..]).unwrap();
        Arc::new(ProcessLauncher::new(options).unwrap())
    }

    fn of_something_missing(&self) -> Arc<dyn Launcher> {
        let options = self.options(&self.installation, &["/no/such/bot"]);
        Arc::new(ProcessLauncher::new(options).unwrap())
    }

    async fn output(&self, workload: WorkloadId) -> String {
        let log = std::fs::read(self.file(workload, "log")).unwrap_or_default();
        String::from_utf8_lossy(&log).into_owned()
    }
}

#[tokio::test]
async fn a_term_to_the_whole_group_ends_it_cleanly_and_keeps_its_code() {
    let host = ProcessHost::new().await;
    let workload = id(1, 1);
    let script = "trap 'echo leaving; exit 9' TERM; echo ready; while :; do sleep 0.1; done";
    let pid = host.start(workload, script).await;
    kill_process_group(pid, Signal::TERM).unwrap();
    assert_eq!(until_exited(&host, workload).await, Some(9));
    assert!(host.output(workload).await.contains("leaving"));
}

#[tokio::test]
async fn terminate_reaches_the_bot_and_not_what_it_uses() {
    let host = ProcessHost::new().await;
    let workload = id(1, 1);
    // The helper would write if it were signalled; the bot still needs it while it leaves.
    let script = "sh -c 'trap \"echo helper died; exit\" TERM; echo up; while :; do sleep 0.1; done' &
        trap 'kill -0 $! && echo helper lives; exit 4' TERM; echo ready; while :; do sleep 0.1; done";
    host.start(workload, script).await;
    until_output(&host, workload, "up").await;
    host.launcher().terminate(workload).await.unwrap();
    assert_eq!(until_exited(&host, workload).await, Some(4));
    let output = host.output(workload).await;
    assert!(output.contains("helper lives") && !output.contains("helper died"), "{output}");
    // Nothing survives the bot's own end.
    until_no_process(&host, workload).await;
}

#[tokio::test]
async fn a_killed_group_has_ended_and_is_never_absent_before_its_removal() {
    let host = ProcessHost::new().await;
    let workload = id(2, 1);
    let pid = host.start(workload, FOREVER).await;
    kill_process_group(pid, Signal::KILL).unwrap();
    assert_eq!(until_exited(&host, workload).await, None);
    let exited = Launched::Exited { exit_code: None };
    assert_eq!(host.launcher().ensure(&spec(workload, FOREVER)).await, Ok(exited));
    assert_eq!(host.launcher().list().await.unwrap().len(), 1);
    let removed = Removed { was_there: true, exit_code: None };
    assert_eq!(host.launcher().remove(workload).await, Ok(removed));
    assert_eq!(host.launcher().look(workload).await, Ok(Sighting::Absent));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn a_look_during_a_start_never_finds_an_end() {
    let host = ProcessHost::new().await;
    for meeting in 0..60 {
        let (workload, looker) = (id(meeting, 1), host.launcher());
        let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
        let mut tasks = tokio::task::JoinSet::new();
        tasks.spawn(async move {
            let mut looks = Vec::new();
            while !stop.is_closed() {
                looks.push(looker.look(workload).await.unwrap());
                let listed = looker.list().await.unwrap().into_iter();
                looks.extend(listed.filter(|s| s.workload == workload).map(|s| s.sighting));
            }
            looks
        });
        running(host.launcher().ensure(&spec(workload, FOREVER)).await.unwrap());
        drop(stopped);
        let looks = tasks.join_all().await.concat();
        let ended = looks.iter().any(|look| matches!(look, Sighting::Exited { .. }));
        assert!(!ended, "{looks:?}");
        host.launcher().remove(workload).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn of_many_starts_at_once_one_makes_a_process() {
    let host = ProcessHost::new().await;
    for meeting in 0..10 {
        let workload = id(meeting, 1);
        let mut tasks = tokio::task::JoinSet::new();
        for _ in 0..8 {
            let launcher = host.launcher();
            tasks.spawn(async move { launcher.ensure(&spec(workload, FOREVER)).await });
        }
        for launched in tasks.join_all().await {
            running(launched.unwrap());
        }
        // Each wrapper leads a group of its own.
        let leads = |pid: &String| {
            let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            let group = stat.rsplit_once(") ").and_then(|(_, rest)| rest.split(' ').nth(2));
            group == Some(pid)
        };
        let processes = processes(&host, workload);
        assert_eq!(processes.iter().filter(|pid| leads(pid)).count(), 1, "{processes:?}");
        host.launcher().remove(workload).await.unwrap();
    }
}

#[tokio::test]
async fn a_bot_outlives_a_server_that_is_killed() {
    let host = ProcessHost::new().await;
    let workload = id(1, 1);
    let mut server = tokio::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "process::server_to_be_killed", "--ignored", "--nocapture"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let told = format!("{}\n{}\n", host.folder.path().display(), host.installation);
    let mut pipe = server.stdin.take().unwrap();
    pipe.write_all(told.as_bytes()).await.unwrap();
    until_output(&host, workload, "ready").await;
    let sighting = host.launcher().look(workload).await.unwrap();
    server.start_kill().unwrap();
    server.wait().await.unwrap();
    assert_eq!(host.launcher().look(workload).await, Ok(sighting.clone()));
    let again = host.launcher().ensure(&spec(workload, FOREVER)).await.unwrap();
    assert_eq!(Sighting::Running { handle: running(again) }, sighting);
    host.launcher().terminate(workload).await.unwrap();
    assert_eq!(until_exited(&host, workload).await, Some(9));
}

/// Not a test: the server of the test above, which is told where on its standard input.
#[tokio::test]
#[ignore = "run by another test"]
async fn server_to_be_killed() {
    let told: Vec<String> = std::io::stdin().lines().take(2).map(Result::unwrap).collect();
    let [folder, installation] = told.as_slice() else { return };
    let installation = Installation::new(installation).unwrap();
    let command = COMMAND.map(str::to_owned).to_vec();
    let folder = PathBuf::from(folder).join("bots");
    let launcher = ProcessLauncher::new(ProcessOptions::new(installation, command, folder));
    let script = "trap 'exit 9' TERM; echo ready; while :; do sleep 0.1; done";
    running(launcher.unwrap().ensure(&spec(id(1, 1), script)).await.unwrap());
    std::future::pending::<()>().await;
}

#[tokio::test]
async fn a_bot_killed_alone_has_the_code_of_its_signal() {
    let host = ProcessHost::new().await;
    let workload = id(3, 1);
    host.launcher().ensure(&spec(workload, "kill -9 $$")).await.unwrap();
    assert_eq!(until_exited(&host, workload).await, Some(137));
}

#[tokio::test]
async fn a_bot_that_lost_its_wrapper_is_found_signalled_and_removed() {
    let host = ProcessHost::new().await;
    for (meeting, politely) in [(4, true), (5, false)] {
        let workload = id(meeting, 1);
        let wrapper = host.start(workload, FOREVER).await;
        kill_process(wrapper, Signal::KILL).unwrap();
        eventually(LIMIT, async || is_gone(wrapper).then_some(())).await.unwrap();
        let sighting = host.launcher().look(workload).await.unwrap();
        assert!(matches!(sighting, Sighting::Running { .. }), "{sighting:?}");
        let again = host.launcher().ensure(&spec(workload, FOREVER)).await.unwrap();
        assert_ne!(pid_in(&running(again)), wrapper);
        if politely {
            host.launcher().terminate(workload).await.unwrap();
            assert_eq!(until_exited(&host, workload).await, None);
        }
        assert!(host.launcher().remove(workload).await.unwrap().was_there);
        until_no_process(&host, workload).await;
    }
}

#[tokio::test]
async fn a_removal_finds_processes_that_left_the_group() {
    let host = ProcessHost::new().await;
    let workload = id(6, 1);
    let away = "setsid sh -c 'echo away; while :; do sleep 0.1; done' &";
    host.start(workload, &format!("{away} {FOREVER}")).await;
    until_output(&host, workload, "away").await;
    host.launcher().terminate(workload).await.unwrap();
    assert_eq!(until_exited(&host, workload).await, Some(143));
    assert!(!processes(&host, workload).is_empty(), "the runaway lives on");
    let removed = Removed { was_there: true, exit_code: Some(143) };
    assert_eq!(host.launcher().remove(workload).await, Ok(removed));
    until_no_process(&host, workload).await;
}

#[tokio::test]
async fn only_what_is_configured_is_in_the_environment() {
    let host = ProcessHost::new().await;
    let workload = id(7, 1);
    host.launcher().ensure(&spec(workload, "env | cut -d= -f1 | sort")).await.unwrap();
    assert_eq!(until_exited(&host, workload).await, Some(0));
    let output = host.output(workload).await;
    // The shell adds the last two by itself.
    let names: Vec<&str> = output.lines().filter(|n| !["PWD", "OLDPWD"].contains(n)).collect();
    assert_eq!(names, ["CONFIGURED", "PATH", "ROUNDSMAN_WORKLOAD", "SCRIPT"]);
}

#[tokio::test]
async fn files_are_private_and_old_logs_go() {
    let host = ProcessHost::new().await;
    let launcher = host.with(|options| options.logs_kept_max = 2);
    for meeting in 1..=5 {
        launcher.ensure(&spec(id(meeting, 1), "echo ready")).await.unwrap();
        until_exited(&host, id(meeting, 1)).await;
    }
    let mode = |path: PathBuf| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(host.bots()), 0o700);
    assert_eq!(mode(host.file(id(1, 1), "log")), 0o600);
    for meeting in 1..=4 {
        launcher.remove(id(meeting, 1)).await.unwrap();
    }
    let has_log = |meeting: i64| host.file(id(meeting, 1), "log").exists();
    assert_eq!([1, 2, 3, 4, 5].map(has_log), [false, false, true, true, true]);
    assert!(!host.file(id(4, 1), "exit").exists() && !host.file(id(4, 1), "started").exists());
}

#[tokio::test]
async fn a_log_that_grows_too_long_is_emptied() {
    let host = ProcessHost::new().await;
    let workload = id(1, 1);
    host.start(workload, "head -c 5000 /dev/zero; echo ready; while :; do sleep 0.1; done").await;
    let launcher = host.with(|options| options.log_bytes_max = 6000);
    launcher.list().await.unwrap();
    assert!(host.output(workload).await.contains("ready"));
    let launcher = host.with(|options| options.log_bytes_max = 4000);
    launcher.list().await.unwrap();
    assert_eq!(host.output(workload).await, "");
    launcher.remove(workload).await.unwrap();
}

#[tokio::test]
async fn what_no_process_can_be_given_is_refused() {
    let host = ProcessHost::new().await;
    for value in ["nul\0inside".to_owned(), "x".repeat(4 * 1024 * 1024)] {
        let mut spec = spec(id(1, 1), FOREVER);
        spec.env.push(("BAD".to_owned(), value));
        let launched = host.launcher().ensure(&spec).await.unwrap();
        assert!(matches!(launched, Launched::Refused { .. }), "{launched:?}");
        assert_eq!(host.launcher().look(id(1, 1)).await, Ok(Sighting::Absent));
    }
}

fn pid_in(handle: &str) -> Pid {
    let number = handle.strip_prefix("process:").expect("a process");
    Pid::from_raw(number.parse().unwrap()).unwrap()
}

/// A child that has ended and was not taken away would still be there to signal.
fn is_gone(pid: Pid) -> bool {
    test_kill_process(pid).is_err()
}

fn processes(host: &ProcessHost, workload: WorkloadId) -> Vec<String> {
    let mark = format!("ROUNDSMAN_WORKLOAD={}\0", workload.name(&host.installation));
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    let marked = entries.filter(|entry| {
        let environment = std::fs::read(entry.path().join("environ")).unwrap_or_default();
        String::from_utf8_lossy(&environment).contains(&mark)
    });
    marked.map(|entry| entry.file_name().into_string().unwrap()).collect()
}

async fn until_no_process(host: &ProcessHost, workload: WorkloadId) {
    let gone = eventually(LIMIT, async || processes(host, workload).is_empty().then_some(()));
    gone.await.expect("no process of the workload is left");
}
