//! Measures the time for which jobs run packed.

use std::collections::HashMap;

use schema::units::Nanos;

use crate::{
    cluster::JobId,
    job::{Job, Phase, State},
    occupancy::Occupancy,
};

/// The packed time of each job. A job that was never packed takes no memory.
#[derive(Clone, Debug, Default)]
pub(super) struct Packing {
    /// The time at which each job that is packed now became so.
    since: HashMap<JobId, Nanos>,
    /// The packed time of jobs in earlier intervals.
    before: HashMap<JobId, Nanos>,
}

impl Packing {
    /// The packed time of a job up to `now`, which is a part of its running time.
    pub(super) fn of(&self, id: JobId, now: Nanos) -> Nanos {
        let before = self.before.get(&id).copied().unwrap_or_default();
        before + self.since.get(&id).map_or(Nanos::ZERO, |since| now - *since)
    }

    /// Updates a job whose state has changed, and the other jobs on the devices that it has or had.
    pub(super) fn changed(
        &mut self,
        id: JobId,
        before: &State,
        now: Nanos,
        jobs: &[Job],
        occupancy: &Occupancy,
    ) {
        self.note(id, now, jobs, occupancy);
        let placed = [before, &jobs[id.0 as usize].state].into_iter().find_map(|state| match state {
            State::Placed(placed) => Some(placed),
            _ => None,
        });
        for device in placed.into_iter().flat_map(|placed| &placed.devices) {
            for &other in occupancy.kept_by(*device).iter().filter(|other| **other != id) {
                self.note(other, now, jobs, occupancy);
            }
        }
    }

    fn note(&mut self, id: JobId, now: Nanos, jobs: &[Job], occupancy: &Occupancy) {
        let is_packed = match &jobs[id.0 as usize].state {
            State::Placed(placed) => {
                let is_shared = |device: &_| occupancy.kept_by(*device).len() > 1;
                placed.phase == Phase::Running && placed.devices.iter().any(is_shared)
            }
            _ => false,
        };
        if is_packed {
            self.since.entry(id).or_insert(now);
        } else if let Some(began) = self.since.remove(&id) {
            *self.before.entry(id).or_default() += now - began;
        }
    }
}
