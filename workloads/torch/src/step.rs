//! One training step: data, forward, backward, optimizer, and what each of them took.

use std::collections::VecDeque;

use schema::{
    units::Nanos,
    wire::{Phases, Timing},
};
use tch::{Device, TchError, Tensor};

use crate::{
    clock::{self, Clock, Phase},
    optimizer::Optimizer,
    shim::{
        autograd::{AutocastBf16, backward},
        transfer::to_host,
    },
    workload::{Batch, DataStream, Workload},
};

/// How the steps of a launch are executed.
#[derive(Clone, Copy, Debug)]
pub struct Execution {
    pub device: Device,
    /// Micro-batches whose gradients are added up before an update (`ga`).
    pub micro_batches: usize,
    pub micro_batch_samples: usize,
    /// Forward passes run under autocast to bfloat16; parameters and optimizer stay in fp32. Without it CUDA computes
    /// as PyTorch does by default: convolutions and recurrent layers in TF32 (cuDNN), other products of matrices in fp32.
    pub bf16: bool,
}

/// A model, its data and its optimizers: everything a step changes.
///
/// A step is issued, and completed later: a GPU works through its queue while the host issues the next step, and is
/// never waited for in between. On the CPU a step is complete when it was issued.
pub struct Trainer {
    workload: Box<dyn Workload>,
    data: Box<dyn DataStream>,
    /// One for each update of the workload, in the same order.
    optimizers: Vec<Optimizer>,
    execution: Execution,
    clock: Box<dyn Clock>,
    /// The losses of each step in flight, one for each micro-batch, on the host. The device may not have written them
    /// yet: they are read when the clock says that their step is done.
    losses: VecDeque<Vec<Tensor>>,
}

/// What a step gave.
#[derive(Clone, Debug, PartialEq)]
pub struct Completed {
    /// On the host's `CLOCK_MONOTONIC`.
    pub end: Nanos,
    /// From the end of the step before, or from the last [`Trainer::restart`].
    pub dur: Nanos,
    pub samples: u64,
    /// The mean loss over the step's samples, before their update. Of a step with several updates it is that of the
    /// first, which for a GAN is the discriminator's: it falls while the generator's rises, as in the first steps of
    /// every GAN, where their sum says nothing.
    pub loss: f64,
    pub phases: Phases,
    pub timing: Timing,
}

/// Why a step was not completed.
#[derive(Debug, thiserror::Error)]
pub enum StepError {
    #[error("reading a batch: {0:#}")]
    Data(anyhow::Error),
    #[error("update '{update}': {source}")]
    Update { update: &'static str, source: TchError },
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
        let optimizers = workload
            .updates()
            .iter()
            .map(|update| {
                let parameters = workload.parameters().with_prefix(update.parameter_prefix);
                Optimizer::new(update.optimizer, parameters)
            })
            .collect::<Result<_, _>>()?;
        Ok(Self { workload, data, optimizers, execution, clock, losses: VecDeque::new() })
    }

    pub fn workload(&self) -> &dyn Workload {
        &*self.workload
    }

    pub fn device(&self) -> Device {
        self.execution.device
    }

    /// One for each update of the workload, in the same order.
    pub fn optimizers(&self) -> &[Optimizer] {
        &self.optimizers
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
        let state = self
            .optimizers
            .iter()
            .flat_map(|optimizer| optimizer.state().into_iter().flat_map(|(_, tensors)| tensors));
        model.chain(state).chain(self.data.tensors()).map(Tensor::shallow_clone).collect()
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
        let Execution { device, micro_batches, micro_batch_samples, bf16 } = self.execution;
        let updates = self.workload.updates();
        let clock = &mut *self.clock;
        // A failure leaves this entry behind those of the steps that the clock knows of, where nobody looks.
        self.losses.push_back(Vec::with_capacity(micro_batches));
        let losses = self.losses.back_mut().expect("it was pushed");
        let mut kept_batches = VecDeque::new();
        clock.begin_step();
        for (index, (update, optimizer)) in updates.iter().zip(&mut self.optimizers).enumerate() {
            let failed = |source| StepError::Update { update: update.name, source };
            if !self.workload.is_due(index) {
                continue;
            }
            // Where there is one update every leaf is its own, and naming them would only cost time.
            let differentiated = if updates.len() == 1 { &[] } else { optimizer.parameters() };
            for _ in 0..micro_batches {
                let batch = if index == 0 {
                    self.data.next(micro_batch_samples).map_err(StepError::Data)?
                } else {
                    kept_batches.pop_front().expect("the update before left as many as this one takes")
                };
                clock.lap(Phase::Data).map_err(StepError::Device)?;

                let loss = {
                    let _autocast = bf16.then(|| AutocastBf16::enter(device)).transpose().map_err(failed)?;
                    self.workload.loss(index, &batch).map_err(failed)?
                };
                if index == 0 {
                    losses.push(loss.f_detach().and_then(|loss| to_host(&loss)).map_err(failed)?);
                }
                let scaled = if micro_batches == 1 {
                    loss
                } else {
                    loss.f_div_scalar(micro_batches as f64).map_err(failed)?
                };
                clock.lap(Phase::Forward).map_err(StepError::Device)?;

                backward(&scaled, differentiated).map_err(failed)?;
                drop(scaled);
                clock.lap(Phase::Backward).map_err(StepError::Device)?;

                // All updates of a step see the same samples.
                if index + 1 < updates.len() {
                    kept_batches.push_back(batch);
                }
            }
            if let Some(norm_max) = self.workload.gradient_norm_max(index) {
                optimizer.clip_gradients(norm_max).map_err(failed)?;
            }
            optimizer.step().map_err(failed)?;
            self.workload.after_update(index).map_err(failed)?;
            clock.lap(Phase::Optimizer).map_err(StepError::Device)?;
        }
        clock.end_step().map_err(StepError::Device)
    }

    /// Lets some time pass, short beside a step, in which the oldest step that was not taken may become complete.
    pub fn wait(&mut self) {
        self.clock.wait();
    }

    /// The oldest step that was not taken yet, if it is complete. While more than `in_flight` steps are issued and not
    /// taken, it is waited for: with 0, `None` says that there is no step left.
    ///
    /// # Errors
    /// Whatever the device reports only now of what was issued before.
    pub fn completed(&mut self, in_flight: usize) -> Result<Option<Completed>, StepError> {
        let time = loop {
            match self.clock.oldest().map_err(StepError::Device)? {
                Some(time) => break time,
                None if self.clock.in_flight() > in_flight => self.wait(),
                None => return Ok(None),
            }
        };
        let losses =
            self.losses.pop_front().expect("there is an entry for each step that the clock knows of");
        let sum: f64 = losses
            .iter()
            .map(|loss| loss.f_double_value(&[]))
            .sum::<Result<_, _>>()
            .map_err(StepError::Device)?;
        let Execution { micro_batches, micro_batch_samples, .. } = self.execution;
        Ok(Some(Completed {
            end: time.end,
            dur: time.dur,
            samples: (micro_batches * micro_batch_samples) as u64,
            loss: sum / micro_batches as f64,
            phases: time.phases,
            timing: time.timing,
        }))
    }
}

#[cfg(test)]
pub(crate) mod tests;
