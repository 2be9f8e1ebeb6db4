//! How the machine is made to share a device as a sharing mode says.
//!
//! Most modes need nothing of the machine: jobs run at once as they please, or take turns by their grants,
//! which is the business of [`crate::together`]. What needs something, and it may be missing here, is behind
//! one seam: it is probed before a run has a directory, set up before a group starts, verified while the group
//! runs, and torn down when nothing is left of it. A mode that needs a server or stops processes finds its
//! place here too.

mod cgroup;
mod cpu_shares;
mod plain;
mod slices;

use procfs::process::Process;
use rig::Joins;
use schema::{device::Device, sharing::Sharing};

use self::{cpu_shares::CpuShares, plain::Plain, slices::Slices};

/// What a mode needs of the machine. Dropping it takes down what was set up.
pub trait Backend {
    /// Why the mode cannot be had here.
    fn probe(&self) -> Result<(), String>;

    /// Makes what a group of so many members needs.
    fn set_up(&mut self, seats: usize) -> anyhow::Result<()>;

    /// What each rank of a seat joins before it begins.
    fn joins(&self, seat: usize) -> Joins;

    /// Whether the processes of a seat do share as the mode says; else why not. A number that is published of a
    /// mode is of that mode: what cannot be had must not be taken for it.
    fn verify(&self, seat: usize, pids: &[u32]) -> Result<(), String>;

    /// Takes down what was set up, when all processes have ended.
    fn tear_down(&mut self) -> anyhow::Result<()>;
}

/// What `sharing` needs for jobs on these devices.
pub fn backend(sharing: &Sharing, devices: &[Device]) -> Box<dyn Backend> {
    match sharing {
        Sharing::Alone
        | Sharing::TimeSlice { slice: None }
        | Sharing::StepGate { .. }
        | Sharing::Sequential => Box::new(Plain::on(devices)),
        Sharing::TimeSlice { slice: Some(slice) } => Box::new(Slices::new(*slice, devices)),
        Sharing::CpuShares { weights } => Box::new(CpuShares::new(weights.clone(), devices)),
    }
}

/// Whether a process is there and has not ended.
fn runs(pid: u32) -> bool {
    let stat = Process::new(pid as i32).and_then(|process| process.stat());
    stat.is_ok_and(|stat| !matches!(stat.state, 'Z' | 'X'))
}
