//! The free devices of a virtual cluster during a decision. Those of the profiler stage are for jobs that do not fit without them.

use std::collections::{BTreeMap, BTreeSet};

use engine::{
    occupancy::{Draft, Occupancy},
    topology::DeviceId,
    view::View,
};

use super::stage::Stage;
use crate::kit::ranking::Need;

/// Whether jobs fit on the nodes that are not of the stage, by their needs. It does not change during a run.
#[derive(Debug, Default)]
pub(super) struct Outside(BTreeMap<Need, bool>);

impl Outside {
    /// Whether a job with this need would ever fit there.
    pub(super) fn fits(&mut self, view: &View<'_>, stage: &Stage, need: Need) -> bool {
        if stage.nodes().is_empty() {
            return true;
        }
        *self.0.entry(need).or_insert_with(|| {
            let empty = match Occupancy::new(view.topology) {
                empty if view.occupancy.counts_cpus() => empty,
                empty => empty.without_cpus(),
            };
            let mut draft = Draft::new(&empty, view.placement, view.pools());
            stage.nodes().iter().for_each(|node| draft.close(*node));
            draft.fits_with(need.devices, need.pool, need.cpus)
        })
    }

    /// Whether so many devices are not lost. Lost devices may never come back.
    pub(super) fn is_present(&mut self, view: &View<'_>, stage: &Stage, need: Need) -> bool {
        let is_outside = self.fits(view, stage, need);
        view.pools().filter(|pool| need.allows(*pool)).any(|pool| {
            let of_stage = if is_outside { stage.present_in(view, pool) } else { 0 };
            view.occupancy.present_in(pool) >= need.devices + of_stage
        })
    }
}

/// The free devices without those of the stage, and all of them.
pub(super) struct Room<'a> {
    outside: Draft<'a>,
    all: Draft<'a>,
    misfits: BTreeSet<Need>,
}

impl<'a> Room<'a> {
    pub(super) fn new(view: &'a View<'_>, stage: &Stage) -> Room<'a> {
        let all = view.draft();
        let mut outside = all.clone();
        stage.nodes().iter().for_each(|node| outside.close(*node));
        Room { outside, all, misfits: BTreeSet::new() }
    }

    /// All free devices.
    pub(super) fn all(&self) -> &Draft<'a> {
        &self.all
    }

    /// Whether a job with this need fits now.
    pub(super) fn fits(&mut self, need: Need, is_outside: bool) -> bool {
        if self.misfits.contains(&need) {
            return false;
        }
        let draft = if is_outside { &self.outside } else { &self.all };
        let fits = draft.fits_with(need.devices, need.pool, need.cpus);
        if !fits {
            self.misfits.insert(need);
        }
        fits
    }

    /// Takes devices for a job.
    pub(super) fn take(&mut self, need: Need, is_outside: bool) -> Option<Vec<DeviceId>> {
        if !self.fits(need, is_outside) {
            return None;
        }
        let (draft, other) = match is_outside {
            true => (&mut self.outside, &mut self.all),
            false => (&mut self.all, &mut self.outside),
        };
        let devices = draft.take_with(need.devices, need.pool, need.cpus)?;
        other.hold(&devices);
        other.take_cpus(&devices, need.cpus);
        Some(devices)
    }

    /// Takes cores for a job beside another on these devices.
    pub(super) fn take_cpus(&mut self, devices: &[DeviceId], cpus: Option<u16>) {
        self.all.take_cpus(devices, cpus);
        self.outside.take_cpus(devices, cpus);
    }
}
