//! Devices that are lost.
//!
//! A device is lost when its driver says so to the sampler, which reads it all the time, and when a process on it does not end
//! after SIGKILL. That is all that is seen: a device that still answers and breaks whatever runs on it shows as jobs that fail,
//! which are tried again as others that fail are. A device stays lost
//! until the scheduler ends. `--resume` opens it anew, and refuses to start where it does not answer.

use engine::cluster::{ClusterEvent, DeviceId};
use launches::machine::Input;
use record::rows::ErrorKind;
use rig::Member;

use super::{ProcessLauncher, launch::LaunchState};

impl ProcessLauncher {
    /// Ends what runs on devices that were lost since the last time; whether there are such.
    pub(super) fn notice_losses(&mut self) -> bool {
        let lost = self.setup.sampler.lost_devices();
        let numbered = (0..).map(DeviceId).zip(&self.setup.devices);
        let new: Vec<DeviceId> = numbered
            .filter(|(id, device)| lost.contains(device) && !self.lost.contains(id))
            .map(|(id, _)| id)
            .collect();
        new.iter().for_each(|device| self.lose(*device));
        !new.is_empty()
    }

    /// Takes a device for lost, and ends what runs there.
    pub(super) fn lose(&mut self, device: DeviceId) {
        if self.lost.insert(device) {
            self.events.push_back(ClusterEvent::DeviceLost { device });
            self.end_all_on(device);
        }
    }

    fn end_all_on(&mut self, device: DeviceId) {
        let why = format!("lost its device {}", self.setup.devices[device.0 as usize]);
        let there = |launch: &LaunchState| !launch.is_over() && launch.devices.contains(&device);
        let of_device = self.launches.iter().filter(|(_, launch)| there(launch));
        let failed: Vec<Member> = of_device.map(|(member, _)| *member).collect();
        for member in failed {
            self.step(member, Input::Failed(ErrorKind::DeviceLost, why.clone()));
        }
    }
}
