//! The request of a launch of a job.

use std::collections::BTreeSet;

use anyhow::Context as _;
use engine::cluster::{DeviceId, JobId};
use jobs::launch;
use launches::launcher::StartRequest;
use record::manifest::Cell;
use rig::LaunchRequest;
use schema::{catalog::Workload, device::Device, spec::Program};

use super::{ProcessLauncher, TestbedSetup, host_cores::is_gpu, parts::Parts};

/// The name of the folder for checkpoints of a job whose program writes them.
pub(super) fn checkpoint_folder(job: JobId) -> String {
    format!("job-{:04}", job.0)
}

impl ProcessLauncher {
    /// Of a job, from its last checkpoint.
    pub(super) fn request(&self, start: &StartRequest) -> anyhow::Result<LaunchRequest> {
        let TestbedSetup { run, manifest, catalog, .. } = &self.setup;
        let cell = self.cell(start)?;
        // The stream of data belongs to the seed: all launches of a job have the same, and no two jobs.
        let numbers = (self.next_number, start.job.0);
        let mut request =
            launch::request(run, manifest, catalog, &cell, numbers, self.steps_left(start.job))?;
        request.isolation = self.backend.isolation(start.job.0 as usize);
        let spec = &mut request.spec;
        spec.block = start.number;
        spec.sharing = self.setup.sharing.clone();
        spec.steps_regex =
            self.setup.asked.get(start.job.0 as usize).and_then(|asked| asked.steps_regex.clone());
        if let Some(cpus) = start.cpus {
            (spec.threads, spec.threads_named) = (cpus.into(), true);
            if spec.devices.iter().all(is_gpu) {
                spec.host_cores = self.bind(&spec.devices, cpus).map_err(anyhow::Error::msg)?;
            }
        }
        if catalog.program(&cell.workload).is_some() {
            // The names of a launch in its command are filled in.
            spec.surroundings.get_or_insert_default();
        }
        let folder = checkpoint_folder(start.job);
        if self.setup.checkpoints.last(start.job).is_some() {
            launch::resume(spec, catalog, &cell, &folder);
        } else if let Some(checkpoint) = &mut spec.checkpoint {
            checkpoint.folder = folder;
        }
        if let Program::Training(training) = &mut spec.program {
            training.restore = self.setup.checkpoints.place(start.job);
            let asked = self.setup.asked.get(start.job.0 as usize);
            if let Some(rate) = asked.and_then(|asked| asked.learning_rate) {
                training.workload.optimizer.set_learning_rate(rate);
            }
        }
        Ok(request)
    }

    /// The cores that the ranks of a launch on these GPUs are bound to, apart from those of other launches.
    fn bind(&self, gpus: &[Device], cpus: u16) -> Result<Vec<Device>, String> {
        let (mut taken, mut resting) = (BTreeSet::new(), BTreeSet::new());
        for launch in self.launches.values().filter(|launch| !launch.is_over()) {
            let of = if launch.phase().is_held() || launch.phase().is_leaving() {
                &mut resting
            } else {
                &mut taken
            };
            for set in &launch.host_cores {
                if let Device::Cpu(processors) = set {
                    of.extend(processors);
                }
            }
        }
        self.host_cores.of_ranks(gpus, cpus, &taken, &resting)
    }

    /// The job of a start under its plan, on its devices.
    pub(super) fn cell(&self, start: &StartRequest) -> anyhow::Result<Cell> {
        let cell = self.setup.manifest.cells.get(start.job.0 as usize).context("there is no such job")?;
        let device = |id: &DeviceId| self.setup.devices.get(id.0 as usize).cloned();
        let devices =
            start.devices.iter().map(device).collect::<Option<_>>().context("there is no such device")?;
        let plan = start.plan.or(cell.plan);
        let job = match (plan, cell.global_batch) {
            (Some(plan), Some(batch)) => format!("{}@b{batch}@{plan}", cell.workload),
            _ => cell.job.clone(),
        };
        let program = self.setup.catalog.program(&cell.workload);
        let command = match (program, plan, cell.global_batch) {
            (Some(program), Some(plan), Some(batch)) => Some(program.arguments(batch, &plan, &cell.vary)),
            _ => cell.command.clone(),
        };
        Ok(Cell { devices, plan, job, command, ..cell.clone() })
    }

    /// That a job trains; none for a command.
    pub(super) fn workload(&self, job: JobId) -> Option<&Workload> {
        let cell = self.setup.manifest.cells.get(job.0 as usize)?;
        self.setup.catalog.get(&cell.workload).filter(|_| cell.command.is_none())
    }

    /// The parts of the duration of a program that has no steps of its own, if it is known.
    pub(super) fn parts(&self, job: JobId) -> Option<Parts> {
        let asked = self.setup.asked.get(job.0 as usize)?;
        Some(Parts::new(asked.steps?, asked.part_ns?))
    }

    /// Steps that a job has not saved; absent where it runs until it ends.
    pub(super) fn steps_left(&self, job: JobId) -> Option<u64> {
        let asked = self.setup.asked.get(job.0 as usize)?;
        let steps = asked.steps.filter(|_| asked.part_ns.is_none())?;
        Some(steps.saturating_sub(self.setup.checkpoints.steps(job)))
    }
}
