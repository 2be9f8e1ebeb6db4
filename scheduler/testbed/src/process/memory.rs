//! The memory that a launch needs, alone and beside those that are there. A decision cannot wait for a measurement, so that only
//! formulas and known footprints count.

use engine::cluster::{DeviceId, JobId};
use jobs::plans::{self, CUDA_CONTEXT_BYTES, Effort, Judgement};
use launches::launcher::StartRequest;
use record::{manifest::Cell, suspension::Suspension};
use schema::{device::Device, units::HumanBytes};

use super::{ProcessLauncher, launch::LaunchState};

impl ProcessLauncher {
    /// Checks that the plan can run on the devices of the cell, and that their memory holds it.
    pub(super) fn check_memory(&mut self, start: &StartRequest, cell: &Cell) -> Result<(), String> {
        let judged = self.judge(start.job, cell)?;
        if let Some(refusal) = judged.refusal {
            return Err(refusal);
        }
        for (id, device) in start.devices.iter().zip(&cell.devices) {
            self.check_beside(*id, device, judged.memory_bytes)?;
        }
        Ok(())
    }

    /// The estimated peak of tensor memory of the largest rank.
    pub(super) fn memory_bytes(&mut self, start: &StartRequest) -> Option<u64> {
        let cell = self.cell(start).ok()?;
        self.judge(start.job, &cell).ok()?.memory_bytes
    }

    fn judge(&mut self, job: JobId, cell: &Cell) -> Result<Judgement, String> {
        let (Some(plan), Some(batch)) = (cell.plan, cell.global_batch) else {
            return Ok(Judgement::default());
        };
        let Some(workload) = self.workload(job).cloned() else { return Ok(Judgement::default()) };
        match plans::refusal(&workload, batch, &plan, &cell.devices) {
            Some(refusal) => Err(refusal),
            None => Ok(self.setup.estimates.judge(&workload, batch, &plan, &cell.devices, Effort::Known)),
        }
    }

    /// Checks that a device holds a rank that takes this memory, beside all launches that stay there.
    fn check_beside(&mut self, id: DeviceId, device: &Device, bytes: Option<u64>) -> Result<(), String> {
        let context = if let Device::Cuda(_) = device { CUDA_CONTEXT_BYTES } else { 0 };
        let Some(bytes) = bytes else { return Ok(()) };
        let stays = |launch: &&LaunchState| launch.devices.contains(&id) && !launch.phase().is_leaving();
        let held = |launch: &LaunchState| match self.has_freed(launch, device) {
            false => Some(launch.memory_bytes? + context),
            // The process and its context stay.
            true if self.setup.suspension == Suspension::Pause => Some(context),
            true => None,
        };
        let others: u64 = self.launches.values().filter(stays).filter_map(held).sum();
        let needed = bytes + context + others;
        match self.setup.estimates.capacity(device) {
            Some(capacity) if others > 0 && needed > capacity => Err(format!(
                "it and the jobs on {device} need {} together, and there are {}",
                HumanBytes(needed),
                HumanBytes(capacity)
            )),
            _ => Ok(()),
        }
    }

    /// Whether a launch is held and its tensors are off the device.
    fn has_freed(&self, launch: &LaunchState, device: &Device) -> bool {
        let asked = self.setup.asked.get(launch.job.0 as usize);
        launch.phase().is_held()
            && asked.is_some_and(|asked| asked.pausing.frees(device, self.setup.suspension))
    }
}
