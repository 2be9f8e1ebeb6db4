//! Jobs that leave their devices, and jobs that wait for them.

use std::collections::{BTreeMap, BTreeSet};

use engine::cluster::{DeviceId, JobId};

/// The jobs that are leaving their devices, each with the jobs that wait for it.
#[derive(Clone, Debug, Default)]
pub struct PendingReleases(BTreeMap<JobId, PendingRelease>);

#[derive(Clone, Debug)]
struct PendingRelease {
    devices: Vec<DeviceId>,
    awaited_by: BTreeSet<JobId>,
}

impl PendingReleases {
    /// A job begins to leave its devices, because it is paused or stopped. It waits for no other job any more.
    pub fn leave(&mut self, job: JobId, devices: &[DeviceId]) {
        self.wait_no_more(job);
        let leaver = || PendingRelease { devices: devices.to_vec(), awaited_by: BTreeSet::new() };
        self.0.entry(job).or_insert_with(leaver);
    }

    /// A job is to begin on devices. Returns whether it has to wait for jobs that are leaving them.
    pub fn wait(&mut self, job: JobId, devices: &[DeviceId]) -> bool {
        let mut waits = false;
        for leaver in self.0.values_mut() {
            if leaver.devices.iter().any(|device| devices.contains(device)) {
                leaver.awaited_by.insert(job);
                waits = true;
            }
        }
        waits
    }

    /// A job has left its devices, or has ended. Returns the jobs that waited for it and wait for no other job now: they can begin.
    pub fn left(&mut self, job: JobId) -> BTreeSet<JobId> {
        self.wait_no_more(job);
        let mut free = self.0.remove(&job).map(|leaver| leaver.awaited_by).unwrap_or_default();
        free.retain(|waiting| self.0.values().all(|leaver| !leaver.awaited_by.contains(waiting)));
        free
    }

    fn wait_no_more(&mut self, job: JobId) {
        for leaver in self.0.values_mut() {
            leaver.awaited_by.remove(&job);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: JobId = JobId(0);
    const B: JobId = JobId(1);
    const C: JobId = JobId(2);
    const D: JobId = JobId(3);

    fn devices<const N: usize>(numbers: [u32; N]) -> [DeviceId; N] {
        numbers.map(DeviceId)
    }

    #[test]
    fn a_job_begins_when_the_last_job_has_left_its_devices() {
        let mut releases = PendingReleases::default();
        releases.leave(A, &devices([0, 1]));
        releases.leave(B, &devices([2]));
        assert!(releases.wait(C, &devices([1, 2])));
        assert!(releases.wait(D, &devices([0])));
        assert!(!releases.wait(JobId(4), &devices([3])), "no job leaves this device");
        assert_eq!(releases.left(A), BTreeSet::from([D]));
        assert_eq!(releases.left(B), BTreeSet::from([C]));
        assert!(!releases.wait(D, &devices([0, 1, 2])), "all have left");
    }

    #[test]
    fn a_job_that_leaves_or_has_ended_waits_no_more() {
        let mut releases = PendingReleases::default();
        releases.leave(A, &devices([0]));
        for waiting in [B, C, D] {
            assert!(releases.wait(waiting, &devices([0])));
        }
        releases.leave(B, &devices([0]));
        assert_eq!(releases.left(C), BTreeSet::new());
        // It is stopped while it is being paused.
        releases.leave(A, &devices([0]));
        assert_eq!(releases.left(A), BTreeSet::from([D]));
        assert_eq!(releases.left(B), BTreeSet::new(), "D came before it");
    }
}
