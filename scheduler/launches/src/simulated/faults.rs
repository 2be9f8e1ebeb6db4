//! What breaks on a simulated cluster.

use formats::decision::{ClusterEvent, DeviceId};
use schema::units::Nanos;

use super::{
    SimulatedLauncher,
    chance::{Draw, exponential, numbers},
    events::Event,
};

impl SimulatedLauncher<'_> {
    pub(super) fn plan_faults(&mut self) {
        for device in (0..self.topology.devices()).map(DeviceId) {
            self.plan_to_break(device);
        }
    }

    /// A device is lost. The launches that have it fail at the same time.
    pub(super) fn break_down(&mut self, device: DeviceId) -> ClusterEvent {
        for job in &self.devices[device.0 as usize].has {
            self.queue.plan(self.now, Event::Lose(*job, self.launches[*job].start.number));
        }
        let down = self.draw(device, self.settings.faults.device_repair_ns);
        self.queue.plan(self.after(down), Event::Back(device));
        ClusterEvent::DeviceLost { device }
    }

    pub(super) fn come_back(&mut self, device: DeviceId) -> ClusterEvent {
        self.plan_to_break(device);
        ClusterEvent::DeviceBack { device }
    }

    fn plan_to_break(&mut self, device: DeviceId) {
        if let Some(mean) = self.settings.faults.device_mtbf_ns {
            let up = self.draw(device, mean);
            self.queue.plan(self.after(up), Event::Break(device));
        }
    }

    /// The next length of time of a device.
    fn draw(&mut self, device: DeviceId, mean_ns: f64) -> Nanos {
        let faults = &mut self.devices[device.0 as usize].faults;
        *faults += 1;
        let mut chance = numbers(self.settings.seed, Draw::Device, device.0, *faults);
        // Not at the same instant, so that what is lost is known to be before it is back.
        Nanos((exponential(&mut chance, mean_ns) as u64).saturating_add(1))
    }
}
