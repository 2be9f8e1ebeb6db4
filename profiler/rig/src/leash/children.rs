//! What ended children took: `getrusage(2)`.

use std::{io, mem};

use libc::{RUSAGE_CHILDREN, getrusage, rusage, timeval};

/// Of all children that have ended and were waited for, and of theirs.
pub(super) struct ChildrenUsage {
    pub cpu_ns: u64,
    /// Of the largest one.
    pub rss_peak_bytes: u64,
}

pub(super) fn usage_of_children() -> io::Result<ChildrenUsage> {
    #[expect(unsafe_code, reason = "no safe wrapper has the usage of children")]
    // SAFETY: the structure has numbers alone, of which zero is one.
    let mut found: rusage = unsafe { mem::zeroed() };
    #[expect(unsafe_code, reason = "no safe wrapper has the usage of children")]
    // SAFETY: the kernel writes one structure, which lives here.
    let code = unsafe { getrusage(RUSAGE_CHILDREN, &raw mut found) };
    if code != 0 {
        return Err(io::Error::last_os_error());
    }
    let ns = |time: timeval| (time.tv_sec * 1_000_000 + time.tv_usec) as u64 * 1_000;
    Ok(ChildrenUsage {
        cpu_ns: ns(found.ru_utime) + ns(found.ru_stime),
        // The kernel counts kibibytes.
        rss_peak_bytes: found.ru_maxrss as u64 * 1024,
    })
}
