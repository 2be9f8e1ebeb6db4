//! One training step: data, forward, backward, what ranks share, optimizer, and what each of them took.

use std::collections::VecDeque;

use schema::{
    units::Nanos,
    wire::{Phases, Timing},
};
use tch::{Device, TchError, Tensor};

use crate::{
    clock::{self, Clock, Phase},
    optimizer::{Home, Optimizer},
    parallel::Parallel,
    pipeline::{self, Cut, Pass},
    recompute,
    shim::{
        autograd::{AutocastBf16, backward, backward_from},
        transfer::to_host,
    },
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
        let of_phase = match phase {
            Phase::Data => &mut phases.data_ns,
            Phase::Forward => &mut phases.forward_ns,
            Phase::Backward => &mut phases.backward_ns,
            Phase::SyncExposed => &mut phases.sync_exposed_ns,
            Phase::Optimizer => &mut phases.optimizer_ns,
            Phase::Offload => &mut phases.offload_ns,
        };
        if let Some(time) = of_phase {
            *time = time.saturating_sub(waits.total());
        }
    }
    let [tensor, gather, pipeline] = has;
    phases.tensor_ns = tensor.then_some(all.tensor);
    phases.gather_ns = gather.then_some(all.gather);
    phases.pipeline_ns = pipeline.then_some(all.pipeline);
}

/// One update of a step in progress.
struct RunningUpdate<'a> {
    index: usize,
    workload: &'a dyn Workload,
    data: &'a mut dyn DataStream,
    optimizer: &'a mut Optimizer,
    parallel: &'a mut Parallel,
    execution: &'a Execution,
    world: &'a World,
    clock: &'a mut dyn Clock,
    issued: &'a mut Issued,
}

impl RunningUpdate<'_> {
    fn failed(&self, why: TchError) -> StepError {
        StepError::Update { update: self.workload.updates()[self.index].name, why }
    }

    /// Ends a part of the step. The time since the end of the last part belongs to `phase`, but for the waits in it.
    fn lap(&mut self, phase: Phase) -> Result<(), StepError> {
        let waits = self.world.take_waits();
        if waits != Waits::default() {
            self.issued.waits.push((phase, waits));
        }
        self.clock.lap(phase).map_err(StepError::Device)
    }

    /// Runs the micro-batches one after another. All updates of a step see the same batches: the first one leaves them in
    /// `kept_batches` for the second, and so on.
    fn run(&mut self, kept_batches: &mut VecDeque<Batch>) -> Result<(), StepError> {
        let Execution { micro_batches, micro_batch_samples, .. } = *self.execution;
        let updates = self.workload.updates().len();
        for micro_step in 1..=micro_batches {
            let batch = if self.index == 0 {
                self.data.next(micro_batch_samples).map_err(StepError::Data)?
            } else {
                kept_batches.pop_front().expect("the update before left as many as this one takes")
            };
            self.lap(Phase::Data)?;

            let loss = self.execution.forward(self.workload, self.index, &batch);
            let part = loss.and_then(|loss| self.take_loss(loss)).map_err(|why| self.failed(why))?;
            self.lap(Phase::Forward)?;

            self.parallel.before_backward(micro_step == micro_batches);
            // Where there is one update every leaf is its own, and naming them would only cost time.
            let differentiated = if updates == 1 { &[] } else { self.optimizer.parameters() };
            backward(&part, differentiated).map_err(|why| self.failed(why))?;
            drop(part);
            self.parallel.after_backward().map_err(StepError::Collective)?;
            self.lap(Phase::Backward)?;

            if self.index + 1 < updates {
                kept_batches.push_back(batch);
            }
        }
        Ok(())
    }

    /// Notes the loss of a micro-batch, and gives its part of the loss of the step: gradients are added up over
    /// micro-batches and data-parallel ranks, and are to be those of the mean.
    fn take_loss(&mut self, loss: Tensor) -> Result<Tensor, TchError> {
        if self.index == 0 {
            self.issued.losses.push(to_host(&loss.f_detach()?)?);
        }
        let parts = self.execution.micro_batches * self.world.mesh.data as usize;
        if parts == 1 { Ok(loss) } else { loss.f_div_scalar(parts as f64) }
    }

    /// Runs this stage's passes of all micro-batches.
    fn run_pipeline(&mut self) -> Result<(), StepError> {
        let micro_batches = self.execution.micro_batches;
        let (stage, stages) = (self.world.at.stage as usize, self.world.mesh.stages as usize);
        let (mut forwards, mut backwards) = (0, 0);
        // What the backward passes start from, and what they end at.
        let mut forwarded = VecDeque::new();
        self.passage().expect_carry().map_err(StepError::Collective)?;
        for pass in pipeline::order(stage, stages, micro_batches) {
            match pass {
                Pass::Forward => {
                    forwards += 1;
                    forwarded.push_back(self.forward_stage(forwards < micro_batches)?);
                    if forwards == 1 {
                        self.passage().expect_gradients().map_err(StepError::Collective)?;
                    }
                }
                Pass::Backward => {
                    backwards += 1;
                    let stage = forwarded.pop_front().expect("its forward pass came before");
                    self.backward_stage(stage, backwards == micro_batches)?;
                }
            }
        }
        self.passage().finish().map_err(StepError::Collective)?;
        self.lap(Phase::Backward)
    }

    fn passage(&mut self) -> &mut pipeline::Passage {
        self.parallel.passage().expect("the model is cut into stages")
    }

    fn forward_stage(&mut self, is_followed: bool) -> Result<Forwarded, StepError> {
        // Every stage takes the samples of each micro-batch, so that all are at the same place of the stream.
        let batch = self.data.next(self.execution.micro_batch_samples).map_err(StepError::Data)?;
        self.lap(Phase::Data)?;
        let inputs = if self.passage().is_first() {
            vec![batch.inputs]
        } else {
            let inputs = self.passage().take_carry().map_err(StepError::Collective)?;
            if is_followed {
                self.passage().expect_carry().map_err(StepError::Collective)?;
            }
            inputs
        };
        let model = self.workload.supervised().expect("a model that is cut is a chain");
        let is_last = self.passage().is_last();
        let outputs = (|| {
            let _guards = self.execution.enter()?;
            // Autocast would keep its copy of a leaf to the end of the pass.
            let carry = inputs.iter().map(|leaf| leaf.f_alias()).collect::<Result<_, _>>()?;
            let outputs = model.chain().run_from(carry)?;
            if is_last { Ok(vec![model.criterion(&outputs, &batch.targets)?]) } else { Ok(outputs) }
        })()
        .map_err(|why| self.failed(why))?;
        let outputs = if is_last {
            let [loss] = <[_; 1]>::try_from(outputs).expect("there is one loss");
            vec![self.take_loss(loss).map_err(|why| self.failed(why))?]
        } else {
            self.passage().send_carry(&outputs).map_err(StepError::Collective)?;
            outputs
        };
        self.lap(Phase::Forward)?;
        Ok(Forwarded { inputs, outputs })
    }

    fn backward_stage(&mut self, stage: Forwarded, is_last_pass: bool) -> Result<(), StepError> {
        let Forwarded { inputs, outputs } = stage;
        self.parallel.before_backward(is_last_pass);
        if self.passage().is_last() {
            backward(&outputs[0], &[]).map_err(|why| self.failed(why))?;
        } else {
            let taken = self.passage().take_gradients(outputs);
            let (outputs, gradients) = taken.map_err(StepError::Collective)?;
            if !is_last_pass {
                self.passage().expect_gradients().map_err(StepError::Collective)?;
            }
            backward_from(&outputs, &gradients).map_err(|why| self.failed(why))?;
        }
        self.passage().send_gradients(&inputs).map_err(StepError::Collective)?;
        drop(inputs);
        self.parallel.after_backward().map_err(StepError::Collective)?;
        self.lap(Phase::Backward)
    }

    /// Makes the update from the gradients of all micro-batches.
    fn finish(&mut self) -> Result<(), StepError> {
        if let Some(synchronized) = self.parallel.finish().map_err(StepError::Collective)? {
            self.issued.synchronized.push(synchronized.total);
            self.lap(Phase::SyncExposed)?;
        }
        if let Some(norm_max) = self.workload.gradient_norm_max(self.index) {
            let clipped = self.optimizer.clip_gradients(norm_max, self.parallel.norm());
            clipped.map_err(|why| self.failed(why))?;
        }
        let Self { optimizer, clock, .. } = self;
        optimizer.step(&mut |phase| clock.lap(phase)).map_err(|why| self.failed(why))?;
        self.optimizer.clear_gradients().map_err(|why| self.failed(why))?;
        self.parallel.after_update().map_err(StepError::Collective)?;
        self.workload.after_update(self.index).map_err(|why| self.failed(why))?;
        self.lap(Phase::Optimizer)
    }
}

/// A micro-batch between the passes of a stage.
struct Forwarded {
    /// Leaves, whose gradients go to the stage before.
    inputs: Vec<Tensor>,
    /// The carry to the next stage, or the loss.
    outputs: Vec<Tensor>,
}

#[cfg(test)]
pub(crate) mod tests;
