//! CPU time and peak memory of ended children: `getrusage(2)`.

use std::{io, mem};

use libc::{RUSAGE_CHILDREN, getrusage, rusage, timeval};

/// The resource usage of all children that were waited for, and of their descendants.
pub(super) struct ChildrenUsage {
    pub cpu_ns: u64,
    /// The peak resident memory of the largest child.
    pub rss_peak_bytes: u64,
}

pub(super) fn usage_of_children() -> io::Result<ChildrenUsage> {
    #[expect(unsafe_code, reason = "no safe wrapper has the usage of children")]
    // SAFETY: all fields are integers, for which zero is valid.
    let mut found: rusage = unsafe { mem::zeroed() };
    #[expect(unsafe_code, reason = "no safe wrapper has the usage of children")]
    // SAFETY: the kernel writes one `rusage` to a valid pointer.
    let code = unsafe { getrusage(RUSAGE_CHILDREN, &raw mut found) };
    if code != 0 {
        return Err(io::Error::last_os_error());
    }
    let ns = |time: timeval| (time.tv_sec * 1_000_000 + time.tv_usec) as u64 * 1_000;
    Ok(ChildrenUsage {
        cpu_ns: ns(found.ru_utime) + ns(found.ru_stime),
        // `ru_maxrss` is in KiB.
        rss_peak_bytes: found.ru_maxrss as u64 * 1024,
    })
}
