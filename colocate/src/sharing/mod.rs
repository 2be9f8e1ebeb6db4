//! Sets up the machine for a sharing mode.
//!
//! Most modes need no setup: jobs run at once without restrictions, or take turns by their grants, which [`crate::visit`]
//! controls. Modes that need a setup, which may be unavailable, implement one trait: the mode is probed before a run has a
//! directory, set up before a group starts, verified while the group runs, and removed when all processes have ended. A mode
//! that needs a server or stops processes belongs here, too.

mod backend;
mod cgroup;
mod cpu_shares;
mod mps;
mod plain;
mod slices;

use schema::{device::Device, sharing::Sharing};

pub use self::backend::Backend;
use self::{cpu_shares::CpuShares, mps::Mps, plain::Plain, slices::Slices};

/// The setup that `sharing` needs for jobs on these devices.
pub fn backend(sharing: &Sharing, devices: &[Device]) -> Box<dyn Backend> {
    match sharing {
        Sharing::Alone
        | Sharing::TimeSlice { slice: None }
        | Sharing::StepGate { .. }
        | Sharing::Sequential => Box::new(Plain::on(devices)),
        Sharing::TimeSlice { slice: Some(slice) } => Box::new(Slices::new(*slice, devices)),
        Sharing::CpuShares { weights } => Box::new(CpuShares::new(weights.clone(), devices)),
        Sharing::Mps { threads, memory_mib } => {
            Box::new(Mps::new(threads.clone(), memory_mib.clone(), devices))
        }
    }
}
