//! One training step: data, forward, backward, what ranks share, optimizer, and what each of them took.

mod update;

use std::collections::VecDeque;

use schema::{
    units::Nanos,
    wire::{Phases, Timing},
};
use tch::{Device, TchError, Tensor};

use self::update::RunningUpdate;
use crate::{
    clock::{self, Clock, Phase},
    optimizer::{Home, Optimizer},
    parallel::Parallel,
    pipeline::Cut,
    recompute,
    shim::autograd::AutocastBf16,
    workload::{Batch, DataStream, Workload},
    world::{Waits, World},
};

/// How the steps of a launch are executed.
#[derive(Clone, Copy, Debug)]
pub struct Execution {
    pub device: Device,
    /// Micro-batches whose gradients are added up before an update (`ga`).
    pub micro_batches: usize,
    pub micro_batch_samples: usize,
    /// Activations inside segments of the model are forgotten and made again in the backward pass (`gc`).
    pub recompute: bool,
    /// Forward passes run under autocast to bfloat16; parameters and optimizer stay in fp32. Without it CUDA computes
    /// as PyTorch does by default: convolutions and recurrent layers in TF32 (cuDNN), other products of matrices in fp32.
    pub bf16: bool,
    /// The optimizer's state is in host memory and updates are made there, with this number of threads (`offload`).
    pub offload: Option<u32>,
    /// The stage of ZeRO, 0 to 3.
    pub zero: u8,
}

impl Execution {
    /// The settings of the plan `dp1`, with this number of samples per step.
    pub fn plain(device: Device, samples: usize) -> Self {
        Self {
            device,
            micro_batches: 1,
            micro_batch_samples: samples,
            recompute: false,
            bf16: false,
            offload: None,
            zero: 0,
        }
    }

    /// Enters what a forward pass runs under.
    fn enter(&self) -> Result<(recompute::Guard, Option<AutocastBf16>), TchError> {
        let autocast = self.bf16.then(|| AutocastBf16::enter(self.device)).transpose()?;
        Ok((recompute::enter(self.recompute), autocast))
    }

    /// The loss of update number `update`, with its graph.
    fn forward(&self, workload: &dyn Workload, update: usize, batch: &Batch) -> Result<Tensor, TchError> {
        let _guards = self.enter()?;
        workload.loss(update, batch)
    }
}

/// A model, its data and its optimizers: everything a step changes.
///
/// A step is issued, and completed later: a GPU works through its queue while the host issues the next step, and is
/// never waited for in between. On the CPU a step is complete when it was issued.
pub struct Trainer {
    workload: Box<dyn Workload>,
    data: Box<dyn DataStream>,
    /// One for each update of the workload, in the same order.
    updaters: Vec<Updater>,
    execution: Execution,
    world: World,
    clock: Box<dyn Clock>,
    /// The entries of the steps in flight.
    issued: VecDeque<Issued>,
}

/// What makes one update of a workload.
struct Updater {
    optimizer: Optimizer,
    parallel: Parallel,
}

/// The report of a step in flight, except for its times.
#[derive(Default)]
struct Issued {
    /// One for each micro-batch, on the host. The device may not have written them yet: they are read when the clock says
    /// that the step is done.
    losses: Vec<Tensor>,
    /// The time in which gradients were moved, of each update in which several ranks have them.
    synchronized: Vec<Option<Nanos>>,
    sent_bytes: Option<u64>,
    /// Time that the host waited in the laps of each phase.
    waits: Vec<(Phase, Waits)>,
}

/// What a step gave.
#[derive(Clone, Debug, PartialEq)]
pub struct Completed {
    /// On the host's `CLOCK_MONOTONIC`.
    pub end: Nanos,
    /// From the end of the step before, or from the last [`Trainer::restart`].
    pub dur: Nanos,
    /// Those of this rank; 0 if another rank counts the same ones.
    pub samples: u64,
    /// NaN on a rank whose samples another one counts. Otherwise the mean loss over the step's samples of this rank, before their update. Of a step with several updates it is that
    /// of the first, which for a GAN is the discriminator's: it falls while the generator's rises, as in the first steps
    /// of every GAN, where their sum says nothing.
    pub loss: f64,
    pub phases: Phases,
    /// Bytes that this rank has sent; `None` where it is alone.
    pub sent_bytes: Option<u64>,
    pub timing: Timing,
}

/// Why a step was not completed.
#[derive(Debug, thiserror::Error)]
pub enum StepError {
    #[error("reading a batch: {0:#}")]
    Data(anyhow::Error),
    #[error("update '{update}': {why}")]
    Update { update: &'static str, why: TchError },
    #[error("waiting for the device: {0}")]
    Device(TchError),
    /// Another rank has gone, or did not come in time.
    #[error("a collective failed: {0}")]
    Collective(TchError),
}

impl Trainer {
    /// Allocates the optimizers' state.
    ///
    /// # Errors
    /// Out of memory.
    pub fn new(
        workload: Box<dyn Workload>,
        data: Box<dyn DataStream>,
        execution: Execution,
    ) -> Result<Self, TchError> {
        Self::among(workload, data, execution, World::alone(), None)
    }

    /// The trainer of a rank of `world`. Every rank has the same parameters, or its part of them, and each data-parallel rank
    /// a stream of its own samples. A model that is cut into stages comes with its cut.
    ///
    /// # Errors
    /// Out of memory.
    pub(crate) fn among(
        workload: Box<dyn Workload>,
        data: Box<dyn DataStream>,
        execution: Execution,
        world: World,
        cut: Option<&Cut>,
    ) -> Result<Self, TchError> {
        Self::with_clock(workload, data, execution, world, cut, clock::of(execution.device)?)
    }

    fn with_clock(
        mut workload: Box<dyn Workload>,
        data: Box<dyn DataStream>,
        execution: Execution,
        world: World,
        cut: Option<&Cut>,
        clock: Box<dyn Clock>,
    ) -> Result<Self, TchError> {
        let home = execution.offload.map_or(Home::Device, |threads| Home::Host { threads });
        let mut updaters = Vec::new();
        for index in 0..workload.updates().len() {
            let parallel = Parallel::new(&mut *workload, index, &execution, &world, cut)?;
            let parameters = parallel.updated();
            let optimizer = Optimizer::new(workload.updates()[index].optimizer, parameters, home)?;
            updaters.push(Updater { optimizer, parallel });
        }
        Ok(Self { workload, data, updaters, execution, world, clock, issued: VecDeque::new() })
    }

    pub fn workload(&self) -> &dyn Workload {
        &*self.workload
    }

    pub fn device(&self) -> Device {
        self.execution.device
    }

    /// One for each update of the workload, in the same order.
    pub fn optimizers(&self) -> impl Iterator<Item = &Optimizer> {
        self.updaters.iter().map(|updater| &updater.optimizer)
    }

    /// What ranks do together in each update, in the order of the updates.
    pub(crate) fn parallels(&self) -> impl Iterator<Item = &Parallel> {
        self.updaters.iter().map(|updater| &updater.parallel)
    }

    /// Bytes of the parameters and buffers that this rank holds between steps.
    pub fn model_bytes(&self) -> u64 {
        let elsewhere: u64 = self.parallels().map(Parallel::bytes_elsewhere).sum();
        self.workload.parameters().bytes() - elsewhere
    }

    /// The groups of this rank.
    pub fn world(&self) -> &World {
        &self.world
    }

    /// Frees the memory in which small gradients are summed over ranks. No step can be issued before the next
    /// [`Trainer::make_buckets`].
    pub(crate) fn drop_buckets(&mut self) {
        self.updaters.iter_mut().for_each(|updater| updater.parallel.drop_buckets());
    }

    /// Allocates that memory again.
    ///
    /// # Errors
    /// Out of memory.
    pub(crate) fn make_buckets(&mut self) -> Result<(), TchError> {
        self.updaters.iter_mut().try_for_each(|updater| updater.parallel.make_buckets(&self.world))
    }

    pub(crate) fn data(&self) -> &dyn DataStream {
        &*self.data
    }

    pub(crate) fn data_mut(&mut self) -> &mut dyn DataStream {
        &mut *self.data
    }

    /// All tensors that stay between steps: those of the model, of the optimizers and of the data, wherever they are.
    pub fn tensors(&self) -> Vec<Tensor> {
        let model = self.workload.parameters().tensors();
        let state = self.optimizers().flat_map(Optimizer::state).flat_map(|(_, tensors)| tensors);
        let here = model.chain(state).chain(self.data.tensors()).map(Tensor::shallow_clone);
        here.chain(self.parallels().flat_map(Parallel::tensors)).collect()
    }

    /// Changes the number and the size of the micro-batches of a step. `cut` is that of a model in stages, for micro-batches
    /// of this size. No step may be in flight.
    pub(crate) fn set_micro_batches(&mut self, micro_batches: usize, samples: usize, cut: Option<&Cut>) {
        (self.execution.micro_batches, self.execution.micro_batch_samples) = (micro_batches, samples);
        for updater in &mut self.updaters {
            updater.parallel.set_cut(cut, &self.world, self.execution.device);
        }
    }

    /// Counts laps on another clock from now on. Every step must have been taken.
    pub(crate) fn set_clock(&mut self, clock: Box<dyn Clock>) {
        self.clock = clock;
    }

    /// The next micro-batch, which a step then will not see.
    ///
    /// # Errors
    /// Bad data, or out of memory.
    pub fn next_batch(&mut self) -> anyhow::Result<Batch> {
        self.data.next(self.execution.micro_batch_samples)
    }

    /// Leaves the time since the last step out: the next one begins now. Every step must have been taken.
    ///
    /// # Errors
    /// An error of the device.
    pub fn restart(&mut self) -> Result<(), StepError> {
        // What was moved since then belongs to no step, either.
        self.world.take_sent_bytes();
        self.world.take_waits();
        self.clock.restart().map_err(StepError::Device)
    }

    /// Issues every update of one step; [`Trainer::completed`] gives what came of it.
    ///
    /// # Errors
    /// Bad data, or a failed operation, out of memory included. The model is then in no defined state and no step can
    /// be issued any more; those issued before are still to be taken.
    pub fn issue(&mut self) -> Result<(), StepError> {
        // After a failure this entry is behind those of the steps that the clock knows, and is never read.
        self.issued.push_back(Issued::default());
        let mut kept_batches = VecDeque::new();
        self.clock.begin_step();
        for index in 0..self.updaters.len() {
            if !self.workload.is_due(index) {
                continue;
            }
            let mut update = self.update(index);
            if update.parallel.passage().is_some() {
                update.run_pipeline()?
            } else {
                update.run(&mut kept_batches)?
            }
            update.finish()?;
        }
        let issued = self.issued.back_mut().expect("it was pushed");
        issued.sent_bytes = self.world.take_sent_bytes();
        self.clock.end_step().map_err(StepError::Device)
    }

    /// Update number `index`, ready to run.
    fn update(&mut self, index: usize) -> RunningUpdate<'_> {
        let Self { workload, data, updaters, execution, world, clock, issued } = self;
        let Updater { optimizer, parallel } = &mut updaters[index];
        let (workload, data, clock) = (&**workload, &mut **data, &mut **clock);
        let issued = issued.back_mut().expect("`issue` pushed it");
        RunningUpdate { index, workload, data, optimizer, parallel, execution, world, clock, issued }
    }

    /// Waits a time that is short compared with a step for the oldest step in flight.
    pub fn wait(&mut self) {
        self.clock.wait();
    }

    /// The oldest step that was not taken yet, if it is complete. While more than `in_flight` steps are issued and not
    /// taken, it is waited for: with 0, `None` says that there is no step left.
    ///
    /// # Errors
    /// Whatever the device reports only now of what was issued before.
    pub fn completed(&mut self, in_flight: usize) -> Result<Option<Completed>, StepError> {
        let Some(time) = self.clock.take(in_flight).map_err(StepError::Device)? else { return Ok(None) };
        let Issued { losses, synchronized, sent_bytes, waits } =
            self.issued.pop_front().expect("there is an entry for each step that the clock knows of");
        let losses = losses
            .iter()
            .map(|loss| loss.f_double_value(&[]))
            .collect::<Result<Vec<_>, _>>()
            .map_err(StepError::Device)?;
        let mut phases = time.phases;
        if !synchronized.is_empty() {
            phases.sync_total_ns = synchronized.into_iter().sum();
        }
        let gathers = self.parallels().any(Parallel::gathers);
        take_out(&mut phases, &waits, self.world.has_waits(gathers));
        let Execution { micro_batches, micro_batch_samples, .. } = self.execution;
        let counts = self.world.counts_samples();
        Ok(Some(Completed {
            end: time.end,
            dur: time.dur,
            samples: if counts { (micro_batches * micro_batch_samples) as u64 } else { 0 },
            loss: if counts { losses.iter().sum::<f64>() / micro_batches as f64 } else { f64::NAN },
            phases,
            sent_bytes,
            timing: time.timing,
        }))
    }
}

/// Moves the time that the host waited out of the phases in which it did, into phases of its own.
fn take_out(phases: &mut Phases, waits: &[(Phase, Waits)], has: [bool; 3]) {
    let mut all = Waits::default();
    for &(phase, waits) in waits {
        all.add(waits);
        if let Some(time) = phase.of(phases) {
            *time = time.saturating_sub(waits.total());
        }
    }
    let [tensor, gather, pipeline] = has;
    phases.tensor_ns = tensor.then_some(all.tensor);
    phases.gather_ns = gather.then_some(all.gather);
    phases.pipeline_ns = pipeline.then_some(all.pipeline);
}

#[cfg(test)]
pub(crate) mod tests;
