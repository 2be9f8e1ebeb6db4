//! Devices for which no job waits go to elastic jobs: one after another to the job that gains the most time for each further device.
//!
//! A job that starts in this decision grows at no cost. A running job has to be restarted, and grows only if the restart makes it end sooner.

use super::round::{Outcome, Round};

/// A larger option of a job.
#[derive(Clone, Copy, Debug)]
struct Growth {
    index: usize,
    option: usize,
    /// Seconds that the job gains for each further device.
    gain_s: f64,
}

impl Round<'_> {
    /// Gives out the devices of pools in which no job waits.
    pub(super) fn grow(&mut self) {
        // A job that has grown is considered again, and one for which there is no room is not.
        let mut growths: Vec<Growth> =
            (0..self.entries.len()).filter_map(|index| self.growth(index)).collect();
        while let Some(best) = (0..growths.len()).max_by(|a, b| {
            growths[*a].gain_s.total_cmp(&growths[*b].gain_s).then(growths[*b].index.cmp(&growths[*a].index))
        }) {
            let Growth { index, option, .. } = growths.swap_remove(best);
            if self.take(index, option) {
                growths.extend(self.growth(index));
            }
        }
    }

    /// The growth of a job that gains the most time for each further device. `None` if it does not gain.
    fn growth(&self, index: usize) -> Option<Growth> {
        let entry = &self.entries[index];
        let (devices, rate, cost_s) = match &self.outcomes[index] {
            Outcome::Runs { option, .. } => {
                (entry.options[*option].devices, entry.options[*option].rate, 0.0)
            }
            Outcome::Stays if self.may_grow(index) => {
                let runs = entry.runs()?;
                (runs.devices(), runs.rate, entry.restart_s()?)
            }
            _ => return None,
        };
        let from = entry.options.partition_point(|option| option.devices <= devices);
        if from == entry.options.len() || self.any_waits(entry.pool) {
            return None;
        }
        let growth = |option: usize| {
            let to = &entry.options[option];
            let gain_s = entry.left_at(rate) - entry.left_at(to.rate) - cost_s;
            Growth { index, option, gain_s: gain_s / f64::from(to.devices - devices) }
        };
        let free = devices + self.room.available.of_pool(entry.pool);
        let fits = |option: &usize| entry.options[*option].devices <= free;
        let growths =
            (from..entry.options.len()).filter(fits).map(growth).filter(|growth| growth.gain_s > 0.0);
        growths.max_by(|a, b| a.gain_s.total_cmp(&b.gain_s))
    }

    /// Whether a job that runs may be restarted on more devices: a job that gets a guest in this decision stays.
    fn may_grow(&self, index: usize) -> bool {
        self.guests.iter().all(|guest| guest.host != index)
    }

    /// Takes the devices of an option for a job in place of those that it has. Returns whether there are some.
    fn take(&mut self, index: usize, option: usize) -> bool {
        let entry = &self.entries[index];
        let before = match &self.outcomes[index] {
            Outcome::Runs { target, .. } => target.clone(),
            _ => match entry.runs() {
                Some(runs) => runs.target.clone(),
                None => return false,
            },
        };
        self.room.available.give_back(&before.nodes, before.cpus);
        match self.room.find(entry.pool, &entry.options[option]) {
            Some(target) => {
                self.outcomes[index] = Outcome::Runs { option, target };
                true
            }
            None => {
                self.room.available.take(&before.nodes, before.cpus);
                false
            }
        }
    }
}
