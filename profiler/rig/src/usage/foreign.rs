//! Finds the foreign process that used the cores most, from two scans of all processes of the machine.

use std::collections::BTreeMap;

use super::process::{numbers, stat_of};

/// Every process at one moment. A scan takes about ten microseconds per process, so it is done at the ends of a measurement and
/// not in between.
pub struct Scan {
    by_pid: BTreeMap<u32, Entry>,
}

#[derive(Clone, Debug)]
struct Entry {
    parent: u32,
    start_ticks: u64,
    name: String,
    cpu_ticks: u64,
    /// The core on which it last ran.
    core: Option<u16>,
}

/// A foreign process, and the CPU time it used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Foreign {
    pub pid: u32,
    /// The program's name in the kernel, cut at 15 bytes.
    pub name: String,
    /// The CPU time in steps of 10 ms.
    pub cpu_ns: u64,
}

impl Scan {
    pub fn take() -> Scan {
        let entry = |pid| {
            let stat = stat_of(pid)?;
            let core = stat.processor.and_then(|core| core.try_into().ok());
            let parent = stat.ppid.try_into().unwrap_or(0);
            let cpu_ticks = stat.utime + stat.stime;
            Some((pid, Entry { parent, start_ticks: stat.starttime, name: stat.comm, cpu_ticks, core }))
        };
        Scan { by_pid: numbers("/proc".into()).filter_map(entry).collect() }
    }

    fn is_below(&self, mut pid: u32, roots: &[u32]) -> bool {
        // The number of steps is limited to that of the processes: a scan is not atomic, so its parents might form a cycle.
        for _ in 0..=self.by_pid.len() {
            if roots.contains(&pid) {
                return true;
            }
            match self.by_pid.get(&pid) {
                Some(entry) if entry.parent != 0 => pid = entry.parent,
                _ => return false,
            }
        }
        false
    }
}

/// The foreign process with the most CPU time between two scans, among those that were last seen on one of `cores` at either
/// scan. Processes in `ours`, usually the harness, and all processes below them are not foreign. `None` if no foreign process
/// used a tick of CPU time.
pub fn top_foreign(before: &Scan, after: &Scan, cores: &[u16], ours: &[u32]) -> Option<Foreign> {
    let on_cores = |entry: &Entry| entry.core.is_some_and(|core| cores.contains(&core));
    let used = |(&pid, now): (&u32, &Entry)| {
        let then = before.by_pid.get(&pid).filter(|then| then.start_ticks == now.start_ticks);
        if !(on_cores(now) || then.is_some_and(on_cores)) || after.is_below(pid, ours) {
            return None;
        }
        // A process that did not exist before used all of its time since.
        let ticks = now.cpu_ticks.saturating_sub(then.map_or(0, |then| then.cpu_ticks));
        let cpu_ns = ticks * (1_000_000_000 / procfs::ticks_per_second());
        (cpu_ns > 0).then(|| Foreign { pid, name: now.name.clone(), cpu_ns })
    };
    after.by_pid.iter().filter_map(used).max_by_key(|foreign| foreign.cpu_ns)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scan(entries: &[(u32, u32, u64, &str, u64, u16)]) -> Scan {
        let entry = |&(pid, parent, start_ticks, name, cpu_ticks, core): &(u32, u32, u64, &str, u64, u16)| {
            (pid, Entry { parent, start_ticks, name: name.into(), cpu_ticks, core: Some(core) })
        };
        Scan { by_pid: entries.iter().map(entry).collect() }
    }

    fn name(before: &Scan, after: &Scan) -> Option<String> {
        top_foreign(before, after, &[0], &[10]).map(|foreign| foreign.name)
    }

    #[test]
    fn the_busiest_foreigner_on_the_cores_is_named() {
        let before =
            scan(&[(1, 0, 1, "init", 5, 0), (10, 1, 2, "profile", 5, 0), (20, 1, 3, "editor", 50, 0)]);
        let after = scan(&[
            (1, 0, 1, "init", 5, 0),
            (10, 1, 2, "profile", 900, 0),
            (11, 10, 4, "worker", 900, 0),
            (12, 11, 4, "loader", 900, 0),
            (20, 1, 3, "editor", 60, 0),
            (21, 1, 9, "elsewhere", 900, 1),
        ]);
        assert_eq!(name(&before, &after).as_deref(), Some("editor"));
        let tick_ns = 1_000_000_000 / procfs::ticks_per_second();
        assert_eq!(top_foreign(&before, &after, &[0], &[10]).unwrap().cpu_ns, 10 * tick_ns);
        // A number that was given to another process is not the same process.
        let reused = scan(&[(20, 1, 8, "compiler", 30, 0)]);
        assert_eq!(top_foreign(&before, &reused, &[0], &[]).unwrap().cpu_ns, 30 * tick_ns);
    }

    #[test]
    fn a_quiet_machine_has_no_culprit() {
        let quiet = scan(&[(1, 0, 1, "init", 5, 0), (20, 1, 3, "editor", 50, 0)]);
        assert_eq!(name(&quiet, &quiet), None);
        assert_eq!(name(&quiet, &scan(&[])), None);
    }

    #[test]
    fn a_ring_of_parents_ends() {
        let ring = scan(&[(2, 3, 1, "a", 5, 0), (3, 2, 1, "b", 5, 0)]);
        assert!(!ring.is_below(2, &[10]));
    }

    #[test]
    fn the_real_machine_can_be_scanned() {
        let scan = Scan::take();
        assert!(scan.is_below(std::process::id(), &[std::process::id()]));
        assert!(!scan.is_below(1, &[std::process::id()]));
    }
}
