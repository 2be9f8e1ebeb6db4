//! The interface between a sharing mode and the machine.

use procfs::process::Process;
use rig::Isolation;

/// The setup that a mode needs on the machine. Dropping it removes the setup.
pub trait Backend {
    /// Returns why the mode is not available here.
    fn probe(&self) -> Result<(), String>;

    /// Sets up the mode for a group with this number of members.
    fn set_up(&mut self, seats: usize) -> anyhow::Result<()>;

    /// What each rank of a seat joins before it starts.
    fn isolation(&self, seat: usize) -> Isolation;

    /// Checks that the processes of a seat share as the mode requires, or returns why they do not. Published numbers of a mode
    /// must not come from another one.
    fn verify(&mut self, seat: usize, pids: &[u32]) -> Result<(), String>;

    /// Removes the setup, after all processes have ended.
    fn tear_down(&mut self) -> anyhow::Result<()>;
}

/// Whether a process exists and has not ended.
pub(super) fn runs(pid: u32) -> bool {
    let stat = Process::new(pid as i32).and_then(|process| process.stat());
    stat.is_ok_and(|stat| !matches!(stat.state, 'Z' | 'X'))
}
