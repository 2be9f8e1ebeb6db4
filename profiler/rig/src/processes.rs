//! Finds processes by descent, and signals them without hitting an unrelated process.
//!
//! A process's list of children is not always available (`/proc/<pid>/task/*/children` is an option of the kernel), so the tree
//! is built from the parent that every process has.

use std::{
    collections::HashMap,
    fs, io, thread,
    time::{Duration, Instant},
};

use procfs::{
    ProcError,
    process::{Process, Stat, all_processes},
};
use rustix::{
    io::Errno,
    process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal},
};

/// One process, distinguished from a later one with the same process id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ProcessId {
    pub pid: i32,
    start_ticks: u64,
}

impl ProcessId {
    fn of(stat: &Stat) -> ProcessId {
        ProcessId { pid: stat.pid, start_ticks: stat.starttime }
    }

    /// Sends a signal, unless the process is gone.
    pub fn signal(self, signal: Signal) {
        let Some(pid) = Pid::from_raw(self.pid) else { return };
        let Ok(handle) = pidfd_open(pid, PidfdFlags::empty()) else { return };
        // The handle stays with the process that it was opened for, so one check after opening it is enough.
        let same = Process::new(self.pid).and_then(|p| p.stat()).is_ok_and(|s| ProcessId::of(&s) == self);
        if same {
            // It is no error if a process ends meanwhile.
            let _ = pidfd_send_signal(handle, signal);
        }
    }

    /// Whether the process stands still because of a signal or a debugger.
    pub fn is_stopped(self) -> bool {
        let stat = Process::new(self.pid).and_then(|process| process.stat());
        stat.is_ok_and(|stat| ProcessId::of(&stat) == self && matches!(stat.state, 'T' | 't'))
    }

    /// Stops the process by SIGSTOP and returns whether it stands still. A process that has begun to exit does not stop any
    /// more.
    ///
    /// A process that waits in the kernel stops when that wait ends. It is waited for only for a limited time, and then counts
    /// as stopped, because it does nothing meanwhile.
    pub fn stop(self) -> bool {
        self.signal(Signal::STOP);
        let began = Instant::now();
        while began.elapsed() < STOPS_WITHIN {
            let stat = Process::new(self.pid).and_then(|process| process.stat());
            let Some(stat) = stat.ok().filter(|stat| ProcessId::of(stat) == self) else { return false };
            // The first thread of a program may end before the others do.
            let is_exiting = stat.flags & PF_EXITING != 0 && stat.num_threads <= 1;
            match stat.state {
                'T' | 't' => return true,
                'X' => return false,
                _ if is_exiting => return false,
                _ => thread::sleep(Duration::from_millis(1)),
            }
        }
        true
    }
}

/// The flag of a process that has begun to exit, whatever it still has to free (`include/linux/sched.h`).
const PF_EXITING: u32 = 4;

/// The time limit for a process that is to stop.
const STOPS_WITHIN: Duration = Duration::from_millis(500);

/// All processes that are alive, without zombies. Others may start and end during the listing.
fn all_alive() -> Vec<Stat> {
    let Ok(processes) = all_processes() else { return Vec::new() };
    processes
        .filter_map(|process| process.ok()?.stat().ok())
        .filter(|stat| !matches!(stat.state, 'Z' | 'X'))
        .collect()
}

/// The same as [`descendants`].
///
/// # Errors
/// A process could not be read, and has not just ended.
pub(crate) fn descendants_read(root: i32) -> io::Result<Vec<ProcessId>> {
    let mut alive = Vec::new();
    for process in all_processes().map_err(io::Error::other)? {
        match process.and_then(|process| process.stat()) {
            Ok(stat) if matches!(stat.state, 'Z' | 'X') => {}
            Ok(stat) => alive.push(stat),
            // The harness may read its own processes, so one that it may not read is of another user.
            Err(ProcError::NotFound(_) | ProcError::PermissionDenied(_) | ProcError::Incomplete(_)) => {}
            Err(ProcError::Io(error, _)) if Errno::from_io_error(&error) == Some(Errno::SRCH) => {}
            Err(error) => return Err(io::Error::other(error)),
        }
    }
    Ok(below(&alive, vec![root]))
}

/// Every live process below `root`, at any depth, without `root` itself.
pub fn descendants(root: i32) -> Vec<ProcessId> {
    let alive = all_alive();
    below(&alive, vec![root])
}

/// The live process `root` and all live processes below it.
pub fn family(root: i32) -> Vec<ProcessId> {
    let alive = all_alive();
    let own = alive.iter().find(|stat| stat.pid == root).map(ProcessId::of);
    own.into_iter().chain(below(&alive, vec![root])).collect()
}

fn below(alive: &[Stat], mut roots: Vec<i32>) -> Vec<ProcessId> {
    let mut children: HashMap<i32, Vec<&Stat>> = HashMap::new();
    for stat in alive {
        children.entry(stat.ppid).or_default().push(stat);
    }
    let mut found = Vec::new();
    while let Some(parent) = roots.pop() {
        for child in children.remove(&parent).unwrap_or_default() {
            found.push(ProcessId::of(child));
            roots.push(child.pid);
        }
    }
    found
}

/// Whether a process is below `root`, at any depth.
pub(crate) fn is_below(pid: u32, root: u32) -> bool {
    let parent = |pid: u32| Some(Process::new(pid as i32).ok()?.stat().ok()?.ppid as u32);
    std::iter::successors(parent(pid), |&pid| parent(pid)).any(|pid| pid == root)
}

/// Whether `root` or a process below it has mapped a file whose path contains `part`.
pub(crate) fn loads(root: i32, part: &str) -> bool {
    let maps = |pid| fs::read(format!("/proc/{pid}/maps")).unwrap_or_default();
    let mut all = descendants(root).into_iter().map(|process| process.pid).chain([root]);
    all.any(|pid| String::from_utf8_lossy(&maps(pid)).contains(part))
}

/// Every live process of a session, or with `mark` (`NAME=value`) in its initial environment, and all below them: the processes
/// of a tree that can be found after its root has ended.
pub fn strays(session: i32, mark: &str) -> Vec<ProcessId> {
    let alive = all_alive();
    let marked: Vec<&Stat> =
        alive.iter().filter(|stat| stat.session == session || carries(stat.pid, mark)).collect();
    let mut found: Vec<ProcessId> = marked.iter().map(|stat| ProcessId::of(stat)).collect();
    let lower = below(&alive, marked.iter().map(|stat| stat.pid).collect());
    found.extend(lower.into_iter().filter(|id| !marked.iter().any(|stat| ProcessId::of(stat) == *id)));
    found
}

/// Returns `false` also for processes of other users, which cannot belong to the harness.
fn carries(pid: i32, mark: &str) -> bool {
    fs::read(format!("/proc/{pid}/environ"))
        .is_ok_and(|environment| environment.split(|&byte| byte == 0).any(|entry| entry == mark.as_bytes()))
}
