//! The seam between a sharing mode and what it needs of the machine.

use procfs::process::Process;
use rig::Joins;

/// What a mode needs of the machine. Dropping it takes down what was set up.
pub trait Backend {
    /// Why the mode cannot be had here.
    fn probe(&self) -> Result<(), String>;

    /// Makes what a group of this number of members needs.
    fn set_up(&mut self, seats: usize) -> anyhow::Result<()>;

    /// What each rank of a seat joins before it begins.
    fn joins(&self, seat: usize) -> Joins;

    /// Whether the processes of a seat do share as the mode says; else why not. A number that is published of a
    /// mode is of that mode: what cannot be had must not be taken for it.
    fn verify(&self, seat: usize, pids: &[u32]) -> Result<(), String>;

    /// Takes down what was set up, when all processes have ended.
    fn tear_down(&mut self) -> anyhow::Result<()>;
}

/// Whether a process is there and has not ended.
pub(super) fn runs(pid: u32) -> bool {
    let stat = Process::new(pid as i32).and_then(|process| process.stat());
    stat.is_ok_and(|stat| !matches!(stat.state, 'Z' | 'X'))
}
