//! What every launcher must do, as one suite.
//!
//! An adapter provides a [`LauncherHost`] and calls
//! [`launcher_conformance_suite!`](crate::launcher_conformance_suite), which makes one test per
//! case. The workloads are shell scripts. Cases assume a healthy runtime; what happens when it
//! fails is tested per adapter, because each fails in its own way.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use roundsman_core::bots::{MeetingId, WorkloadId};
use roundsman_core::ports::{LaunchSpec, Launched, Launcher, Removed, SeenWorkload, Sighting};
use roundsman_core::users::UserId;

use crate::wait;

/// A case that waits longer for anything has failed.
const WAIT_MAX: Duration = Duration::from_secs(30);

/// Hosts run a workload as `/bin/sh -c` with this, and the case's script in this variable.
pub const COMMAND: [&str; 3] = ["/bin/sh", "-c", "eval \"$SCRIPT\""];
const SCRIPT: &str = "SCRIPT";

/// Runs until it is killed, whatever it is told.
const DEAF: &str = "trap '' TERM; echo ready; while :; do sleep 0.1; done";
/// Leaves with a code of its own when it is asked to.
const POLITE: &str = "trap 'exit 9' TERM; echo ready; while :; do sleep 0.1; done";

/// A runtime of which nobody else knows.
#[async_trait]
pub trait LauncherHost: Send + Sync {
    /// A new instance each time, as after a restart of the server.
    fn launcher(&self) -> Arc<dyn Launcher>;

    /// A launcher of another installation on the same runtime.
    fn of_another_installation(&self) -> Arc<dyn Launcher>;

    /// A launcher of the first installation whose image, program or job does not exist.
    fn of_something_missing(&self) -> Arc<dyn Launcher>;

    /// What the workload has written to its standard output.
    async fn output(&self, workload: WorkloadId) -> String;
}

/// Makes one test of every case. `$host` is an expression that is awaited in each.
#[macro_export]
macro_rules! launcher_conformance_suite {
    ($host:expr) => {
        $crate::launcher_conformance_suite!($host;
            starts_finds_and_removes
            starts_one_however_often_it_is_asked
            starts_one_when_asked_at_once
            a_new_instance_finds_what_runs
            keeps_the_exit_code_until_it_is_removed
            starts_again_after_a_removal
            lets_a_workload_end_by_itself
            kills_a_workload_that_will_not_end
            has_nothing_to_do_where_nothing_is
            refuses_what_is_not_there
            passes_the_environment_on
            lists_all_and_only_its_own
            keeps_attempts_apart
            removes_once_when_asked_twice
        );
    };
    ($host:expr; $($case:ident)*) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $case() {
                $crate::conformance::$case($host.await).await;
            }
        )*
    };
}

pub async fn starts_finds_and_removes(host: impl LauncherHost) {
    let launcher = host.launcher();
    let workload = id(7, 1);
    assert_eq!(launcher.look(workload).await, Ok(Sighting::Absent));
    let handle = running(launcher.ensure(&spec(workload, DEAF)).await.expect("started"));
    assert!(!handle.is_empty());
    let sighting = Sighting::Running { handle };
    assert_eq!(launcher.look(workload).await, Ok(sighting.clone()));
    assert_eq!(launcher.list().await, Ok(vec![SeenWorkload { workload, sighting }]));
    let removed = Removed { was_there: true, exit_code: None };
    assert_eq!(launcher.remove(workload).await, Ok(removed));
    assert_eq!(launcher.look(workload).await, Ok(Sighting::Absent));
    assert_eq!(launcher.list().await, Ok(Vec::new()));
}

pub async fn starts_one_however_often_it_is_asked(host: impl LauncherHost) {
    let spec = spec(id(1, 1), DEAF);
    let first = host.launcher().ensure(&spec).await.expect("started");
    for _ in 0..3 {
        assert_eq!(host.launcher().ensure(&spec).await.expect("found"), first);
    }
    let listed = host.launcher().list().await.expect("listed");
    assert_eq!(listed.len(), 1, "{listed:?}");
    clean(&host).await;
}

pub async fn starts_one_when_asked_at_once(host: impl LauncherHost) {
    for round in 1..=3 {
        let spec = spec(id(i64::from(round), 1), DEAF);
        let mut tasks = tokio::task::JoinSet::new();
        for _ in 0..6 {
            let (launcher, spec) = (host.launcher(), spec.clone());
            tasks.spawn(async move { launcher.ensure(&spec).await });
        }
        let mut handles = BTreeSet::new();
        for answer in tasks.join_all().await {
            // Who lost the race may be told to come back, but never that there is none.
            match answer {
                Ok(launched) => drop(handles.insert(running(launched))),
                Err(unanswered) => assert!(!unanswered.reason.is_empty()),
            }
        }
        assert_eq!(handles.len(), 1, "{handles:?}");
        let listed = host.launcher().list().await.expect("listed");
        assert_eq!(listed.len(), 1, "{listed:?}");
        clean(&host).await;
    }
}

pub async fn a_new_instance_finds_what_runs(host: impl LauncherHost) {
    let workload = id(3, 1);
    let first = host.launcher();
    let handle = running(first.ensure(&spec(workload, POLITE)).await.expect("started"));
    drop(first);
    until_output(&host, workload, "ready").await;
    let sighting = Sighting::Running { handle };
    assert_eq!(host.launcher().look(workload).await, Ok(sighting));
    host.launcher().terminate(workload).await.expect("asked to end");
    assert_eq!(until_exited(&host, workload).await, Some(9));
    clean(&host).await;
}

pub async fn keeps_the_exit_code_until_it_is_removed(host: impl LauncherHost) {
    for (meeting, code) in [(1, 0), (2, 7), (3, 137)] {
        let workload = id(meeting, 1);
        let spec = spec(workload, &format!("exit {code}"));
        let launched = host.launcher().ensure(&spec).await.expect("started");
        assert!(matches!(launched, Launched::Running { .. } | Launched::Exited { .. }));
        assert_eq!(until_exited(&host, workload).await, Some(code));
        let exited = Launched::Exited { exit_code: Some(code) };
        assert_eq!(host.launcher().ensure(&spec).await, Ok(exited));
        let sighting = Sighting::Exited { exit_code: Some(code) };
        let listed = host.launcher().list().await.expect("listed");
        assert_eq!(listed, [SeenWorkload { workload, sighting }]);
        // What has ended is asked to end in vain, and stays as it is.
        host.launcher().terminate(workload).await.expect("nothing to end");
        let removed = Removed { was_there: true, exit_code: Some(code) };
        assert_eq!(host.launcher().remove(workload).await, Ok(removed));
        assert_eq!(host.launcher().look(workload).await, Ok(Sighting::Absent));
    }
}

pub async fn starts_again_after_a_removal(host: impl LauncherHost) {
    let workload = id(4, 1);
    let mut handles = BTreeSet::new();
    for _ in 0..3 {
        let launched = host.launcher().ensure(&spec(workload, DEAF)).await.expect("started");
        assert!(handles.insert(running(launched)), "the same one again");
        assert!(host.launcher().remove(workload).await.expect("removed").was_there);
    }
}

pub async fn lets_a_workload_end_by_itself(host: impl LauncherHost) {
    let workload = id(5, 1);
    running(host.launcher().ensure(&spec(workload, POLITE)).await.expect("started"));
    until_output(&host, workload, "ready").await;
    host.launcher().terminate(workload).await.expect("asked to end");
    assert_eq!(until_exited(&host, workload).await, Some(9));
    let removed = Removed { was_there: true, exit_code: Some(9) };
    assert_eq!(host.launcher().remove(workload).await, Ok(removed));
}

pub async fn kills_a_workload_that_will_not_end(host: impl LauncherHost) {
    let workload = id(6, 1);
    running(host.launcher().ensure(&spec(workload, DEAF)).await.expect("started"));
    until_output(&host, workload, "ready").await;
    for _ in 0..3 {
        host.launcher().terminate(workload).await.expect("asked to end");
    }
    let sighting = host.launcher().look(workload).await.expect("seen");
    assert!(matches!(sighting, Sighting::Running { .. }), "{sighting:?}");
    assert!(host.launcher().remove(workload).await.expect("removed").was_there);
    assert_eq!(host.launcher().look(workload).await, Ok(Sighting::Absent));
}

pub async fn has_nothing_to_do_where_nothing_is(host: impl LauncherHost) {
    let launcher = host.launcher();
    assert_eq!(launcher.list().await, Ok(Vec::new()));
    for workload in [id(1, 1), id(i64::MAX, u32::MAX)] {
        assert_eq!(launcher.look(workload).await, Ok(Sighting::Absent));
        assert_eq!(launcher.terminate(workload).await, Ok(()));
        assert_eq!(launcher.remove(workload).await, Ok(Removed::default()));
    }
}

pub async fn refuses_what_is_not_there(host: impl LauncherHost) {
    let workload = id(8, 1);
    let launcher = host.of_something_missing();
    for _ in 0..2 {
        let launched = launcher.ensure(&spec(workload, DEAF)).await.expect("an answer");
        let Launched::Refused { reason } = launched else { panic!("{launched:?}") };
        assert!(!reason.is_empty());
        assert_eq!(launcher.look(workload).await, Ok(Sighting::Absent));
        assert_eq!(launcher.list().await, Ok(Vec::new()));
    }
}

pub async fn passes_the_environment_on(host: impl LauncherHost) {
    let workload = id(9, 1);
    let mut spec = spec(workload, "printf '[%s][%s]' \"$QUOTED\" \"$CONFIGURED\"; exit 0");
    let value = "a 'b' \"c\" $HOME `d` \\ {\"e\":[1]} ü\nsecond line";
    spec.env.push(("QUOTED".to_owned(), value.to_owned()));
    host.launcher().ensure(&spec).await.expect("started");
    assert_eq!(until_exited(&host, workload).await, Some(0));
    until_output(&host, workload, &format!("[{value}][yes]")).await;
    clean(&host).await;
}

pub async fn lists_all_and_only_its_own(host: impl LauncherHost) {
    let mine = [id(1, 1), id(1, 2), id(2, 1), id(30, 1)];
    for workload in mine {
        host.launcher().ensure(&spec(workload, DEAF)).await.expect("started");
    }
    let ended = id(31, 1);
    host.launcher().ensure(&spec(ended, "exit 3")).await.expect("started");
    until_exited(&host, ended).await;
    let other = host.of_another_installation();
    assert_eq!(other.list().await, Ok(Vec::new()));
    other.ensure(&spec(id(1, 1), DEAF)).await.expect("started");
    // The same meeting and attempt of somebody else is another workload.
    assert_eq!(other.look(id(2, 1)).await, Ok(Sighting::Absent));
    assert_eq!(other.remove(id(2, 1)).await, Ok(Removed::default()));
    let of = |seen: Vec<SeenWorkload>| -> BTreeSet<WorkloadId> {
        seen.into_iter().map(|seen| seen.workload).collect()
    };
    let all: BTreeSet<WorkloadId> = mine.into_iter().chain([ended]).collect();
    assert_eq!(of(host.launcher().list().await.expect("listed")), all);
    assert_eq!(of(other.list().await.expect("listed")), BTreeSet::from([id(1, 1)]));
    assert!(other.remove(id(1, 1)).await.expect("removed").was_there);
    assert_eq!(of(host.launcher().list().await.expect("listed")), all);
    clean(&host).await;
}

pub async fn keeps_attempts_apart(host: impl LauncherHost) {
    let launcher = host.launcher();
    let first = running(launcher.ensure(&spec(id(5, 1), DEAF)).await.expect("started"));
    let second = running(launcher.ensure(&spec(id(5, 2), DEAF)).await.expect("started"));
    assert_ne!(first, second);
    assert!(launcher.remove(id(5, 1)).await.expect("removed").was_there);
    assert_eq!(launcher.look(id(5, 1)).await, Ok(Sighting::Absent));
    assert_eq!(launcher.look(id(5, 2)).await, Ok(Sighting::Running { handle: second }));
    clean(&host).await;
}

pub async fn removes_once_when_asked_twice(host: impl LauncherHost) {
    let workload = id(2, 1);
    running(host.launcher().ensure(&spec(workload, DEAF)).await.expect("started"));
    let (one, two) = (host.launcher(), host.launcher());
    let (one, two) = tokio::join!(one.remove(workload), two.remove(workload));
    let answers = [one.expect("removed"), two.expect("removed")];
    assert!(answers.iter().any(|removed| removed.was_there), "{answers:?}");
    assert_eq!(host.launcher().look(workload).await, Ok(Sighting::Absent));
}

/// A workload's name for tests.
pub fn id(meeting_id: i64, attempt: u32) -> WorkloadId {
    WorkloadId { meeting_id: MeetingId::new(meeting_id), attempt }
}

/// A workload that runs a shell script.
pub fn spec(workload: WorkloadId, script: &str) -> LaunchSpec {
    LaunchSpec {
        workload,
        user_id: UserId::new(42),
        platform: "google_meet".to_owned(),
        native_meeting_id: "abc-defg-hij".to_owned(),
        connection_id: format!("connection-{}", workload.meeting_id),
        env: vec![(SCRIPT.to_owned(), script.to_owned())],
    }
}

/// The handle of what runs.
pub fn running(launched: Launched) -> String {
    match launched {
        Launched::Running { handle } => handle,
        other => panic!("expected a running workload, got {other:?}"),
    }
}

/// Waits for the end and returns the code.
pub async fn until_exited(host: &impl LauncherHost, workload: WorkloadId) -> Option<i32> {
    let exited = wait::until(WAIT_MAX, || async move {
        match host.launcher().look(workload).await {
            Ok(Sighting::Exited { exit_code }) => Some(exit_code),
            Ok(Sighting::Running { .. }) => None,
            other => panic!("expected it to run or to have ended, got {other:?}"),
        }
    });
    exited.await.expect("it ends within the time limit")
}

/// Waits until the workload has written `text`.
pub async fn until_output(host: &impl LauncherHost, workload: WorkloadId, text: &str) {
    let written = wait::until(WAIT_MAX, || async move {
        host.output(workload).await.contains(text).then_some(())
    });
    let written = written.await.is_some();
    assert!(written, "expected {text:?} in {:?}", host.output(workload).await);
}

async fn clean(host: &impl LauncherHost) {
    for seen in host.launcher().list().await.expect("listed") {
        host.launcher().remove(seen.workload).await.expect("removed");
    }
    assert_eq!(host.launcher().list().await, Ok(Vec::new()));
}
