//! The state of a launch on a simulated cluster.

use std::ops::{Index, IndexMut};

use schema::{
    decision::{DeviceId, JobId, Settled, Share},
    plan::Plan,
    units::Nanos,
};

use super::course::Stretch;
use crate::reported::ReportedSteps;

/// Steps are counted in numbers with a fraction, whose sums are this exact.
const ROUNDING: f64 = 1e-6;

/// The number of steps that are complete.
pub(super) fn whole(steps: f64) -> u64 {
    (steps + ROUNDING) as u64
}

/// The number of steps that are complete when the present one is.
pub(super) fn boundary(steps: f64) -> u64 {
    (steps - ROUNDING).ceil() as u64
}

/// A job as the simulation sees it: its launch, and what stays of it when that has ended.
#[derive(Clone, Debug, Default)]
pub(super) struct SimulatedLaunch {
    pub(super) phase: LaunchPhase,
    /// Counts what it was about to do: whatever was planned under another number does not happen.
    pub(super) number: u32,
    /// Counts the times that it began or ceased to train.
    pub(super) stint: u32,
    pub(super) devices: Vec<DeviceId>,
    pub(super) plan: Option<Plan>,
    pub(super) cpus: Option<u16>,
    pub(super) stretch: Stretch,
    /// The share of the time for which it may run.
    pub(super) share: Share,
    /// Times as long as the model says, by chance.
    pub(super) speed: f64,
    /// When its launch began to run. `None` until then.
    pub(super) began: Option<Nanos>,
    /// Steps that its last checkpoint holds, where it has one.
    pub(super) saved: Option<u64>,
    pub(super) reported: ReportedSteps,
    /// Its steps up to which losses were reported.
    pub(super) losses_until: u64,
    pub(super) launches: u32,
    pub(super) switches: u32,
    /// The number of switches to each state that were ordered.
    pub(super) ordered: [u32; 3],
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) enum LaunchPhase {
    #[default]
    Away,
    /// Waits for jobs that are leaving its devices, before it starts or resumes.
    Waiting {
        takes: Nanos,
    },
    Switching {
        to: Settled,
        checkpoint: bool,
    },
    Training,
    /// Trains until it has done this number of steps.
    Leaving {
        at: u64,
        to: Settled,
        checkpoint: bool,
    },
    Paused,
}

impl SimulatedLaunch {
    /// Whether it has done more steps than its last checkpoint holds.
    pub(super) fn has_more(&self) -> bool {
        whole(self.stretch.steps) > self.saved.unwrap_or(0)
    }
}

/// The launches of all jobs. A job takes memory for one from its first start to its last step.
pub(super) struct Launches {
    launches: Vec<Option<Box<SimulatedLaunch>>>,
    /// The launch of jobs that have none in memory.
    none: SimulatedLaunch,
}

impl Launches {
    pub(super) fn new(jobs: usize) -> Launches {
        Launches { launches: vec![None; jobs], none: SimulatedLaunch::default() }
    }

    /// Forgets the launch of a job that has done its last step.
    pub(super) fn forget(&mut self, id: JobId) {
        self.launches[id.0 as usize] = None;
    }
}

impl Index<JobId> for Launches {
    type Output = SimulatedLaunch;

    #[inline]
    fn index(&self, id: JobId) -> &SimulatedLaunch {
        self.launches[id.0 as usize].as_deref().unwrap_or(&self.none)
    }
}

impl IndexMut<JobId> for Launches {
    #[inline]
    fn index_mut(&mut self, id: JobId) -> &mut SimulatedLaunch {
        self.launches[id.0 as usize].get_or_insert_default()
    }
}
