//! Prepares the training of a launch from its spec.

use std::{collections::HashSet, path::Path, time::Duration};

use fastrand::Rng;
use schema::{
    device,
    mesh::Mesh,
    plan::Precision,
    spec::{Collectives, LaunchSpec, Program, Training, read_spec},
    units::Nanos,
    wire::FailureKind,
};
use tch::{Cuda, Device, TchError};

use crate::{
    checkpoint::restore::Restore,
    cuda,
    data::{self, Files},
    failure::{Failure, kind_of_samples},
    group::Meeting,
    models,
    nn::{
        parameters::{Entry, Parameters},
        tensor_parallel::TensorParallel,
    },
    pipeline::{self, Cut},
    shim::{memory, nccl, transfer::wait_for},
    step::{Execution, Trainer},
    workload::Share,
    world::World,
};

/// The longest wait of a rank for another one, in the meeting and in each collective. It is shorter than
/// the five minutes in which the harness expects `ready`, so that the waiting rank reports the failure
/// itself.
const PATIENCE: Duration = Duration::from_secs(240);

/// The training of a launch, at its start.
pub struct Built {
    pub trainer: Trainer,
    /// Duration of reading the checkpoint; `None` if the training starts without one.
    pub restored_in: Option<Nanos>,
}

/// A launch that this worker can run on this machine.
#[derive(Debug)]
pub struct Launch {
    pub training: Training,
    pub execution: Execution,
    /// The number of this rank, and the grid of all ranks.
    pub rank: u32,
    pub mesh: Mesh,
    /// The library for collectives; absent for a single rank.
    pub collectives: Option<Collectives>,
    pub threads: u32,
    /// Limit of tensor memory of this rank on a CPU device.
    pub memory_bytes: Option<u64>,
    pub seed: u64,
}

impl Launch {
    /// Reads a launch's spec for one of its ranks, and refuses what cannot run here, before anything is built.
    ///
    /// # Errors
    /// `internal` for an invalid spec or an unknown rank, `unsupported` for a plan, program or device that this
    /// worker does not support.
    pub fn read(spec: &Path, rank: u32) -> Result<Self, Failure> {
        Self::of(read(spec)?, rank)
    }

    /// Creates the launch from a parsed spec.
    ///
    /// # Errors
    /// See [`Launch::read`].
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
        if worker != crate::NAME {
            let name = &training.workload.name;
            return Err(Failure::unsupported(format!("workload '{name}' is for the program '{worker}'")));
        }
        let plan = training.plan;
        let refused = |reason: &str| Failure::unsupported(format!("plan '{plan}': {reason}"));
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
            zero: plan.zero,
        };
        let (mesh, threads, seed) = (Mesh::of(&plan), spec.threads, spec.seed);
        let memory_bytes = spec.memory_bytes;
        Ok(Self { training: *training, execution, rank, mesh, collectives, threads, memory_bytes, seed })
    }

    /// Meets the other ranks of the launch.
    ///
    /// # Errors
    /// `collective` if the others do not come, `internal` if the launch names no meeting place.
    pub fn meet(&self) -> Result<World, Failure> {
        let Some(collectives) = self.collectives else { return Ok(World::alone()) };
        let rendezvous = self.training.rendezvous.as_deref();
        let (rank, ranks, device) = (self.rank, self.mesh.ranks(), self.execution.device);
        let meeting = open_meeting(rendezvous, rank, ranks, collectives, device)?;
        World::meet(&meeting, self.mesh, rank, collectives == Collectives::Gloo).map_err(not_met)
    }

    /// Builds the model with its initial parameters, its data and its optimizers from the seed, and continues from
    /// a checkpoint if the launch names one. Of the model it keeps the part of this rank of `world`.
    ///
    /// All data-parallel ranks start from the parameters of the first one. The same seed makes them equal
    /// already, unless libraries or processors differ.
    ///
    /// # Errors
    /// `unsupported` or `internal` for the model, these or `data` for the data and for a checkpoint, `out-of-memory` for
    /// anything, `collective` if other ranks have gone.
    pub fn build(&self, world: World) -> Result<Built, Failure> {
        let restore = Restore::of(&self.training)?;
        use_threads(self.threads);
        let Training { workload, data, loaders, exact, .. } = &self.training;
        let device = self.execution.device;
        if let Some(bytes) = self.memory_bytes.filter(|_| device == Device::Cpu) {
            memory::limit_cpu_tensors(bytes);
        }
        // Shapes never change within a launch, so that the search for cuDNN's fastest algorithms in the
        // first steps pays off.
        Cuda::cudnn_set_benchmark(device.is_cuda());
        let cut = self.cut(&world, self.execution.micro_batch_samples)?;
        let held = cut.as_ref().map(|cut| cut.stages[world.at.stage as usize].clone());
        // The same seed gives the same parameters, dropout masks and, at the same number of threads, the same sums. On
        // CUDA these differ in their last digits, as some kernels add in no fixed order.
        tch::manual_seed(self.seed as i64);
        let ranks = TensorParallel::new(world.tensor.clone());
        let parameters = Parameters::new(device).part_of(ranks, held);
        let parameters = if *exact { parameters.exact() } else { parameters };
        let model = models::build_in(workload, parameters).map_err(unbuilt)?;
        let copied = world.data.copy_from_first(model.parameters().state().map(Entry::tensor));
        copied.map_err(|error| failed_collective(&format!("sharing the initial parameters: {error}")))?;
        // The random numbers of training do not depend on those of the initial weights, so that another
        // program with the same weights can draw the same ones (scripts/parity_py/train.py).
        tch::manual_seed(training_seed(self.seed, 0, &world));
        let files = data.as_deref().map(|folder| Files { folder, loaders: *loaders });
        let share = Share { rank: world.at.data, ranks: world.mesh.data };
        let stream = data::of(&*model, workload.model.samples(), files, self.seed, device)
            .and_then(|mut stream| stream.share_out(share).map(|()| stream))
            .map_err(|error| Failure::classify(kind_of_samples(&error), &format!("{error:#}")))?;
        let mut trainer = Trainer::among(model, stream, self.execution, world, cut.as_ref())?;
        let restored_in = match restore {
            None => None,
            Some(restore) => {
                let begin = Nanos::monotonic_now();
                restore.apply(&mut trainer, self.seed)?;
                wait_for(device)?;
                Some(Nanos::monotonic_now() - begin)
            }
        };
        Ok(Built { trainer, restored_in })
    }

    /// The stages of the model for micro-batches of `samples` samples; `None` if there is a single one.
    ///
    /// # Errors
    /// `internal` for a model that cannot be cut into so many stages.
    pub(crate) fn cut(&self, world: &World, samples: usize) -> Result<Option<Cut>, Failure> {
        let Training { workload, exact, .. } = &self.training;
        let (stages, ranks) = (world.mesh.stages as usize, TensorParallel::new(world.tensor.clone()));
        let cut = || pipeline::cut(workload, *exact, samples as i64, &ranks, stages);
        (stages > 1).then(cut).transpose().map_err(unbuilt)
    }
}

fn unbuilt(error: anyhow::Error) -> Failure {
    Failure::classify(FailureKind::Internal, &format!("{error:#}"))
}

/// A seed for the random numbers of training after this number of steps. Ranks that share layers draw the same numbers,
/// and all others have seeds of their own: no rank repeats the numbers of another one, of earlier steps, or of another
/// seed.
pub(crate) fn training_seed(seed: u64, steps: u64, world: &World) -> i64 {
    let stream = u64::from(world.at.stage) * u64::from(world.mesh.data) + u64::from(world.at.data);
    fresh_seed(seed, steps, stream)
}

/// A seed from the launch's seed and two numbers, each in a draw of its own.
fn fresh_seed(seed: u64, steps: u64, stream: u64) -> i64 {
    let mut rng = Rng::with_seed(seed);
    for number in [steps, stream] {
        rng = Rng::with_seed(rng.u64(..) ^ number);
    }
    rng.i64(..)
}

/// Sets the number of threads for operations of libtorch on the host.
pub(crate) fn use_threads(threads: u32) {
    tch::set_num_threads(i32::try_from(threads.max(1)).unwrap_or(i32::MAX));
}

/// Reads the spec of a launch.
///
/// # Errors
/// `internal` for a file that is no spec.
pub(crate) fn read(spec: &Path) -> Result<LaunchSpec, Failure> {
    read_spec(spec).map_err(|error| {
        let unreadable = format!("{}: not a launch spec: {error}", spec.display());
        Failure::new(FailureKind::Internal, unreadable)
    })
}

/// Opens the meeting place of a launch of several ranks.
///
/// # Errors
/// `collective` if that fails, `internal` if the launch names no meeting place.
pub(crate) fn open_meeting(
    rendezvous: Option<&Path>,
    rank: u32,
    ranks: u32,
    collectives: Collectives,
    device: Device,
) -> Result<Meeting, Failure> {
    let Some(rendezvous) = rendezvous else {
        let problem = "the launch has several ranks and names no file for them to meet in";
        return Err(Failure::new(FailureKind::Internal, problem));
    };
    Meeting::open(rendezvous, rank, ranks, collectives, device, PATIENCE).map_err(not_met)
}

pub(crate) fn not_met(error: TchError) -> Failure {
    failed_collective(&format!("not all ranks have met: {error}"))
}

/// The device of a rank as libtorch knows it.
///
/// # Errors
/// `internal` if the launch has no such rank, `unsupported` if there is no such device.
pub(crate) fn device_of(devices: &[device::Device], rank: u32) -> Result<Device, Failure> {
    let missing = || {
        let ranks = devices.len();
        Failure::new(FailureKind::Internal, format!("RANK is {rank}, and the launch has {ranks} rank(s)"))
    };
    torch_device(devices.get(rank as usize).ok_or_else(missing)?)
}

/// The library for collectives on `devices`: the named one, or else their default.
///
/// # Errors
/// The reason why the devices do not support it.
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
            // The harness makes the launch's GPU the only visible one (CUDA_VISIBLE_DEVICES), and CUDA
            // counts visible devices from 0, so that any GPU of the machine is the first one here.
            Ok(Device::Cuda(0))
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use schema::catalog::Catalog;

    use super::*;

    /// The training of a workload of the catalog with default settings.
    pub(crate) fn training(workload: &str, global_batch: u32, plan: &str) -> Training {
        let workload = Catalog::embedded().get(workload).expect("a workload of the catalog").clone();
        Training::new(workload, global_batch, plan.parse().expect("a canonical plan"))
    }

    #[test]
    fn no_stream_and_no_step_has_the_seed_of_another() {
        let seeds: HashSet<_> = (0..10)
            .flat_map(|seed| (0..100).map(move |step| (seed, step)))
            .flat_map(|(seed, step)| (0..10).map(move |stream| fresh_seed(seed, step, stream)))
            .collect();
        assert_eq!(seeds.len(), 10 * 100 * 10);
        assert_eq!(fresh_seed(1, 2, 3), fresh_seed(1, 2, 3));
    }
}
