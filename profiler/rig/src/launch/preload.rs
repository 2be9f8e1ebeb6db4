//! The library that keeps the step hook on Python's module path where a program sets `PYTHONPATH` anew or removes it
//! (`workloads/python/preload`).

use std::{ffi::OsString, path::Path};

use rustix::fs::{StatVfsMountFlags, statvfs};

/// The variable with the folder that the library puts on the path.
pub(super) const TANDEM_HOOK: &str = "TANDEM_HOOK";

pub(super) const LD_PRELOAD: &str = "LD_PRELOAD";

/// The name of the library in the folder of the hook.
pub(super) const LIBRARY: &str = "keep_hook.so";

pub(super) const CODE: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/keep_hook.so"));

/// The variables that make the dynamic linker load the library in `folder` after those of `users`. None if it could not load the library,
/// of which it would complain in each process: it divides the variable at spaces and colons, and maps no code from a file system without
/// executable files.
pub(super) fn variables(folder: &Path, users: Option<OsString>) -> Vec<(&'static str, OsString)> {
    let library = folder.join(LIBRARY).into_os_string();
    let is_divided = library.as_encoded_bytes().iter().any(|byte| b": \t\n".contains(byte));
    let is_executable =
        || statvfs(folder).is_ok_and(|mount| !mount.f_flag.contains(StatVfsMountFlags::NOEXEC));
    if is_divided || !is_executable() {
        return Vec::new();
    }
    let mut libraries = users.unwrap_or_default();
    if !libraries.is_empty() {
        libraries.push(":");
    }
    libraries.push(library);
    vec![(TANDEM_HOOK, folder.into()), (LD_PRELOAD, libraries)]
}
