//! Launches whose jobs skip steps. A process does not know of it: it is granted no more steps than are left, and is ended after them.

use launches::{
    fast_forward::{Skipping, TimedStep},
    launcher::LaunchId,
};
use schema::units::Nanos;

use super::{ProcessLauncher, member};

impl Skipping for ProcessLauncher {
    fn take_steps(&mut self, launch: LaunchId) -> Vec<TimedStep> {
        let Some(of) = self.launches.get_mut(&member(launch)) else { return Vec::new() };
        of.work.timed.as_mut().map(std::mem::take).unwrap_or_default()
    }

    fn trains(&self, launch: LaunchId) -> bool {
        self.launches.get(&member(launch)).is_some_and(super::launch::LaunchState::trains)
    }

    fn room(&self, launch: LaunchId) -> Option<u64> {
        self.launches.get(&member(launch))?.work.room()
    }

    fn skip_steps(&mut self, launch: LaunchId, steps: u64) {
        if let Some(of) = self.launches.get_mut(&member(launch)) {
            of.work.skip(steps);
        }
    }

    fn skip_time(&mut self, by: Nanos) {
        for launch in self.launches.values_mut() {
            launch.save_at = launch.save_at.map(|at| at.saturating_sub(by));
        }
    }

    fn saves_at(&self) -> Option<Nanos> {
        self.launches.values().filter(|launch| launch.trains()).filter_map(|launch| launch.save_at).min()
    }

    fn last_throttled(&self) -> Option<Nanos> {
        self.setup.sampler.last_throttled()
    }
}
