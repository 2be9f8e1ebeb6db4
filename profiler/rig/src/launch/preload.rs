//! The library that keeps the step hook on Python's module path where a program sets `PYTHONPATH` anew or removes it
//! (`workloads/python/preload`).

use std::{env, ffi::OsString, path::Path};

use rustix::fs::{StatVfsMountFlags, statvfs};

/// The variable with the folder that the library puts on the path.
pub(super) const TANDEM_HOOK: &str = "TANDEM_HOOK";

const LD_PRELOAD: &str = "LD_PRELOAD";

/// AddressSanitizer of GCC ends a program in which another library than its own was preloaded first, unless its options say that this is
/// intended.
const ASAN_OPTIONS: &str = "ASAN_OPTIONS";
const ANY_LINK_ORDER: &str = "verify_asan_link_order=0";

/// The name of the library in the folder of the hook.
pub(super) const LIBRARY: &str = "keep_hook.so";

pub(super) const CODE: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/keep_hook.so"));

/// Adds the variables that make the dynamic linker load the library in `folder`, after the libraries of the user, to those that the user has
/// chosen for the program. An empty `LD_PRELOAD` among these leaves the library out, and so does a path that the linker could not load,
/// of which it would complain in each process: it divides the variable at spaces and colons, and maps no code from a file system without
/// executable files.
pub(super) fn add_to(chosen: &mut Vec<(String, OsString)>, folder: &Path) {
    let library = folder.join(LIBRARY).into_os_string();
    let is_divided = library.as_encoded_bytes().iter().any(|byte| b": \t\n".contains(byte));
    let is_executable =
        || statvfs(folder).is_ok_and(|mount| !mount.f_flag.contains(StatVfsMountFlags::NOEXEC));
    let is_unwanted = chosen.iter().any(|(name, value)| name == LD_PRELOAD && value.is_empty());
    if is_unwanted || is_divided || !is_executable() {
        return;
    }
    append(chosen, LD_PRELOAD, library);
    append(chosen, ASAN_OPTIONS, ANY_LINK_ORDER.into());
    chosen.push((TANDEM_HOOK.to_owned(), folder.into()));
}

/// Appends an entry to a variable whose entries colons divide, as the user has chosen it or as this process has it.
fn append(chosen: &mut Vec<(String, OsString)>, variable: &str, entry: OsString) {
    let place = chosen.iter().position(|(name, _)| name == variable);
    let own = place.map(|place| chosen.remove(place).1);
    let mut entries = own.or_else(|| env::var_os(variable)).unwrap_or_default();
    if !entries.is_empty() {
        entries.push(":");
    }
    entries.push(entry);
    chosen.push((variable.to_owned(), entries));
}
