//! When the clock is advanced, and how far.

use engine::cluster::ClusterError;
use formats::{decision::Share, rows::Skip};
use schema::units::Nanos;

use super::{Doing, FastForward, Hindrance, Skipping, window::window};
use crate::launcher::{LaunchId, Launcher as _};

/// The shortest jump. What is shorter is waited for.
const SHORTEST: Nanos = Nanos(100_000_000);

impl<L: Skipping> FastForward<'_, L> {
    /// Jumps as far as possible towards a deadline. Returns why there was no jump.
    pub(super) fn jump(&mut self, deadline: Option<Nanos>) -> Result<Option<Hindrance>, ClusterError> {
        match self.plan(deadline) {
            Ok(until) => self.jump_to(until).map(|()| None),
            Err(hindrance) => Ok(Some(hindrance)),
        }
    }

    /// How far the clock can be advanced.
    fn plan(&mut self, deadline: Option<Nanos>) -> Result<Nanos, Hindrance> {
        let now = self.now();
        let training: Vec<LaunchId> = self.training().collect();
        let is_switching = |member: &LaunchId| !self.inner.trains(*member);
        if self.launches.values().any(|launch| launch.doing == Doing::Switches)
            || training.iter().any(is_switching)
        {
            return Err(Hindrance::Switch);
        }
        if training.iter().any(|member| self.launches[member].share < Share::FULL) {
            return Err(Hindrance::Throttled);
        }
        let checkpoint = self.inner.saves_at().map(|at| at + self.skipped).filter(|_| !training.is_empty());
        let mut ends = vec![(deadline, Hindrance::NearEvent), (checkpoint, Hindrance::NearEvent)];
        for member in training {
            let Some(launch) = self.launches.get_mut(&member) else { continue };
            let room = self.inner.room(member).ok_or(Hindrance::NoEnd)?;
            let measured = launch.window.judge(&self.rule)?;
            let left = Nanos((room as f64 * measured.step_ns.estimate) as u64);
            ends.push((Some(now + left.saturating_sub(window(&self.rule))), Hindrance::LastSteps));
            ends.push((Some(now + measured.left), Hindrance::Measuring));
        }
        let known = ends.into_iter().filter_map(|(at, why)| Some((at?, why)));
        let (until, why) = known.min().ok_or(Hindrance::Nothing)?;
        if until >= now + SHORTEST {
            return Ok(until);
        }
        if why == Hindrance::Measuring {
            self.measure_anew();
        }
        Err(why)
    }

    fn training(&self) -> impl Iterator<Item = LaunchId> {
        let trains = self.launches.iter().filter(|(_, launch)| launch.doing == Doing::Trains);
        trains.map(|(member, _)| *member)
    }

    /// Advances the clock to `until`. Each job that trains counts the steps of that time as done.
    fn jump_to(&mut self, until: Nanos) -> Result<(), ClusterError> {
        let now = self.now();
        let length = until - now;
        let (of_launcher, of_run) = self.began;
        let run_time = |at: Nanos| of_run.0 + at.saturating_sub(of_launcher).0;
        let whole = Skip::without_job(self.next_jump, (run_time(now), run_time(until)), self.inner.now().0);
        let mut rows = Vec::new();
        for member in self.training().collect::<Vec<_>>() {
            let (steps_before, room) = (self.inner.steps(member), self.inner.room(member).unwrap_or(0));
            let Some(launch) = self.launches.get_mut(&member) else { continue };
            let Ok(measured) = launch.window.judge(&self.rule) else { continue };
            let exact = length.0 as f64 / measured.step_ns.estimate + launch.carry;
            let steps = (exact as u64).min(room);
            launch.carry = exact - steps as f64;
            measured.left = measured.left.saturating_sub(length);
            let step_ns = measured.step_ns;
            rows.push(Skip {
                job: Some(launch.job),
                steps_before: Some(steps_before),
                steps: Some(steps),
                step_ns: Some(step_ns.estimate),
                step_ns_ci_lo: Some(step_ns.lo),
                step_ns_ci_hi: Some(step_ns.hi),
                window_from_ns: Some(run_time(measured.from)),
                window_until_ns: Some(run_time(measured.until)),
                window_steps: Some(step_ns.n as u64),
                ..whole.clone()
            });
            self.inner.skip_steps(member, steps);
        }
        if rows.is_empty() {
            rows.push(whole);
        }
        self.inner.skip_time(length);
        self.skipped += length;
        self.next_jump += 1;
        (self.log)(&rows)?;
        Ok(())
    }
}
