//! Limits of the system that a write, a file or a process can meet.

use std::{
    error::Error,
    io,
    sync::{Arc, atomic::AtomicBool},
};

use record::rows::RowError;
use rustix::io::Errno;
use schema::files::RunError;
use signal_hook::{consts::SIGXFSZ, flag};

/// Lets a write beyond the limit of file sizes (`ulimit -f`) fail with an error, instead of ending the program by SIGXFSZ. Programs that it
/// starts are ended as before.
///
/// # Errors
/// The signal cannot be handled.
pub fn fail_at_file_size() -> io::Result<()> {
    flag::register(SIGXFSZ, Arc::new(AtomicBool::new(false))).map(drop)
}

/// The words of an error with its causes and, if it is one of a limit of the system, what to do about it.
pub(crate) fn told(error: &anyhow::Error) -> String {
    let remedy = remedy(error).map(|remedy| format!("; {remedy}")).unwrap_or_default();
    format!("{error:#}{remedy}")
}

fn remedy(error: &anyhow::Error) -> Option<&'static str> {
    let of_system = error.chain().find_map(|cause| of_system(cause)?.raw_os_error())?;
    match Errno::from_raw_os_error(of_system) {
        Errno::AGAIN => Some("processes are limited; raise `ulimit -u`, or pids.max of the cgroup"),
        Errno::FBIG => Some("the size of files is limited; raise `ulimit -f`"),
        Errno::MFILE => Some("open files are limited; raise `ulimit -n`"),
        _ => None,
    }
}

/// The error of the system that an error is or tells.
fn of_system<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a io::Error> {
    match (error.downcast_ref(), error.downcast_ref()) {
        (Some(RunError::Write { cause, .. } | RunError::Io { cause, .. }), _) => Some(cause),
        (_, Some(RowError::Write { cause, .. } | RowError::Io { cause, .. })) => Some(cause),
        _ => error.downcast_ref(),
    }
}
