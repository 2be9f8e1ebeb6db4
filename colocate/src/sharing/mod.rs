//! How the machine is made to share a device as a sharing mode says.
//!
//! Most modes need nothing of the machine: jobs run at once as they please, or take turns by their grants,
//! which is the business of [`crate::visit`]. What needs something, and it may be missing here, is behind
//! one seam: it is probed before a run has a directory, set up before a group starts, verified while the group
//! runs, and torn down when nothing is left of it. A mode that needs a server or stops processes finds its
//! place here too.

mod backend;
mod cgroup;
mod cpu_shares;
mod plain;
mod slices;

use schema::{device::Device, sharing::Sharing};

pub use self::backend::Backend;
use self::{cpu_shares::CpuShares, plain::Plain, slices::Slices};

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
