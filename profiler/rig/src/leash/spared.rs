//! Worker processes of Python, which SIGTERM spares as long as the process that they serve is there.
//!
//! A `DataLoader` has such workers. A program may need its workers while it saves a checkpoint on SIGTERM, and fails if they die before the
//! checkpoint is complete. A worker receives SIGTERM when its parent has exited. A worker that takes optimizer steps is a rank, and
//! receives SIGTERM with its parent.

use std::{
    env,
    ffi::OsStr,
    fs,
    os::unix::ffi::OsStrExt as _,
    path::{Path, PathBuf},
    sync::Mutex,
};

use procfs::process::Process;
use rustix::process::{Signal, getpid};
use schema::wire::TANDEM_EVENTS;

use crate::processes::ProcessId;

/// A part of the command of a worker that Python's `multiprocessing` has not forked.
const MULTIPROCESSING: &[u8] = b"multiprocessing";

/// The processes that were spared.
#[derive(Default)]
pub(super) struct Spared(Mutex<Vec<ProcessId>>);

impl Spared {
    /// Removes the workers from the processes that are to receive SIGTERM, and remembers them.
    pub(super) fn take_from(&self, all: &mut Vec<ProcessId>) {
        let events = events_of_ranks();
        let mut spared = self.0.lock().expect("no holder panics");
        spared.extend(all.extract_if(.., |process| is_worker(process.pid, events.as_deref())));
    }

    /// Sends SIGTERM to each worker whose parent has exited. The kernel makes such a worker a child of the leash.
    pub(super) fn end_orphans(&self) {
        let mut spared = self.0.lock().expect("no holder panics");
        let is_orphan = |process: &mut ProcessId| {
            parent(process.pid).is_none_or(|parent| parent == getpid().as_raw_nonzero().get())
        };
        spared.extract_if(.., is_orphan).for_each(|process| process.signal(Signal::TERM));
    }
}

/// How the paths of the event files of all ranks begin: the variable has the path of the first.
fn events_of_ranks() -> Option<PathBuf> {
    let first = env::var_os(TANDEM_EVENTS)?;
    first.as_bytes().strip_suffix(b"0.jsonl").map(|stem| OsStr::from_bytes(stem).into())
}

fn is_worker(pid: i32, events: Option<&Path>) -> bool {
    let Some(parent) = parent(pid) else { return false };
    let command = |pid: i32| fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let (own, of_parent) = (command(pid), command(parent));
    let is_served =
        own == of_parent || own.windows(MULTIPROCESSING.len()).any(|part| part == MULTIPROCESSING);
    is_python(pid) && is_python(parent) && is_served && !events.is_some_and(|events| has_open(pid, events))
}

fn parent(pid: i32) -> Option<i32> {
    Process::new(pid).and_then(|process| process.stat()).ok().map(|stat| stat.ppid)
}

fn is_python(pid: i32) -> bool {
    let executable = fs::read_link(format!("/proc/{pid}/exe")).unwrap_or_default();
    let name = executable.file_name().map(OsStr::as_bytes).unwrap_or_default();
    name.starts_with(b"python") || name.starts_with(b"pypy")
}

/// Whether a process has a file open whose path begins so. The step hook keeps the event file of its rank open, and closes it in children.
fn has_open(pid: i32, start: &Path) -> bool {
    let open = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    let mut paths = open.filter_map(|entry| fs::read_link(entry.path()).ok());
    paths.any(|path| path.as_os_str().as_bytes().starts_with(start.as_os_str().as_bytes()))
}
