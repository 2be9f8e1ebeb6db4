//! The time slices of a thread in the kernel's fair scheduler: `sched_setattr(2)`, in the field `sched_runtime` of a normal
//! thread. Since Linux 6.12 a thread can set them.

use std::{io, mem, time::Duration};

use anyhow::Context as _;
use libc::{SYS_sched_getattr, SYS_sched_setattr, sched_attr, syscall};

/// Requests time slices of this length for this thread and for all that it starts from now on.
///
/// # Errors
/// The kernel sets another length. A kernel before 6.12 uses its own.
pub fn take(slice: Duration) -> anyhow::Result<()> {
    let asked = sched_attr { sched_runtime: slice.as_nanos() as u64, ..attributes(0)? };
    #[expect(unsafe_code, reason = "no safe wrapper sets the slices of a thread")]
    // SAFETY: the kernel reads as many bytes as the structure says it has; 0 is this thread.
    let code = unsafe { syscall(SYS_sched_setattr, 0, &raw const asked, 0) };
    if code != 0 {
        return Err(io::Error::last_os_error()).context("sched_setattr");
    }
    let given = of(0)?;
    anyhow::ensure!(
        given == slice,
        "this kernel gives slices of {given:?}; it takes Linux 6.12 to choose them"
    );
    Ok(())
}

/// The length of a thread's time slices; 0 is this thread.
///
/// # Errors
/// There is no such thread, or the kernel has no such call.
pub fn of(thread: u32) -> io::Result<Duration> {
    Ok(Duration::from_nanos(attributes(thread)?.sched_runtime))
}

fn attributes(thread: u32) -> io::Result<sched_attr> {
    let size = mem::size_of::<sched_attr>() as u32;
    let mut found = sched_attr {
        size,
        sched_policy: 0,
        sched_flags: 0,
        sched_nice: 0,
        sched_priority: 0,
        sched_runtime: 0,
        sched_deadline: 0,
        sched_period: 0,
    };
    #[expect(unsafe_code, reason = "no safe wrapper asks for the slices of a thread")]
    // SAFETY: the kernel writes at most `size` bytes, which is what the structure has.
    let code = unsafe { syscall(SYS_sched_getattr, thread, &raw mut found, size, 0) };
    if code == 0 { Ok(found) } else { Err(io::Error::last_os_error()) }
}
