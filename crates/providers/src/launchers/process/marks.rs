//! The running processes of workloads, found by the mark in their environment.

use std::fs;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;

use rustix::io::Errno;
use rustix::process::{
    Pid, PidfdFlags, geteuid, getpid, kill_process_group, pidfd_open, pidfd_send_signal,
};

use super::{MARK, Signal};

/// More than the kernel gives a process for its arguments and environment by default.
const ENVIRONMENT_BYTES_MAX: u64 = 8 * 1024 * 1024;

/// A process that carries a mark.
#[derive(Debug)]
pub(super) struct Marked {
    pub(super) pid: Pid,
    /// `None` if the group is not one of this namespace, as where it came in from outside.
    group: Option<Pid>,
    pub(super) name: String,
}

impl Marked {
    fn leads(&self) -> bool {
        self.group == Some(self.pid)
    }
}

/// Every marked process of this user. One that has ended and is not yet taken away by its parent
/// has no environment any more, so it is not among them.
pub(super) fn scan() -> io::Result<Vec<Marked>> {
    let (user, own) = (geteuid().as_raw(), getpid());
    let mut sees_itself = false;
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc")? {
        let entry = entry?;
        let pid = entry.file_name().to_str().and_then(|name| name.parse().ok());
        let Some(pid) = pid.and_then(Pid::from_raw) else { continue };
        if pid == own {
            sees_itself = true;
            continue;
        }
        let Ok(metadata) = entry.metadata() else { continue };
        if metadata.uid() != user {
            continue;
        }
        if let Some(name) = mark_of(pid) {
            found.push(Marked { pid, group: group_of(pid), name });
        }
    }
    // A list that leaves out the one process that is certainly there proves nothing.
    if !sees_itself {
        return Err(io::Error::other("the system does not show its processes"));
    }
    Ok(found)
}

/// The workload's main process: the leader of its group, which is the wrapper, or what is left.
pub(super) fn foremost<'a>(marked: &'a [Marked], name: &str) -> Option<&'a Marked> {
    let of_name = marked.iter().filter(|process| process.name == name);
    of_name.min_by_key(|process| (!process.leads(), process.pid.as_raw_nonzero()))
}

/// Sends TERM to the wrapper, which passes it on; without a wrapper, to all that is left.
pub(super) fn ask_to_end(marked: &[Marked], name: &str) -> io::Result<()> {
    match foremost(marked, name) {
        Some(leader) if leader.leads() => signal(leader, Signal::TERM),
        _ => marked.iter().filter(|p| p.name == name).try_for_each(|p| signal(p, Signal::TERM)),
    }
}

/// Kills the marked processes and the groups they are in. A group dies as a whole, with members
/// that have overwritten their environment.
pub(super) fn kill_groups(marked: &[Marked], name: &str) -> io::Result<()> {
    let own_group = group_of(getpid());
    let of_name = || marked.iter().filter(|process| process.name == name);
    let mut killed = Vec::new();
    for group in of_name().filter_map(|process| process.group) {
        if Some(group) != own_group && !killed.contains(&group) {
            unless_gone(kill_process_group(group, Signal::KILL))?;
            killed.push(group);
        }
    }
    of_name().try_for_each(|process| signal(process, Signal::KILL))
}

/// Signals the process that was seen, or none: its number may be somebody else's by now, so the
/// mark is read again with the process held.
fn signal(process: &Marked, signal: Signal) -> io::Result<()> {
    let held = match pidfd_open(process.pid, PidfdFlags::empty()) {
        Err(Errno::SRCH) => return Ok(()),
        held => held?,
    };
    if mark_of(process.pid).as_ref() == Some(&process.name) {
        unless_gone(pidfd_send_signal(held, signal))?;
    }
    Ok(())
}

fn unless_gone(done: rustix::io::Result<()>) -> io::Result<()> {
    match done {
        Err(Errno::SRCH) => Ok(()),
        done => Ok(done?),
    }
}

/// What the process was started with; `None` also if that may not be read, as of a program with
/// more rights than ours. The wrapper around it is readable then.
fn mark_of(pid: Pid) -> Option<String> {
    let file = fs::File::open(format!("/proc/{}/environ", pid.as_raw_nonzero())).ok()?;
    let mut environment = Vec::new();
    file.take(ENVIRONMENT_BYTES_MAX).read_to_end(&mut environment).ok()?;
    let mut variables = environment.split(|byte| *byte == 0);
    let value = variables.find_map(|v| v.strip_prefix(MARK.as_bytes())?.strip_prefix(b"="))?;
    String::from_utf8(value.to_vec()).ok()
}

/// Read by hand: a group outside this namespace has the number 0, which the system call's wrapper
/// does not expect.
fn group_of(pid: Pid) -> Option<Pid> {
    group_in(&fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).ok()?)
}

/// A process that is just being taken away has the group -1: none, and nothing to be signalled.
fn group_in(stat: &str) -> Option<Pid> {
    // The name of the program, in parentheses, may contain anything.
    let (_, after_name) = stat.rsplit_once(") ")?;
    let group: i32 = after_name.split(' ').nth(2)?.parse().ok()?;
    if group > 0 { Pid::from_raw(group) } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_group_is_read_behind_whatever_the_program_is_called() {
        assert_eq!(group_in("7 (a) b (c) S 1 42 42 0 -1 4194560"), Pid::from_raw(42));
    }

    #[test]
    fn a_group_of_another_namespace_or_of_a_process_being_taken_away_is_none() {
        assert_eq!(group_in("7 (sh) S 1 0 0 0 -1 4194560"), None);
        assert_eq!(group_in("7 (sh) X 0 -1 -1 0 -1 4194564"), None);
    }
}
