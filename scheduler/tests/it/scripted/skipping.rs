//! The steps of launches, one by one, and skipped ones.

use launches::{
    fast_forward::{Skipping, TimedStep},
    launcher::LaunchId,
};
use schema::units::Nanos;

use super::{Doing, Scripted, whole};

/// The steps of a launch that were told.
#[derive(Default)]
pub(super) struct Timed {
    pub(super) steps: Vec<TimedStep>,
    /// The number of steps of its job at the last of them, and its end, unless the launch rested since.
    pub(super) done: u64,
    pub(super) end: Option<Nanos>,
}

impl Scripted<'_> {
    /// Adds the steps that a launch has taken at its present pace.
    pub(super) fn time_steps(&mut self, place: usize) {
        let launch = &self.launches[place];
        let (done, since, steps, step_ns) =
            (whole(self.steps_at(launch)), launch.since, launch.steps, launch.step_ns);
        let timed = &mut self.launches[place].timed;
        self.executed += done.saturating_sub(timed.done);
        for step in timed.done + 1..=done {
            let end = since + Nanos(((step as f64 - steps).max(0.0) * step_ns).round() as u64);
            let took = timed.end.replace(end).map(|before| end.saturating_sub(before));
            timed.steps.push(TimedStep { end, took });
            timed.done = step;
        }
    }
}

impl Skipping for Scripted<'_> {
    fn take_steps(&mut self, launch: LaunchId) -> Vec<TimedStep> {
        let place = launch.0 as usize;
        if self.launches[place].trains() {
            self.time_steps(place);
        }
        std::mem::take(&mut self.launches[place].timed.steps)
    }

    fn trains(&self, launch: LaunchId) -> bool {
        self.launches[launch.0 as usize].doing == Doing::Trains
    }

    fn room(&self, launch: LaunchId) -> Option<u64> {
        let launch = &self.launches[launch.0 as usize];
        let is_endless = self.endless == Some(launch.job);
        (!is_endless).then(|| self.all(launch) - whole(self.steps_at(launch)))
    }

    fn skip_steps(&mut self, launch: LaunchId, steps: u64) {
        let of = self.launch(launch);
        of.steps += steps as f64;
        of.timed.done += steps;
    }

    fn skip_time(&mut self, by: Nanos) {
        self.skipped += by;
        for launch in &mut self.launches {
            launch.saves_at = launch.saves_at.map(|at| at.saturating_sub(by));
        }
    }

    fn saves_at(&self) -> Option<Nanos> {
        let trains = self.launches.iter().filter(|launch| launch.doing == Doing::Trains);
        trains.filter_map(|launch| launch.saves_at).min()
    }

    fn last_throttled(&self) -> Option<Nanos> {
        self.throttled.iter().copied().filter(|at| *at <= self.now).max()
    }
}
