//! Limits of the system for the harness itself. The ranks that it starts have those of the user.

use std::{
    error::Error,
    io,
    sync::{Arc, OnceLock, atomic::AtomicBool},
};

use rustix::{
    io::Errno,
    process::{Resource, Rlimit, getrlimit, setrlimit},
};
use schema::{rows::RowError, run_dir::RunError};
use signal_hook::{consts::SIGXFSZ, flag};

/// The user's limit of open files, once [`widen`] has raised it.
static USERS: OnceLock<Rlimit> = OnceLock::new();

/// Raises the limit of open files as far as the system allows it, and lets a write beyond the limit of file sizes (`ulimit -f`) fail
/// with an error, instead of ending the program by SIGXFSZ.
///
/// # Errors
/// The signal cannot be handled.
pub fn widen() -> io::Result<()> {
    let users = getrlimit(Resource::Nofile);
    let widened = Rlimit { current: users.maximum, maximum: users.maximum };
    if users.current != users.maximum && setrlimit(Resource::Nofile, widened).is_ok() {
        USERS.get_or_init(|| users);
    }
    flag::register(SIGXFSZ, Arc::new(AtomicBool::new(false)))?;
    Ok(())
}

/// The limit of open files that a program of the user's is to have; `None` if it inherits the right one.
pub(crate) fn users_open_files() -> Option<u64> {
    USERS.get()?.current
}

/// Sets the limit of open files of this process.
pub(crate) fn set_open_files(count: u64) -> io::Result<()> {
    let limit = getrlimit(Resource::Nofile);
    Ok(setrlimit(Resource::Nofile, Rlimit { current: Some(count), ..limit })?)
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
