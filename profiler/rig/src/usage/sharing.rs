//! The memory that processes have in common.
//!
//! The resident set of a process includes pages that others have mapped too: memory from before a fork, shared memory, files. In
//! `/proc/<pid>/smaps_rollup` the kernel also gives the proportional set, in which each of `n` processes has an `n`-th of such a
//! page. Of memory that only processes of one rank have in common, the proportional sets add up to each page once.
//!
//! Programs of other jobs may have mapped the same files, such as libraries. The memory of a rank is that which it takes alone, so
//! the pages of files count in full as far as one of its processes has all of them.
//!
//! The kernel walks all page tables for a reading, which takes about 0.1 s for a million pages (4 GiB). It is therefore read
//! rarely, and between two readings the memory of a rank follows the resident sets of its processes.

use std::{fs, path::Path};

use rustix::time::{ClockId, clock_gettime};
use schema::units::Nanos;

/// After a reading there is none for this number of times the CPU time that it took, so that readings take at most 0.5 % of one core.
const PAUSE: u64 = 200;

/// Returns what a reading gives, and the time before which there is to be no other.
pub(super) fn paced<T>(read: impl FnOnce() -> T) -> (T, Nanos) {
    let spent = || {
        let time = clock_gettime(ClockId::ThreadCPUTime);
        Nanos(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
    };
    let before = spent();
    let result = read();
    (result, Nanos::monotonic_now() + Nanos(PAUSE * (spent() - before).0))
}

/// The memory of one process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Mapped {
    rss_bytes: u64,
    pss_bytes: u64,
    /// The part of each that is in no file and in no shared memory.
    anonymous_rss_bytes: u64,
    anonymous_pss_bytes: u64,
}

impl Mapped {
    /// Returns `None` if the kernel does not give it for this process, which may belong to another user, or does not give it at
    /// all, as before Linux 5.4.
    pub(super) fn read(pid: u32) -> Option<Mapped> {
        mapped(&fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).ok()?)
    }

    /// The part of the resident set that other processes count.
    pub(super) fn repeated_bytes(&self) -> u64 {
        self.rss_bytes.saturating_sub(self.pss_bytes)
    }
}

fn mapped(text: &str) -> Option<Mapped> {
    let bytes = |name: &str| {
        let kib: u64 =
            text.lines().find_map(|line| line.strip_prefix(name)?.strip_suffix("kB")?.trim().parse().ok())?;
        Some(kib * 1024)
    };
    Some(Mapped {
        rss_bytes: bytes("Rss:")?,
        pss_bytes: bytes("Pss:")?,
        anonymous_rss_bytes: bytes("Anonymous:")?,
        anonymous_pss_bytes: bytes("Pss_Anon:")?,
    })
}

/// The bytes of files and of shared memory that processes outside of the rank count, at least.
pub(super) fn outside_bytes(rank: &[Mapped]) -> u64 {
    let whole = |mapped: &Mapped| mapped.rss_bytes.saturating_sub(mapped.anonymous_rss_bytes);
    let part = |mapped: &Mapped| mapped.pss_bytes.saturating_sub(mapped.anonymous_pss_bytes);
    let largest = rank.iter().map(whole).max().unwrap_or(0);
    largest.saturating_sub(rank.iter().map(part).sum())
}

/// How the memory of the processes of a rank adds up on this kernel.
pub(super) fn capability() -> &'static str {
    if Path::new("/proc/self/smaps_rollup").exists() {
        "ok, a page that processes share counts once"
    } else {
        "this kernel does not say what processes share, so that a shared page counts in each of them"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROLLUP: &str = "\
55d0c8a00000-7ffc5c9fe000 ---p 00000000 00:00 0                          [rollup]
Rss:              205000 kB
Pss:               42000 kB
Pss_Dirty:         40000 kB
Pss_Anon:          41000 kB
Pss_File:           1000 kB
Pss_Shmem:             0 kB
Shared_Clean:       5000 kB
Private_Dirty:         0 kB
Referenced:       205000 kB
Anonymous:        200000 kB
AnonHugePages:         0 kB
";

    #[test]
    fn what_the_kernel_writes_is_read() {
        let read = mapped(ROLLUP).unwrap();
        let [rss_bytes, pss_bytes, anonymous_rss_bytes, anonymous_pss_bytes] =
            [205_000, 42_000, 200_000, 41_000].map(|kib: u64| kib * 1024);
        assert_eq!(read, Mapped { rss_bytes, pss_bytes, anonymous_rss_bytes, anonymous_pss_bytes });
        assert_eq!(read.repeated_bytes(), 163_000 * 1024);
        // As before Linux 5.4.
        assert_eq!(mapped(&ROLLUP.replace("Pss_Anon", "Pss_Other")), None);
        assert_eq!(mapped(""), None);
    }

    #[test]
    fn files_that_others_have_mapped_count_in_full() {
        let process = |files: u64, part_of_files: u64| Mapped {
            rss_bytes: 100 + files,
            pss_bytes: 20 + part_of_files,
            anonymous_rss_bytes: 100,
            anonymous_pss_bytes: 20,
        };
        for (rank, outside) in [
            (&[process(60, 12); 5][..], 0),
            // Five processes of another job have the same files.
            (&[process(60, 6); 5], 30),
            (&[process(60, 6), process(50, 5), process(0, 0)], 49),
            // Each has files of its own.
            (&[process(60, 60), process(50, 50)], 0),
            (&[], 0),
        ] {
            assert_eq!(outside_bytes(rank), outside, "{rank:?}");
        }
    }

    #[test]
    fn this_process_has_memory() {
        let Some(own) = Mapped::read(std::process::id()) else {
            return schema::skips::skipped(
                "kernel-accounting",
                "this kernel does not say what processes share",
            );
        };
        assert!(own.anonymous_pss_bytes > 0 && own.pss_bytes <= own.rss_bytes, "{own:?}");
    }
}
