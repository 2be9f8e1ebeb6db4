//! The memory of simulated devices. A launch that needs more than the others leave it runs out of memory when it is ready to train.

use formats::decision::{DeviceId, JobId};
use model::PredictRequest;
use schema::units::HumanBytes;

use super::{SimulatedLauncher, state::LaunchPhase};
use crate::launcher::StartRequest;

impl SimulatedLauncher<'_> {
    /// Why a launch does not fit on its devices beside the launches there, as far as the memory of the devices and the peaks are known.
    pub(super) fn lacks_memory(&self, id: JobId) -> Option<String> {
        let start = &self.launches[id].start;
        start.devices.iter().find_map(|device| {
            let node = &self.topology.nodes()[self.topology.node_of(*device).0 as usize];
            let memory = node.facts.device_memory_bytes?;
            let others = self.devices[device.0 as usize].has.iter();
            let others = others.filter(|other| **other != id && self.holds_memory(**other, *device));
            let of_others: u64 = others.filter_map(|other| self.peak(&self.launches[*other].start)).sum();
            let own = self.peak(start)?;
            (own.saturating_add(of_others) > memory).then(|| {
                format!(
                    "it needs {} beside {} of others, and a device has {}",
                    HumanBytes(own),
                    HumanBytes(of_others),
                    HumanBytes(memory)
                )
            })
        })
    }

    /// Whether a launch on a device has begun, and was not moved off by a pause.
    fn holds_memory(&self, id: JobId, device: DeviceId) -> bool {
        let launch = &self.launches[id];
        let pausing = self.asked[id.0 as usize].pausing;
        let is_off = launch.phase == LaunchPhase::Paused
            && pausing.frees(self.topology.device(device), self.settings.suspension);
        launch.began.is_some() && !is_off
    }

    /// The peak of memory of a launch alone, if it is known.
    fn peak(&self, start: &StartRequest) -> Option<u64> {
        self.truth.peak_memory_bytes(&PredictRequest {
            job: self.subject(start),
            placement: &self.topology.placement(&start.devices),
            device_type: self.topology.type_of(*start.devices.first()?),
            cpus: start.cpus,
            co_runners: &[],
            sharing: &self.settings.sharing,
            neighbours: &[],
        })
    }
}
