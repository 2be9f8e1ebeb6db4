//! The jobs that have devices, or are on their way to or off them.

use std::collections::BTreeMap;

use engine::{
    cluster::{DeviceId, JobId},
    job::Phase,
};
use schema::units::Nanos;

use super::{
    launcher::{LaunchId, StartRequest},
    reported::ReportedSteps,
};

/// A job that has devices, or is on its way to or off them.
pub(super) struct PlacedJob {
    pub(super) start: StartRequest,
    /// `None` while the job waits for others to leave its devices, before its launch.
    pub(super) launch: Option<LaunchId>,
    /// The phase in which the engine sees the job. A job that waits for others to leave is starting or resuming.
    pub(super) phase: Phase,
    pub(super) reported: ReportedSteps,
    /// When its launch began to run. While it trains, progress is reported at multiples of the interval from then on.
    pub(super) began: Option<Nanos>,
    pub(super) next_report: Option<Nanos>,
}

/// All jobs that have devices or are on their way, by job and by device.
pub(super) struct PlacedJobs {
    jobs: Vec<Slot>,
    /// The jobs of each device, in no order.
    on_devices: Vec<Vec<JobId>>,
}

#[derive(Default)]
struct Slot {
    /// The number of starts of the job.
    starts: u32,
    placed: Option<Box<PlacedJob>>,
}

impl PlacedJobs {
    /// None of this number of jobs, some of which were started before.
    pub(super) fn new(jobs: usize, starts: &BTreeMap<JobId, u32>) -> PlacedJobs {
        let slot = |job| Slot { starts: starts.get(&job).copied().unwrap_or(0), placed: None };
        let jobs = (0..jobs as u32).map(JobId).map(slot).collect();
        PlacedJobs { jobs, on_devices: Vec::new() }
    }

    /// The number of starts of a job.
    pub(super) fn starts(&self, job: JobId) -> u32 {
        self.jobs[job.0 as usize].starts
    }

    pub(super) fn get(&self, job: JobId) -> Option<&PlacedJob> {
        self.jobs.get(job.0 as usize)?.placed.as_deref()
    }

    pub(super) fn get_mut(&mut self, job: JobId) -> Option<&mut PlacedJob> {
        self.jobs.get_mut(job.0 as usize)?.placed.as_deref_mut()
    }

    /// Places a job that has no devices.
    pub(super) fn add(&mut self, placed: PlacedJob) {
        let job = placed.start.job;
        for device in &placed.start.devices {
            let index = device.0 as usize;
            if self.on_devices.len() <= index {
                self.on_devices.resize_with(index + 1, Vec::new);
            }
            self.on_devices[index].push(job);
        }
        let slot = &mut self.jobs[job.0 as usize];
        slot.starts += 1;
        slot.placed = Some(Box::new(placed));
    }

    pub(super) fn remove(&mut self, job: JobId) -> Option<PlacedJob> {
        let placed = self.jobs.get_mut(job.0 as usize)?.placed.take()?;
        for device in &placed.start.devices {
            take_off(&mut self.on_devices[device.0 as usize], job);
        }
        Some(*placed)
    }

    pub(super) fn have_launches(&self) -> bool {
        self.jobs.iter().filter_map(|slot| slot.placed.as_ref()).any(|placed| placed.launch.is_some())
    }

    /// The jobs that have a device.
    pub(super) fn on(&self, device: DeviceId) -> &[JobId] {
        self.on_devices.get(device.0 as usize).map_or(&[], Vec::as_slice)
    }

    /// The other jobs that train on devices of a start or will train there, in the order of their numbers.
    pub(super) fn staying_beside(&self, start: &StartRequest) -> Vec<&StartRequest> {
        let there = start.devices.iter().flat_map(|device| self.on(*device));
        let mut jobs: Vec<JobId> = there.copied().filter(|job| *job != start.job).collect();
        jobs.sort_unstable();
        jobs.dedup();
        let placed = jobs.into_iter().filter_map(|job| self.get(job));
        let stays =
            |placed: &&PlacedJob| matches!(placed.phase, Phase::Starting | Phase::Resuming | Phase::Running);
        placed.filter(stays).map(|placed| &placed.start).collect()
    }
}

/// Removes a job from the jobs of a device, which have no order.
pub(crate) fn take_off(jobs: &mut Vec<JobId>, job: JobId) {
    if let Some(index) = jobs.iter().position(|other| *other == job) {
        jobs.swap_remove(index);
    }
}
