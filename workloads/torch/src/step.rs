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
    recompute,
    shim::{
        autograd::{AutocastBf16, backward},
        transfer::to_host,
    },
    synchronize::{GradientSync, Ranks, Synchronized},
    workload::{Batch, DataStream, Workload},
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
        }
    }

    /// The loss of update number `update`, with its graph.
    fn forward(&self, workload: &dyn Workload, update: usize, batch: &Batch) -> Result<Tensor, TchError> {
        let _recompute = recompute::enter(self.recompute);
        let _autocast = self.bf16.then(|| AutocastBf16::enter(self.device)).transpose()?;
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
    /// Ranks that work on a step together (`dp`), each on micro-batches of its own.
    ranks: u32,
    clock: Box<dyn Clock>,
    /// What is kept of each step in flight.
    issued: VecDeque<Issued>,
}

/// What makes one update of a workload.
struct Updater {
    optimizer: Optimizer,
    /// Present where there are several ranks.
    sync: Option<GradientSync>,
}

/// The report of a step in flight, except for its times.
#[derive(Default)]
struct Issued {
    /// One for each micro-batch, on the host. The device may not have written them yet: they are read when the clock says
    /// that the step is done.
    losses: Vec<Tensor>,
    /// One for each update, where there are several ranks.
    synchronized: Vec<Synchronized>,
}

/// What a step gave.
#[derive(Clone, Debug, PartialEq)]
pub struct Completed {
    /// On the host's `CLOCK_MONOTONIC`.
    pub end: Nanos,
    /// From the end of the step before, or from the last [`Trainer::restart`].
    pub dur: Nanos,
    /// Those of this rank.
    pub samples: u64,
    /// The mean loss over the step's samples of this rank, before their update. Of a step with several updates it is that
    /// of the first, which for a GAN is the discriminator's: it falls while the generator's rises, as in the first steps
    /// of every GAN, where their sum says nothing.
    pub loss: f64,
    pub phases: Phases,
    /// What this rank has handed to collectives; `None` where it is alone.
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
        Self::with_clock(workload, data, execution, clock::of(execution.device)?)
    }

    fn with_clock(
        workload: Box<dyn Workload>,
        data: Box<dyn DataStream>,
        execution: Execution,
        clock: Box<dyn Clock>,
    ) -> Result<Self, TchError> {
        let home = execution.offload.map_or(Home::Device, |threads| Home::Host { threads });
        let updaters = workload
            .updates()
            .iter()
            .map(|update| {
                let parameters = workload.parameters().with_prefix(update.parameter_prefix);
                Ok(Updater { optimizer: Optimizer::new(update.optimizer, parameters, home)?, sync: None })
            })
            .collect::<Result<_, TchError>>()?;
        Ok(Self { workload, data, updaters, execution, ranks: 1, clock, issued: VecDeque::new() })
    }

    /// Shares every step from here on with the other ranks of `group`: gradients become those of all their samples.
    /// Parameters are the same on all ranks already, and each has a stream of its own samples.
    ///
    /// # Errors
    /// Out of memory.
    pub fn join<R: Ranks + Clone + 'static>(&mut self, group: &R) -> Result<(), TchError> {
        for Updater { optimizer, sync } in &mut self.updaters {
            *sync = Some(GradientSync::new(optimizer.parameters(), Box::new(group.clone()))?);
        }
        self.ranks = group.size();
        Ok(())
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

    /// Frees the memory in which small gradients are summed over ranks. No step can be issued before the next [`Trainer::join`].
    pub(crate) fn drop_buckets(&mut self) {
        for updater in &mut self.updaters {
            updater.sync = None;
        }
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
        model.chain(state).chain(self.data.tensors()).map(Tensor::shallow_clone).collect()
    }

    /// Changes the number and the size of the micro-batches of a step. No step may be in flight.
    pub(crate) fn set_micro_batches(&mut self, micro_batches: usize, samples: usize) {
        (self.execution.micro_batches, self.execution.micro_batch_samples) = (micro_batches, samples);
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
            if self.workload.is_due(index) {
                self.issue_update(index, &mut kept_batches)?;
            }
        }
        self.clock.end_step().map_err(StepError::Device)
    }

    /// Issues update number `index`. All updates of a step see the same batches: the first one leaves them in `kept_batches`
    /// for the second, and so on.
    fn issue_update(&mut self, index: usize, kept_batches: &mut VecDeque<Batch>) -> Result<(), StepError> {
        let Self { workload, data, updaters, execution, ranks, clock, issued, .. } = self;
        let Execution { micro_batches, micro_batch_samples, .. } = *execution;
        let Updater { optimizer, sync } = &mut updaters[index];
        let Issued { losses, synchronized } = issued.back_mut().expect("`issue` pushed it");
        let (updates, name) = (workload.updates(), workload.updates()[index].name);
        let failed = |why| StepError::Update { update: name, why };

        for micro_step in 1..=micro_batches {
            let batch = if index == 0 {
                data.next(micro_batch_samples).map_err(StepError::Data)?
            } else {
                kept_batches.pop_front().expect("the update before left as many as this one takes")
            };
            clock.lap(Phase::Data).map_err(StepError::Device)?;

            let loss = execution.forward(&**workload, index, &batch).map_err(failed)?;
            if index == 0 {
                losses.push(loss.f_detach().and_then(|loss| to_host(&loss)).map_err(failed)?);
            }
            // Gradients are added up over micro-batches and ranks, and are to be those of the mean.
            let parts = micro_batches * *ranks as usize;
            let part = if parts == 1 { loss } else { loss.f_div_scalar(parts as f64).map_err(failed)? };
            clock.lap(Phase::Forward).map_err(StepError::Device)?;

            if let Some(sync) = sync {
                sync.before_backward(micro_step == micro_batches);
            }
            // Where there is one update every leaf is its own, and naming them would only cost time.
            let differentiated = if updates.len() == 1 { &[] } else { optimizer.parameters() };
            backward(&part, differentiated).map_err(failed)?;
            drop(part);
            clock.lap(Phase::Backward).map_err(StepError::Device)?;

            if index + 1 < updates.len() {
                kept_batches.push_back(batch);
            }
        }

        if let Some(sync) = sync {
            synchronized.push(sync.finish().map_err(StepError::Collective)?);
            clock.lap(Phase::SyncExposed).map_err(StepError::Device)?;
        }

        if let Some(norm_max) = workload.gradient_norm_max(index) {
            optimizer.clip_gradients(norm_max).map_err(failed)?;
        }
        optimizer.step(&mut |phase| clock.lap(phase)).map_err(failed)?;
        optimizer.clear_gradients().map_err(failed)?;
        workload.after_update(index).map_err(failed)?;
        clock.lap(Phase::Optimizer).map_err(StepError::Device)
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
        let Issued { losses, synchronized } =
            self.issued.pop_front().expect("there is an entry for each step that the clock knows of");
        let sum: f64 = losses
            .iter()
            .map(|loss| loss.f_double_value(&[]))
            .sum::<Result<_, _>>()
            .map_err(StepError::Device)?;
        let mut phases = time.phases;
        let mut sent_bytes = None;
        if !synchronized.is_empty() {
            phases.sync_total_ns = synchronized.iter().map(|update| update.total).sum();
            sent_bytes = Some(synchronized.iter().map(|update| update.sent_bytes).sum());
        }
        let Execution { micro_batches, micro_batch_samples, .. } = self.execution;
        Ok(Some(Completed {
            end: time.end,
            dur: time.dur,
            samples: (micro_batches * micro_batch_samples) as u64,
            loss: sum / micro_batches as f64,
            phases,
            sent_bytes,
            timing: time.timing,
        }))
    }
}

#[cfg(test)]
pub(crate) mod tests;
