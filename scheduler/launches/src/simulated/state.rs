//! The state of a launch on a simulated cluster.

use std::ops::{Index, IndexMut};

use formats::decision::{JobId, Settled};
use schema::units::Nanos;

use super::course::Stretch;
use crate::launcher::StartRequest;

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

/// The present or last launch of a job, and what stays of the job between launches.
#[derive(Clone, Debug)]
pub(super) struct SimulatedLaunch {
    pub(super) start: StartRequest,
    pub(super) phase: LaunchPhase,
    /// Counts what it was about to do: whatever was planned under another number does not happen.
    pub(super) number: u32,
    /// Counts the times that it began or ceased to train.
    pub(super) stint: u32,
    pub(super) stretch: Stretch,
    /// Steps that it does within its start, until the start is over.
    pub(super) steps_in_start: u64,
    /// Times as long as the model says, by chance.
    pub(super) speed: f64,
    /// When it began to run. `None` until then.
    pub(super) began: Option<Nanos>,
    /// Steps that its last checkpoint holds, where it has one.
    pub(super) saved: Option<u64>,
    /// Its steps in its last report of progress; at first those of its checkpoint.
    pub(super) reported: u64,
    /// When it last began to train, and the steps that it began with.
    pub(super) trains_since: Nanos,
    pub(super) trains_from: u64,
    /// The number of switches whose durations were drawn.
    pub(super) switches: u32,
    /// The number of switches of this launch to each state that were ordered.
    pub(super) ordered: [u32; 3],
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum LaunchPhase {
    Away,
    Switching {
        to: Settled,
        checkpoint: bool,
    },
    Training,
    /// Trains until it has done this number of steps, or does the steps within the switch, whose duration is known by record.
    Leaving {
        at: u64,
        to: Settled,
        checkpoint: bool,
        by_record: bool,
    },
    Paused,
    /// It has done its last step, and its processes have not ended.
    Exiting,
}

impl SimulatedLaunch {
    fn first(start: &StartRequest) -> SimulatedLaunch {
        SimulatedLaunch {
            start: start.clone(),
            phase: LaunchPhase::Away,
            number: 0,
            stint: 0,
            stretch: Stretch { launch: start.number, ..Stretch::default() },
            steps_in_start: 0,
            speed: 1.0,
            began: None,
            saved: None,
            reported: 0,
            trains_since: Nanos::ZERO,
            trains_from: 0,
            switches: 0,
            ordered: [0; 3],
        }
    }

    /// The next launch of the job, from its last checkpoint.
    fn start_again(&mut self, start: &StartRequest) {
        self.start.clone_from(start);
        let saved = self.saved.unwrap_or(0);
        self.stretch = Stretch { launch: start.number, steps: saved as f64, ..Stretch::default() };
        self.reported = saved;
        self.began = None;
        self.ordered = [0; 3];
    }

    /// Whether it has done more steps than its last checkpoint holds.
    pub(super) fn has_more(&self) -> bool {
        whole(self.stretch.steps) > self.saved.unwrap_or(0)
    }

    /// Whether it trains, if only to the end of a step.
    pub(super) fn trains(&self) -> bool {
        matches!(self.phase, LaunchPhase::Training | LaunchPhase::Leaving { .. })
    }
}

/// The launches of all jobs. A job takes memory for one from its first start until it has finished, or the policy has ended it.
pub(super) struct Launches(Vec<Option<Box<SimulatedLaunch>>>);

impl Launches {
    pub(super) fn new(jobs: usize) -> Launches {
        Launches(vec![None; jobs])
    }

    pub(super) fn get(&self, id: JobId) -> Option<&SimulatedLaunch> {
        self.0.get(id.0 as usize)?.as_deref()
    }

    /// Begins a launch of a job that has none.
    pub(super) fn add(&mut self, start: &StartRequest) -> &mut SimulatedLaunch {
        match &mut self.0[start.job.0 as usize] {
            Some(launch) => {
                launch.start_again(start);
                launch
            }
            none => none.insert(Box::new(SimulatedLaunch::first(start))),
        }
    }

    /// Forgets the launch of a job that has done its last step, or is not started again.
    pub(super) fn forget(&mut self, id: JobId) {
        self.0[id.0 as usize] = None;
    }
}

impl Index<JobId> for Launches {
    type Output = SimulatedLaunch;

    #[inline]
    fn index(&self, id: JobId) -> &SimulatedLaunch {
        self.0[id.0 as usize].as_deref().expect("the job was started, has not finished and was not ended")
    }
}

impl IndexMut<JobId> for Launches {
    #[inline]
    fn index_mut(&mut self, id: JobId) -> &mut SimulatedLaunch {
        self.0[id.0 as usize].as_deref_mut().expect("the job was started, has not finished and was not ended")
    }
}
