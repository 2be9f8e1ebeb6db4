//! The resource usage of a rank: of its first process and of all processes below it.
//!
//! Processes start and end faster than they can be listed, so the list is renewed at the slow rate, while the files of known
//! processes are kept open and read at the fast rate. An open file belongs to its process and not to its process id: after the
//! end of the process a read fails, even if the process id is in use again.

mod foreign;
mod process;
mod sharing;
mod tally;

use std::{collections::BTreeMap, io};

pub use foreign::{Foreign, Scan, top_foreign};
pub use process::capabilities;
use process::{Process, children_of, has_ended};
use schema::units::Nanos;
use sharing::Mapped;
use tally::Tally;

use crate::cgroup::{Throttling, directories};

/// The processes of one rank. Counters never fall: the usage of processes that have ended stays included.
pub struct Tree {
    root: u32,
    found: bool,
    processes: BTreeMap<u32, Process>,
    tally: Tally,
    throttling: Throttling,
    /// When the memory that processes have in common may be read again.
    sharing_due: Nanos,
    /// The bytes of files and of shared memory that processes outside of this tree count, as of that reading.
    outside_bytes: u64,
    /// The waiting time for a core of processes that have ended.
    ended_wait_ns: u64,
    /// The I/O of processes whose end was not observed by a parent in the tree.
    orphaned: [u64; 2],
    last: Reading,
    is_root_unread: bool,
    /// What the last search for processes could not read.
    unread: Option<String>,
}

/// One reading. A value is `None` if this kernel does not report it for these processes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reading {
    /// The number of running processes, without those that have ended and wait for their parent.
    pub processes: u64,
    pub cpu_ns: u64,
    /// The time in which threads were ready and had no core.
    pub run_queue_wait_ns: Option<u64>,
    /// The resident memory of all of them. A page that several have counts once, as of the last search for processes, and in
    /// each of them if the kernel does not tell which they share.
    pub rss_bytes: u64,
    /// Bytes passed through read and write calls.
    pub read_bytes: Option<u64>,
    pub write_bytes: Option<u64>,
    /// The number of periods, since the first reading, in which a CPU quota stopped processes of the first one's cgroup or of one
    /// above.
    pub throttled_periods: Option<u64>,
    /// What could not be read although it has not ended. The other values are then without it.
    pub unread: Option<String>,
}

impl Tree {
    /// Starts with a process and the processes below it now. A process that does not exist makes an empty tree.
    pub fn new(root: u32) -> Tree {
        let mut tree = Tree {
            root,
            found: false,
            processes: BTreeMap::new(),
            tally: Tally::default(),
            throttling: Throttling::default(),
            sharing_due: Nanos::ZERO,
            outside_bytes: 0,
            ended_wait_ns: 0,
            orphaned: [0; 2],
            last: Reading::default(),
            is_root_unread: true,
            unread: None,
        };
        tree.refresh();
        tree.found = tree.has(root) || tree.is_root_unread;
        tree
    }

    pub fn root(&self) -> u32 {
        self.root
    }

    /// Whether the first process existed.
    pub fn was_found(&self) -> bool {
        self.found
    }

    pub fn has(&self, pid: u32) -> bool {
        self.processes.contains_key(&pid)
    }

    /// The known processes that existed at the last reading.
    pub fn pids(&self) -> impl Iterator<Item = u32> {
        self.processes.keys().copied()
    }

    /// Looks for new processes and threads. It takes some microseconds per thread. The slow rate is sufficient, because the
    /// usage of a process that lives between two searches is counted by the parent that waits for it.
    pub fn refresh(&mut self) {
        self.unread = None;
        // A root that was read or has ended is not tried again, because another process may have its process id later.
        if self.is_root_unread {
            self.take_up(self.root);
            self.is_root_unread = self.unread.is_some();
        }
        let mut parents: Vec<u32> = self.pids().collect();
        while let Some(parent) = parents.pop() {
            let children = children_of(parent).unwrap_or_else(|error| {
                self.note_unread(&format!("the children of process {parent}"), &error);
                Vec::new()
            });
            for child in children {
                if !self.has(child) && self.take_up(child) {
                    parents.push(child);
                }
            }
        }
        self.processes.values_mut().for_each(Process::refresh_threads);
        self.refresh_sharing();
        // The process id of a root that has ended may be in use again.
        let root = i32::try_from(self.root).ok().filter(|_| self.has(self.root));
        self.throttling.refresh(root.map_or(Vec::new(), directories));
    }

    /// Reads which memory the processes have in common. A process alone has nothing in common with others of its tree.
    fn refresh_sharing(&mut self) {
        if self.processes.len() < 2 || Nanos::monotonic_now() < self.sharing_due {
            return;
        }
        let read = || self.processes.values_mut().filter_map(Process::refresh_mapped).collect();
        let (mapped, due): (Vec<Mapped>, Nanos) = sharing::paced(read);
        (self.outside_bytes, self.sharing_due) = (sharing::outside_bytes(&mapped), due);
    }

    fn take_up(&mut self, pid: u32) -> bool {
        match Process::open(pid) {
            Ok(process) => self.processes.insert(pid, process).is_none(),
            Err(error) => {
                self.note_unread(&format!("process {pid}"), &error);
                false
            }
        }
    }

    fn note_unread(&mut self, what: &str, error: &io::Error) {
        if !has_ended(error) {
            self.unread = Some(format!("{what} could not be read: {error}"));
        }
    }

    /// Reads the known processes.
    pub fn read(&mut self) -> Reading {
        let mut now = Reading {
            run_queue_wait_ns: Some(self.ended_wait_ns),
            throttled_periods: self.throttling.periods(),
            unread: self.unread.clone(),
            ..Reading::default()
        };
        let mut io = Some(self.orphaned);
        let (mut own_bytes, mut largest_bytes) = (self.outside_bytes, 0);
        let mut ended = Vec::new();
        for (&pid, process) in &mut self.processes {
            match process.read() {
                Ok(()) => {}
                Err(error) if has_ended(&error) => {
                    ended.push((process.start_ticks, pid));
                    continue;
                }
                // It counts with its last values.
                Err(error) => now.unread = Some(format!("process {pid} could not be read: {error}")),
            }
            now.processes += u64::from(!process.is_zombie);
            now.rss_bytes += process.rss_bytes;
            own_bytes += process.rss_bytes.saturating_sub(process.repeated_bytes);
            largest_bytes = largest_bytes.max(process.rss_bytes);
            now.run_queue_wait_ns = now.run_queue_wait_ns.zip(process.wait_ns()).map(|(sum, own)| sum + own);
            io = io.zip(process.io()).map(|([r, w], [read, write])| [r + read, w + write]);
            self.tally.update(pid, process.parent, process.cpu_ns, process.reaped_ns);
        }
        // Children started after their parents, so a child that has ended is added to a parent that still counts.
        ended.sort_unstable();
        for (_, pid) in ended.into_iter().rev() {
            let process = self.processes.remove(&pid).expect("it was listed a moment ago");
            now.run_queue_wait_ns = now.run_queue_wait_ns.map(|sum| sum + process.wait_ns().unwrap_or(0));
            self.ended_wait_ns += process.wait_ns().unwrap_or(0);
            // The kernel adds the I/O of a child to the parent that waited for it.
            if !self.processes.contains_key(&process.parent) {
                for (sum, own) in self.orphaned.iter_mut().zip(process.io().unwrap_or_default()) {
                    *sum += own;
                }
                io = io.map(|[r, w]| process.io().map_or([r, w], |[read, write]| [r + read, w + write]));
            }
            self.tally.end(pid);
        }
        // What was shared may have changed since it was read, but the memory is between these two at any time.
        now.rss_bytes = own_bytes.clamp(largest_bytes, now.rss_bytes);
        now.cpu_ns = self.tally.total_ns();
        // Between the end of a child and the next reading of its parent, its bytes are in neither.
        now.read_bytes = io.map(|[read, _]| read.max(self.last.read_bytes.unwrap_or(0)));
        now.write_bytes = io.map(|[_, write]| write.max(self.last.write_bytes.unwrap_or(0)));
        self.last = now.clone();
        now
    }
}

#[cfg(test)]
mod tests;
