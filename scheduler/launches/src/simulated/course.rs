//! The relation of time and steps on a simulated cluster.

use formats::decision::{JobId, Settled};
use schema::units::Nanos;

use super::{LONGEST, state::whole};

/// A part of a launch in which the model gives a step the same time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Stretch {
    /// The number of earlier launches of the job.
    pub launch: u32,
    /// Steps done by `since`.
    pub steps: f64,
    pub since: Nanos,
    /// The time of a step by the model.
    pub step_ns: f64,
}

/// The relation of time and steps on a simulated cluster. Steps have a fraction. `steps_at` and `time_of` increase, and each is the
/// inverse of the other.
pub trait ProgressModel {
    /// The steps that a job has done by a time, from the beginning of the stretch on.
    fn steps_at(&mut self, job: JobId, of: &Stretch, at: Nanos) -> f64;

    /// The steps that a job reports at a time, from the beginning of the stretch on.
    fn reported_at(&mut self, job: JobId, of: &Stretch, at: Nanos) -> u64 {
        whole(self.steps_at(job, of, at))
    }

    /// The time at which a job has done a number of steps, if the stretch lasts as long.
    fn time_of(&mut self, job: JobId, of: &Stretch, steps: f64) -> Nanos;

    /// The steps that a launch of a job has done at the end of its `nth` switch to a state: after which it leaves its devices, or within
    /// its start. Launches and orders count from 0. The time from the order to the last of these steps is part of the switch. `None` if
    /// the steps follow from the time for which the launch works on or starts.
    fn leaves_at(&mut self, _job: JobId, _launch: u32, _to: Settled, _nth: u32) -> Option<u64> {
        None
    }

    /// The duration of the `nth` switch of a launch to this state. `None` if that follows from the costs of switches.
    fn switch(&mut self, _job: JobId, _launch: u32, _to: Settled, _nth: u32) -> Option<Nanos> {
        None
    }

    /// The time from the last step of a launch until its processes have ended. `None` if that follows from the costs of switches.
    fn exit(&mut self, _job: JobId, _launch: u32) -> Option<Nanos> {
        None
    }
}

/// The course of a cluster whose step times are exactly those of its model.
pub struct Exact;

impl ProgressModel for Exact {
    fn steps_at(&mut self, _: JobId, of: &Stretch, at: Nanos) -> f64 {
        of.steps + (at - of.since).0 as f64 / of.step_ns
    }

    fn time_of(&mut self, _: JobId, of: &Stretch, steps: f64) -> Nanos {
        of.since + duration((steps - of.steps) * of.step_ns)
    }
}

/// A duration in whole nanoseconds, rounded up so that the steps that take it are complete.
pub(super) fn duration(ns: f64) -> Nanos {
    Nanos(ns.max(0.0).ceil() as u64).min(LONGEST)
}
