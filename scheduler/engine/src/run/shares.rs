//! Measures the time for which devices are busy, and divides it among the jobs that run on them.

use schema::units::Nanos;

use crate::{
    cluster::JobId,
    job::{Job, Phase, State},
    topology::DeviceId,
};

/// The busy time of devices. A device is busy while at least one job runs on it.
#[derive(Clone, Debug)]
pub(super) struct Shares {
    devices: Vec<Device>,
    /// The part of each job, by its number.
    of_jobs: Vec<Nanos>,
}

#[derive(Clone, Debug, Default)]
struct Device {
    running: Vec<JobId>,
    /// The time up to which the shares of the running jobs include this device.
    until: Nanos,
}

impl Shares {
    pub(super) fn new(jobs: usize, devices: u32) -> Shares {
        Shares { devices: vec![Device::default(); devices as usize], of_jobs: vec![Nanos::ZERO; jobs] }
    }

    /// The part of each job in the busy time of devices up to `now`. Jobs that run on a device at the same time have equal parts of
    /// that time, to the nanosecond, so that the sum over jobs counts the device once.
    pub(super) fn until(&self, now: Nanos) -> Vec<Nanos> {
        let mut shares = self.of_jobs.clone();
        self.devices.iter().for_each(|device| device.divide(now, &mut shares));
        shares
    }

    /// Updates the devices of a job whose state has changed.
    pub(super) fn changed(&mut self, id: JobId, before: &State, now: Nanos, job: &Job) {
        for &device in running_on(before) {
            self.settle(device, now).retain(|other| *other != id);
        }
        for &device in running_on(&job.state) {
            self.settle(device, now).push(id);
        }
    }

    /// Divides the time of a device up to `now`. Returns the jobs that run on it.
    fn settle(&mut self, device: DeviceId, now: Nanos) -> &mut Vec<JobId> {
        let device = &mut self.devices[device.0 as usize];
        device.divide(now, &mut self.of_jobs);
        device.until = now;
        &mut device.running
    }
}

impl Device {
    fn divide(&self, now: Nanos, shares: &mut [Nanos]) {
        let jobs = self.running.len() as u64;
        if jobs == 0 {
            return;
        }
        let passed = (now - self.until).0;
        // What does not divide evenly goes to the first jobs, so that no nanosecond is lost.
        for (n, id) in (0..).zip(&self.running) {
            shares[id.0 as usize] += Nanos(passed / jobs + u64::from(n < passed % jobs));
        }
    }
}

fn running_on(state: &State) -> &[DeviceId] {
    match state {
        State::Placed(placed) if placed.phase == Phase::Running => &placed.devices,
        _ => &[],
    }
}
