//! Gives a client a processor of its own, as if it were another machine.

use std::collections::BTreeMap;
use std::process::{Child, Command};

use anyhow::Context;
use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// As long as it lives, the thread that made it is alone on a processor, as far as we are concerned:
/// all other threads of this process and everything that it has started are on the others. Whatever
/// else the machine does is where the kernel puts it.
#[derive(Debug)]
pub struct Apart {
    before: CpuSet,
}

impl Apart {
    /// `others`: processes beside ours that are part of what is measured, such as a database. `None`
    /// if there is but one processor.
    pub fn stand(others: &[u32]) -> anyhow::Result<Option<Apart>> {
        let before = sched_getaffinity(None)?;
        let Some((theirs, ours)) = divided(&before) else { return Ok(None) };
        let mut processes = with_descendants(std::process::id())?;
        processes.extend(others);
        for process in processes {
            move_threads(process, &theirs);
        }
        // The thread that calls, last.
        sched_setaffinity(None, &ours)?;
        Ok(Some(Apart { before }))
    }
}

impl Drop for Apart {
    fn drop(&mut self) {
        for process in with_descendants(std::process::id()).unwrap_or_default() {
            move_threads(process, &self.before);
        }
    }
}

/// Starts a process on the processors that are not the client's, so that it makes as many threads as are
/// right for those: one that is moved there later has too many, which stand in each other's way.
pub fn start_beside(command: &mut Command) -> anyhow::Result<Child> {
    let before = sched_getaffinity(None)?;
    if let Some((theirs, _)) = divided(&before) {
        sched_setaffinity(None, &theirs)?;
    }
    // A process is where the thread is that has started it.
    let child = command.spawn();
    sched_setaffinity(None, &before)?;
    child.with_context(|| format!("cannot start {}", command.get_program().display()))
}

/// The processors of everybody else, and the client's. `None` if there is but one.
fn divided(all: &CpuSet) -> Option<(CpuSet, CpuSet)> {
    let all: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|cpu| all.is_set(*cpu)).collect();
    let [rest @ .., own] = all.as_slice() else { return None };
    let (mut theirs, mut ours) = (CpuSet::new(), CpuSet::new());
    for cpu in rest {
        theirs.set(*cpu);
    }
    ours.set(*own);
    (!rest.is_empty()).then_some((theirs, ours))
}

/// Threads that have ended meanwhile need no place.
fn move_threads(process: u32, to: &CpuSet) {
    let Ok(threads) = std::fs::read_dir(format!("/proc/{process}/task")) else { return };
    let number = |name: std::ffi::OsString| name.to_str()?.parse().ok().and_then(Pid::from_raw);
    for thread in threads.flatten().filter_map(|entry| number(entry.file_name())) {
        let _ = sched_setaffinity(Some(thread), to);
    }
}

fn with_descendants(process: u32) -> anyhow::Result<Vec<u32>> {
    let mut children: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for entry in std::fs::read_dir("/proc")? {
        let entry = entry?;
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        // Others come and go meanwhile.
        let Ok(stat) = std::fs::read_to_string(entry.path().join("stat")) else { continue };
        let after_name = stat.rsplit_once(") ").context("no process name")?.1;
        let parent = after_name.split(' ').nth(1).context("no parent")?.parse()?;
        children.entry(parent).or_default().push(pid);
    }
    let (mut all, mut next) = (vec![process], 0);
    while let Some(parent) = all.get(next).copied() {
        all.extend(children.remove(&parent).unwrap_or_default());
        next += 1;
    }
    Ok(all)
}
