//! From what a launch was told to what it trains.

use std::{collections::HashSet, path::Path, time::Duration};

use schema::{
    device,
    plan::{Axis, Precision},
    run_dir::read_spec,
    spec::{Collectives, LaunchSpec, Program, Training},
    units::Nanos,
    wire::FailureKind,
};
use tch::{Cuda, Device};

use crate::{
    checkpoint::restore::Restore,
    cuda,
    data::{self, Files},
    failure::{Failure, kind_of_samples},
    group::Group,
    models,
    shim::{memory, nccl, transfer::wait_for},
    step::{Execution, Trainer},
    workload::Share,
};

/// Axes of a plan that this worker executes; everything else is refused before anything is built.
pub const AXES: [Axis; 5] = [Axis::Dp, Axis::Ga, Axis::Gc, Axis::Offload, Axis::Bf16];

/// How long a rank waits for another one: for it to meet, and in each collective. Less than the five minutes in which the
/// harness wants a launch to be ready, so that the rank that waits in vain says so itself.
const PATIENCE: Duration = Duration::from_secs(240);

/// What a launch trains, at its start.
pub struct Built {
    pub trainer: Trainer,
    /// How long reading the checkpoint took that it goes on from; `None` where it begins anew.
    pub restored_in: Option<Nanos>,
}

/// A launch that this worker can run on this machine.
#[derive(Debug)]
pub struct Launch {
    pub training: Training,
    pub execution: Execution,
    /// Which rank of the job this is, and so which part of its data it takes.
    pub share: Share,
    /// What moves tensors between the ranks; absent where there is one alone.
    pub collectives: Option<Collectives>,
    pub threads: u32,
    /// What the tensors of this rank may take on a CPU device.
    pub memory_bytes: Option<u64>,
    pub seed: u64,
}

impl Launch {
    /// Reads a launch's spec for one of its ranks, and refuses what cannot run here, before anything is built.
    ///
    /// # Errors
    /// `internal` for a file that is no spec or has no such rank, `unsupported` for a plan, program or device that is not
    /// for this worker.
    pub fn read(spec: &Path, rank: u32) -> Result<Self, Failure> {
        Self::of(read(spec)?, rank)
    }

    /// The same of a spec that was read.
    ///
    /// # Errors
    /// As of [`Launch::read`].
    pub(crate) fn of(spec: LaunchSpec, rank: u32) -> Result<Self, Failure> {
        let training = match spec.program {
            Program::Training(training) => training,
            Program::AllReduce(_) => {
                return Err(Failure::unsupported("the launch is of all-reduces, which train nothing"));
            }
            Program::Command(_) => {
                let refused = "torch-worker trains workloads of the catalog and runs no commands";
                return Err(Failure::unsupported(refused));
            }
        };

        let worker = training.workload.model.worker();
        if worker != env!("CARGO_PKG_NAME") {
            let name = &training.workload.name;
            return Err(Failure::unsupported(format!("workload '{name}' is for the program '{worker}'")));
        }
        let plan = training.plan;
        let refused = |reason: &str| Failure::unsupported(format!("plan '{plan}': {reason}"));
        if let Some(axis) = plan.axes().iter().find(|axis| !AXES.contains(axis)) {
            let executed = AXES.map(|axis| axis.to_string()).join(", ");
            return Err(refused(&format!(
                "torch-worker does not execute {axis}; it executes dp1, {executed} and all together"
            )));
        }
        if let Some(reason) = training.workload.refuses(&plan, training.global_batch) {
            return Err(refused(&reason));
        }
        let (ranks, devices) = (plan.ranks(), spec.devices.len());
        if devices != ranks as usize {
            return Err(refused(&format!("it takes {ranks} device(s), and the launch names {devices}")));
        }
        let collectives = (ranks > 1).then(|| choose_collectives(training.collectives, &spec.devices));
        let collectives = collectives.transpose().map_err(|reason| refused(&reason))?;
        let execution = Execution {
            device: device_of(&spec.devices, rank)?,
            micro_batches: usize::from(plan.ga),
            micro_batch_samples: training.micro_batch() as usize,
            recompute: plan.gc,
            bf16: plan.precision == Precision::Bf16,
            offload: plan.offload.then(|| training.offload_threads.unwrap_or(spec.threads)),
        };
        let (share, threads, seed) = (Share { rank, ranks }, spec.threads, spec.seed);
        let memory_bytes = spec.memory_bytes;
        Ok(Self { training: *training, execution, share, collectives, threads, memory_bytes, seed })
    }

    /// Meets the other ranks of the launch; gives nothing where there is no other.
    ///
    /// # Errors
    /// `collective` where the others do not come, `internal` where the launch was not told where to meet.
    pub fn meet(&self) -> Result<Option<Group>, Failure> {
        let Some(collectives) = self.collectives else { return Ok(None) };
        let rendezvous = self.training.rendezvous.as_deref();
        meet(rendezvous, self.share, collectives, self.execution.device).map(Some)
    }

    /// Builds the model with its initial parameters, its data and its optimizers, all from the seed alone, and goes on from
    /// a checkpoint where the launch is to.
    ///
    /// With a group all ranks start from the parameters of the first one: those that they drew from the same seed are the
    /// same already, unless their libraries or processors differ.
    ///
    /// # Errors
    /// `unsupported` or `internal` for the model, those or `data` for the data and for a checkpoint, `out-of-memory` for
    /// anything, `collective` where other ranks have gone.
    pub fn build(&self, group: Option<&Group>) -> Result<Built, Failure> {
        let restore = Restore::of(&self.training)?;
        use_threads(self.threads);
        // The same seed gives the same parameters, dropout masks and, at the same number of threads, the same sums. On
        // CUDA these differ in their last digits, as some kernels add in no fixed order.
        tch::manual_seed(self.seed as i64);
        let Training { workload, data, loaders, .. } = &self.training;
        let device = self.execution.device;
        if let Some(bytes) = self.memory_bytes.filter(|_| device == Device::Cpu) {
            memory::limit_cpu_tensors(bytes);
        }
        // Shapes never change within a launch, so trying out cuDNN's algorithms in the first steps pays.
        Cuda::cudnn_set_benchmark(device.is_cuda());
        let build = if self.training.exact { models::build_exact } else { models::build };
        let model = build(workload, device)
            .map_err(|error| Failure::classify(FailureKind::Internal, &format!("{error:#}")))?;
        if let Some(group) = group {
            let tensors = model.parameters().state().map(|(_, tensor)| tensor);
            let copied = group.copy_from_first(tensors);
            copied.map_err(|error| failed_collective(&format!("sharing the initial parameters: {error}")))?;
        }
        // What training draws does not depend on how the initial weights were drawn, so that another program which is given
        // them can draw the same (scripts/parity_py/train.py). Another seed, or both would come from the same numbers; and
        // another one for each rank, or all would drop the same of different samples.
        tch::manual_seed((self.seed as i64).wrapping_add(1 + i64::from(self.share.rank)));
        let files = data.as_deref().map(|folder| Files { folder, loaders: *loaders });
        let stream = data::of(&*model, workload.model.samples(), files, self.seed, device)
            .and_then(|mut stream| stream.share_out(self.share).map(|()| stream))
            .map_err(|error| Failure::classify(kind_of_samples(&error), &format!("{error:#}")))?;
        let mut trainer = Trainer::new(model, stream, self.execution)?;
        if let Some(group) = group {
            trainer.join(group)?;
        }
        let restored_in = match restore {
            None => None,
            Some(restore) => {
                let begin = Nanos::monotonic_now();
                restore.apply(&mut trainer, self.share, self.seed)?;
                wait_for(device)?;
                Some(Nanos::monotonic_now() - begin)
            }
        };
        Ok(Built { trainer, restored_in })
    }
}

/// Lets operations of libtorch on the host work with so many threads.
pub(crate) fn use_threads(threads: u32) {
    tch::set_num_threads(i32::try_from(threads.max(1)).unwrap_or(i32::MAX));
}

/// Reads what a launch was told.
///
/// # Errors
/// `internal` for a file that is no spec.
pub(crate) fn read(spec: &Path) -> Result<LaunchSpec, Failure> {
    read_spec(spec).map_err(|error| {
        let unreadable = format!("{}: not a launch spec: {error}", spec.display());
        Failure::new(FailureKind::Internal, unreadable)
    })
}

/// Meets the other ranks of a launch of several.
///
/// # Errors
/// `collective` where the others do not come, `internal` where the launch was not told where to meet.
pub(crate) fn meet(
    rendezvous: Option<&Path>,
    share: Share,
    collectives: Collectives,
    device: Device,
) -> Result<Group, Failure> {
    let Some(rendezvous) = rendezvous else {
        let problem = "the launch has several ranks and names no file for them to meet in";
        return Err(Failure::new(FailureKind::Internal, problem));
    };
    let met = Group::meet(rendezvous, share.rank, share.ranks, collectives, device, PATIENCE);
    met.map_err(|error| failed_collective(&format!("not all ranks have met: {error}")))
}

/// The device of a rank as libtorch knows it.
///
/// # Errors
/// `internal` where the launch has no such rank, `unsupported` where there is no such device.
pub(crate) fn device_of(devices: &[device::Device], rank: u32) -> Result<Device, Failure> {
    let missing = || {
        let ranks = devices.len();
        Failure::new(FailureKind::Internal, format!("RANK is {rank}, and the launch has {ranks} rank(s)"))
    };
    torch_device(devices.get(rank as usize).ok_or_else(missing)?)
}

/// What moves tensors between ranks on `devices`: what was named, or else what is usual there.
///
/// # Errors
/// Why that cannot be.
pub(crate) fn choose_collectives(
    named: Option<Collectives>,
    devices: &[device::Device],
) -> Result<Collectives, String> {
    let gpus = devices.iter().filter(|device| matches!(device, device::Device::Cuda(_))).count();
    if gpus != 0 && gpus != devices.len() {
        return Err("its ranks are on GPUs and on CPU devices; name devices of one kind".into());
    }
    let usual = if gpus == 0 { Collectives::Gloo } else { Collectives::Nccl };
    let chosen = named.unwrap_or(usual);
    if chosen == Collectives::Gloo {
        return Ok(chosen);
    }
    if gpus == 0 {
        return Err("NCCL moves tensors between GPUs alone; use --collectives gloo".into());
    }
    let mut taken = HashSet::new();
    if let Some(shared) = devices.iter().find(|device| !taken.insert(*device)) {
        return Err(format!("NCCL takes one rank a GPU, and {shared} has several; use --collectives gloo"));
    }
    match nccl::find() {
        Ok(_) => Ok(chosen),
        Err(missing) => Err(format!("{missing}, or use --collectives gloo")),
    }
}

pub(crate) fn failed_collective(message: &str) -> Failure {
    Failure::classify(FailureKind::Collective, message)
}

/// The harness binds a launch to its cores; libtorch knows one CPU.
fn torch_device(device: &device::Device) -> Result<Device, Failure> {
    match device {
        device::Device::Cpu(_) | device::Device::AllCores => Ok(Device::Cpu),
        device::Device::Cuda(_) => {
            cuda::try_first_device().map_err(|reason| {
                Failure::classify(FailureKind::Unsupported, &format!("{device}: {reason}"))
            })?;
            // The harness makes the launch's GPU the only visible one (CUDA_VISIBLE_DEVICES), and CUDA counts what it
            // sees from 0: whatever the GPU's number on the machine, here it is the first.
            Ok(Device::Cuda(0))
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use schema::catalog::Catalog;

    use super::*;

    /// To train a workload of the catalog, and nothing that has to be said beside.
    pub(crate) fn training(workload: &str, global_batch: u32, plan: &str) -> Training {
        let workload = Catalog::embedded().get(workload).expect("a workload of the catalog").clone();
        Training::new(workload, global_batch, plan.parse().expect("a canonical plan"))
    }
}
