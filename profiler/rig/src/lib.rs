//! What runs jobs and watches them: launches under leashes on one rig, and readings of their devices and processes.

pub mod device;
pub mod disk;
mod exit;
pub mod footprint;
pub mod interrupt;
mod launch;
pub mod leash;
pub mod output;
pub mod pace;
pub mod processes;
pub mod programs;
mod rig;
pub mod sampler;
pub mod slices;
pub mod usage;
mod watch;

pub use self::{
    exit::Exit,
    launch::{LaunchRequest, Leave, POLL_TRAINING, Patience, Programs},
    leash::Joins,
    rig::{Member, Rig, RigEvent},
    watch::Watch,
};
