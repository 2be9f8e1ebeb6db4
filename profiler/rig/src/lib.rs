//! Runs and observes jobs: launches under leashes on one rig, and readings of their devices and processes.

pub mod cgroup;
pub mod cuda_checkpoint;
mod descriptors;
pub mod device;
pub mod disk;
mod event;
mod event_loop;
mod exit;
mod first_step;
pub mod footprint;
mod idle_tracker;
pub mod interrupt;
mod launch;
pub mod leash;
pub mod limits;
mod measure;
pub mod mps;
pub mod output;
pub mod pace;
pub mod processes;
pub mod programs;
mod rig;
pub mod sampler;
pub mod slices;
mod stop;
pub mod usage;

pub use self::{
    event::{Member, RigEvent, SavedSteps},
    event_loop::EventLoop,
    exit::Exit,
    idle_tracker::IdleTracker,
    launch::{
        FIRST_STEP, LaunchRequest, POLL_TRAINING, Programs, StepPattern, StopMode, Timeouts, check_shell,
        has_words, remove_remains, who_sets,
    },
    leash::Isolation,
    measure::measure_alone,
    rig::Rig,
    stop::{Amount, StopCheck, StopRule},
};
