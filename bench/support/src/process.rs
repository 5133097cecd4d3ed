//! A process that is measured from outside, through the kernel's own accounting.

use std::time::Duration;

use anyhow::Context;

/// A tick of the kernel's accounting on Linux.
pub(crate) const TICK: Duration = Duration::from_millis(10);

/// Processor time that the process has used so far, of all its threads.
pub fn processor(pid: u32) -> anyhow::Result<Duration> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
    let after_name = stat.rsplit_once(") ").context("no process name")?.1;
    let fields: Vec<&str> = after_name.split(' ').collect();
    let ticks: u32 = fields[11].parse::<u32>()? + fields[12].parse::<u32>()?;
    Ok(TICK * ticks)
}

/// The same of all processes of a group that run now.
pub fn group_processor(group: u32) -> anyhow::Result<Duration> {
    let mut ticks = 0;
    for entry in std::fs::read_dir("/proc")? {
        // Others come and go meanwhile, and not everything there is a process.
        let Ok(stat) = std::fs::read_to_string(entry?.path().join("stat")) else { continue };
        let Some((_, after_name)) = stat.rsplit_once(") ") else { continue };
        let fields: Vec<&str> = after_name.split(' ').collect();
        if fields.get(2).is_some_and(|field| field.parse() == Ok(group)) {
            ticks += fields[11].parse::<u32>()? + fields[12].parse::<u32>()?;
        }
    }
    Ok(TICK * ticks)
}

/// Resident memory now.
pub fn resident_kib(pid: u32) -> anyhow::Result<f64> {
    memory(pid, "VmRSS:")
}

/// The most resident memory that the process has had.
pub fn resident_peak_kib(pid: u32) -> anyhow::Result<f64> {
    memory(pid, "VmHWM:")
}

fn memory(pid: u32, name: &str) -> anyhow::Result<f64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix(name)).context("no such line")?;
    Ok(line.trim().trim_end_matches(" kB").parse()?)
}

/// How many files a process may have open, and every connection is one.
pub fn open_files_max() -> anyhow::Result<usize> {
    let limits = std::fs::read_to_string("/proc/self/limits")?;
    let line = limits.lines().find(|line| line.starts_with("Max open files"));
    let soft = line.and_then(|line| line.split_whitespace().nth(3)).context("no limit")?;
    Ok(soft.parse().unwrap_or(usize::MAX))
}

/// What the machine was busy with during the last minute, in processors.
pub fn load() -> anyhow::Result<String> {
    let text = std::fs::read_to_string("/proc/loadavg")?;
    Ok(text.split(' ').next().unwrap_or_default().to_owned())
}
