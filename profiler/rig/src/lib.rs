//! Runs and observes jobs: launches under leashes on one rig, and readings of their devices and processes.

pub mod cgroup;
pub mod cuda_checkpoint;
mod descriptors;
pub mod device;
pub mod disk;
mod event;
mod exit;
mod first_step;
pub mod footprint;
pub mod interrupt;
mod launch;
pub mod leash;
pub mod limits;
mod measure;
pub mod output;
pub mod pace;
pub mod processes;
pub mod programs;
mod rests;
mod rig;
pub mod sampler;
pub mod slices;
mod stop;
pub mod usage;
mod watch;

pub use self::{
    event::{Member, RigEvent},
    exit::Exit,
    launch::{LaunchRequest, Leave, POLL_TRAINING, Patience, Programs, remove_remains},
    leash::Joins,
    measure::measure_alone,
    rests::Rests,
    rig::Rig,
    stop::{Amount, StopCheck, StopRule},
    watch::Watch,
};
