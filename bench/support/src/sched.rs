//! What threads did with their time, by the scheduler's own account: how long they ran, and how long they
//! could have and did not, because somebody else had their processor.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use anyhow::Context;
use roundsman_core::ports::Clock;
use roundsman_engine::clock::DatabaseClock;

/// Threads that did less of the time than this, run and wait together, are not shown.
const SHOWN_MIN: f64 = 0.001;

/// An account that has begun.
#[derive(Debug)]
pub struct Account {
    clock: DatabaseClock,
    pid: u32,
    threads: BTreeMap<u32, Thread>,
    machine: Machine,
}

/// What came of it.
#[derive(Debug, Clone)]
pub struct Sched {
    took: Duration,
    /// Of the process, by their names.
    threads: BTreeMap<String, Spent>,
    /// Of all processes, the one that is measured and this one not counted.
    others: Duration,
    /// What the machine below this one took.
    stolen: Duration,
}

#[derive(Debug, Clone)]
struct Thread {
    name: String,
    spent: Spent,
}

#[derive(Debug, Clone, Copy, Default)]
struct Spent {
    ran: Duration,
    waited: Duration,
}

#[derive(Debug, Clone, Copy)]
struct Machine {
    /// Of all processors, and of the two processes.
    busy: Duration,
    ours: Duration,
    stolen: Duration,
}

impl Account {
    /// Of the process and of the machine around it, from now on.
    pub fn begin(pid: u32) -> anyhow::Result<Account> {
        let (threads, machine) = (threads(pid)?, Machine::now(pid)?);
        Ok(Account { clock: DatabaseClock::start(), pid, threads, machine })
    }

    /// Until now.
    pub fn end(&self) -> anyhow::Result<Sched> {
        let (took, machine) = (self.clock.monotonic(), Machine::now(self.pid)?);
        let mut by_name: BTreeMap<String, Spent> = BTreeMap::new();
        for (id, thread) in threads(self.pid)? {
            let before = self.threads.get(&id).map(|thread| thread.spent).unwrap_or_default();
            let spent = by_name.entry(thread.name).or_default();
            spent.ran += thread.spent.ran.saturating_sub(before.ran);
            spent.waited += thread.spent.waited.saturating_sub(before.waited);
        }
        let ours = machine.ours.saturating_sub(self.machine.ours);
        let others = machine.busy.saturating_sub(self.machine.busy).saturating_sub(ours);
        let stolen = machine.stolen.saturating_sub(self.machine.stolen);
        Ok(Sched { took, threads: by_name, others, stolen })
    }
}

impl Machine {
    fn now(pid: u32) -> anyhow::Result<Machine> {
        let stat = std::fs::read_to_string("/proc/stat")?;
        let line =
            stat.lines().next().and_then(|line| line.strip_prefix("cpu ")).context("stat")?;
        let ticks: Vec<u32> =
            line.split_whitespace().map(str::parse).collect::<Result<_, _>>().context("stat")?;
        // User, nice, system, (idle, waiting for disks,) interrupts, soft interrupts, stolen.
        let [user, nice, system, _, _, hard, soft, stolen, ..] = ticks[..] else {
            anyhow::bail!("stat: {line}");
        };
        let ours = crate::process::processor(pid)? + crate::process::processor(std::process::id())?;
        let (busy, tick) = (user + nice + system + hard + soft, crate::process::TICK);
        Ok(Machine { busy: tick * busy, ours, stolen: tick * stolen })
    }
}

fn threads(pid: u32) -> anyhow::Result<BTreeMap<u32, Thread>> {
    let mut threads = BTreeMap::new();
    for entry in std::fs::read_dir(format!("/proc/{pid}/task"))? {
        let entry = entry?;
        let Some(id) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        // Threads come and go meanwhile.
        let read = |name| std::fs::read_to_string(entry.path().join(name));
        let (Ok(name), Ok(schedstat)) = (read("comm"), read("schedstat")) else { continue };
        let spent = read_spent(&schedstat).context("schedstat")?;
        // Those of a pool are told together.
        let name = name.trim().trim_end_matches(|c: char| c.is_ascii_digit() || c == '-');
        threads.insert(id, Thread { name: name.to_owned(), spent });
    }
    Ok(threads)
}

/// `124500 8000 12`: nanoseconds that it ran, nanoseconds that it waited to, and how often it did.
fn read_spent(schedstat: &str) -> Option<Spent> {
    let mut nanos = schedstat.split_whitespace().map(|text| text.parse().map(Duration::from_nanos));
    let (ran, waited) = (nanos.next()?.ok()?, nanos.next()?.ok()?);
    Some(Spent { ran, waited })
}

impl fmt::Display for Sched {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let share = |time: Duration| time.as_secs_f64() / self.took.as_secs_f64().max(1e-9);
        let percent = |time: Duration| 100.0 * share(time);
        let (others, stolen) = (percent(self.others), percent(self.stolen));
        write!(f, "others had {others:.1} % of a processor, {stolen:.1} % was stolen")?;
        let mut threads: Vec<_> = self.threads.iter().collect();
        threads.sort_by_key(|(_, spent)| std::cmp::Reverse(spent.ran + spent.waited));
        for (name, spent) in threads {
            if share(spent.ran + spent.waited) >= SHOWN_MIN {
                let (ran, waited) = (percent(spent.ran), percent(spent.waited));
                write!(f, "; {name} ran {ran:.1} %, waited {waited:.1} %")?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_are_told_with_what_they_waited() {
        let spent = read_spent("1500000 250000 7\n").unwrap();
        assert_eq!((spent.ran.as_micros(), spent.waited.as_micros()), (1500, 250));
        assert!(read_spent("1500000").is_none() && read_spent("x y z").is_none());
    }

    #[test]
    fn shares_are_of_the_time_that_it_took() {
        let millis = Duration::from_millis;
        let spent = |ran, waited| Spent { ran: millis(ran), waited: millis(waited) };
        let threads = [("idle", spent(0, 1)), ("writer", spent(30, 20)), ("worker", spent(500, 4))];
        let sched = Sched {
            took: millis(2000),
            threads: threads.map(|(name, spent)| (name.to_owned(), spent)).into(),
            others: millis(40),
            stolen: Duration::ZERO,
        };
        assert_eq!(
            sched.to_string(),
            "others had 2.0 % of a processor, 0.0 % was stolen; worker ran 25.0 %, waited 0.2 %; \
             writer ran 1.5 %, waited 1.0 %"
        );
    }
}
