//! How long jobs ran beside others on their devices.

use schema::units::Nanos;

use crate::{
    cluster::JobId,
    job::{Job, Phase, State},
    occupancy::Occupancy,
};

/// Of each job, by its number.
#[derive(Clone, Debug)]
pub(super) struct Packing {
    /// When it began, of those that are packed now.
    since: Vec<Option<Nanos>>,
    before: Vec<Nanos>,
}

impl Packing {
    pub(super) fn new(jobs: usize) -> Packing {
        Packing { since: vec![None; jobs], before: vec![Nanos::ZERO; jobs] }
    }

    /// Up to `now`, of a job's running time.
    pub(super) fn of(&self, id: JobId, now: Nanos) -> Nanos {
        let id = id.0 as usize;
        self.before[id] + self.since[id].map_or(Nanos::ZERO, |since| now - since)
    }

    /// Takes note of a job whose state has changed, and of those on the devices that it has or had.
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
        let since = &mut self.since[id.0 as usize];
        match (*since, is_packed) {
            (None, true) => *since = Some(now),
            (Some(began), false) => {
                self.before[id.0 as usize] += now - began;
                *since = None;
            }
            _ => {}
        }
    }
}
