//! The limit of open files of the harness. Readings keep several files open for every process of a launch, so the harness takes
//! as many as it may. Programs that it starts have the limit of the user, because some of them reserve memory for, or close, as
//! many files as they may open.

use std::{io, os::unix::process::CommandExt, process::Command, sync::OnceLock};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// The limit that the harness was started with, if it was raised.
static OF_USER: OnceLock<Rlimit> = OnceLock::new();

/// Raises the limit of this process as far as it may.
pub(crate) fn raise() {
    let of_user = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: of_user.maximum, ..of_user };
    // Without the raise there are fewer readings, which their rows say.
    if raised != of_user && setrlimit(Resource::Nofile, raised).is_ok() {
        let _ = OF_USER.set(of_user);
    }
}

/// Starts the command with the limit that the harness was started with.
pub(crate) fn give_back(command: &mut Command) {
    let Some(of_user) = OF_USER.get().copied() else { return };
    let lower = move || setrlimit(Resource::Nofile, of_user).map_err(io::Error::from);
    #[expect(unsafe_code, reason = "the limit must be set between fork and exec")]
    // SAFETY: one system call, safe in a signal handler, and no allocation.
    unsafe {
        command.pre_exec(lower);
    }
}
