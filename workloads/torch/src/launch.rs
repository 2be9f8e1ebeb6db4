//! From what a launch was told to what it trains.

use std::path::Path;

use schema::{
    device,
    plan::{Axis, Precision},
    run_dir::read_spec,
    spec::{Program, Training},
    wire::FailureKind,
};
use tch::{Cuda, Device};

use crate::{
    cuda,
    data::{self, Files},
    failure::{Failure, kind_of_samples},
    models,
    step::{Execution, Trainer},
};

/// Axes of a plan that this worker executes; everything else is refused before anything is built.
const AXES: [Axis; 3] = [Axis::Ga, Axis::Gc, Axis::Bf16];

/// A launch that this worker can run on this machine.
#[derive(Debug)]
pub struct Launch {
    pub training: Training,
    pub execution: Execution,
    pub threads: u32,
    pub seed: u64,
}

impl Launch {
    /// Reads a launch's spec and refuses what cannot run here, before anything is built.
    ///
    /// # Errors
    /// `internal` for a file that is no spec, `unsupported` for a plan, program or device that is not for this worker.
    pub fn read(spec: &Path) -> Result<Self, Failure> {
        let unreadable = |detail: String| {
            Failure::new(FailureKind::Internal, format!("{}: not a launch spec: {detail}", spec.display()))
        };
        let spec = read_spec(spec).map_err(|error| unreadable(error.to_string()))?;
        let Program::Training(training) = spec.program else {
            return Err(Failure::unsupported(
                "torch-worker trains workloads of the catalog and runs no commands",
            ));
        };

        let worker = training.workload.model.worker();
        if worker != env!("CARGO_PKG_NAME") {
            let name = &training.workload.name;
            return Err(Failure::unsupported(format!("workload '{name}' is for the program '{worker}'")));
        }
        let plan = training.plan;
        if let Some(axis) = plan.axes().iter().find(|axis| !AXES.contains(axis)) {
            let executed = AXES.map(|axis| axis.to_string()).join(", ");
            return Err(Failure::unsupported(format!(
                "plan '{plan}': torch-worker does not execute {axis}; it executes {executed} and combinations of them"
            )));
        }
        if let Some(reason) = training.workload.refuses(&plan, training.global_batch) {
            return Err(Failure::unsupported(format!("plan '{plan}': {reason}")));
        }
        let [device] = &*spec.devices else {
            let count = spec.devices.len();
            return Err(Failure::unsupported(format!("plan '{plan}' runs on one device, not on {count}")));
        };
        let execution = Execution {
            device: torch_device(device)?,
            micro_batches: usize::from(plan.ga),
            micro_batch_samples: training.micro_batch() as usize,
            recompute: plan.gc,
            bf16: plan.precision == Precision::Bf16,
        };
        Ok(Self { training: *training, execution, threads: spec.threads, seed: spec.seed })
    }

    /// Builds the model with its initial parameters, its data and its optimizers, all from the seed alone.
    ///
    /// # Errors
    /// `unsupported` or `internal` for the model, those or `data` for the data, `out-of-memory` for anything.
    pub fn build(&self) -> Result<Trainer, Failure> {
        tch::set_num_threads(i32::try_from(self.threads.max(1)).unwrap_or(i32::MAX));
        // The same seed gives the same parameters, dropout masks and, at the same number of threads, the same sums. On
        // CUDA these differ in their last digits, as some kernels add in no fixed order.
        tch::manual_seed(self.seed as i64);
        let Training { workload, data, loaders, .. } = &self.training;
        let device = self.execution.device;
        // Shapes never change within a launch, so trying out cuDNN's algorithms in the first steps pays.
        Cuda::cudnn_set_benchmark(device.is_cuda());
        let model = models::build(workload, device)
            .map_err(|error| Failure::classify(FailureKind::Internal, &format!("{error:#}")))?;
        // What training draws does not depend on how the initial weights were drawn, so that another program which is given
        // them can draw the same (scripts/parity_py/train.py). Another seed, or both would come from the same numbers.
        tch::manual_seed((self.seed as i64).wrapping_add(1));
        let files = data.as_deref().map(|folder| Files { folder, loaders: *loaders });
        let stream = data::of(&*model, workload.model.samples(), files, self.seed, device)
            .map_err(|error| Failure::classify(kind_of_samples(&error), &format!("{error:#}")))?;
        Ok(Trainer::new(model, stream, self.execution)?)
    }
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
