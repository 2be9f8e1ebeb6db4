//! One training step: data, forward, backward, optimizer, and what each of them took.

use std::collections::VecDeque;

use schema::{units::Nanos, wire::Phases};
use tch::{Device, TchError};

use crate::{
    optimizer::Optimizer,
    shim::autograd::{AutocastBf16, backward},
    workload::{Batch, DataStream, Workload},
};

/// How the steps of a launch are executed.
#[derive(Clone, Copy, Debug)]
pub struct Execution {
    pub device: Device,
    /// Micro-batches whose gradients are added up before an update (`ga`).
    pub micro_batches: usize,
    pub micro_batch_samples: usize,
    /// Forward passes run under autocast to bfloat16; parameters and optimizer stay in fp32.
    pub bf16: bool,
}

/// A model, its data and its optimizers: everything a step changes.
pub struct Trainer {
    workload: Box<dyn Workload>,
    data: Box<dyn DataStream>,
    /// One for each update of the workload, in the same order.
    optimizers: Vec<Optimizer>,
    execution: Execution,
}

/// What a step gave.
#[derive(Debug)]
pub struct Completed {
    pub samples: u64,
    /// The mean loss over the step's samples, before their update. Of a step with several updates it is that of the
    /// first, which for a GAN is the discriminator's: it falls while the generator's rises, as in the first steps of
    /// every GAN, where their sum says nothing.
    pub loss: f64,
    /// `None` on a device that works asynchronously, where the host's clock does not say when a phase was done.
    pub phases: Option<Phases>,
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
        let optimizers = workload
            .updates()
            .iter()
            .map(|update| {
                let parameters = workload.parameters().with_prefix(update.parameter_prefix);
                Optimizer::new(update.optimizer, parameters)
            })
            .collect::<Result<_, _>>()?;
        Ok(Self { workload, data, optimizers, execution })
    }

    pub fn workload(&self) -> &dyn Workload {
        &*self.workload
    }

    /// The next micro-batch, which a step then will not see.
    ///
    /// # Errors
    /// Bad data, or out of memory.
    pub fn next_batch(&mut self) -> anyhow::Result<Batch> {
        self.data.next(self.execution.micro_batch_samples)
    }

    /// Makes every update of one step and waits until the device has done them.
    ///
    /// # Errors
    /// Bad data, or a failed operation, out of memory included. The model is then in no defined state.
    pub fn step(&mut self) -> Result<Completed, StepError> {
        let Execution { device, micro_batches, micro_batch_samples, bf16 } = self.execution;
        let updates = self.workload.updates();
        let mut clock = PhaseClock::start();
        let mut kept_batches = VecDeque::new();
        let mut losses = Vec::with_capacity(micro_batches);
        for (index, (update, optimizer)) in updates.iter().zip(&mut self.optimizers).enumerate() {
            let failed = |source| StepError::Update { update: update.name, source };
            // Where there is one update every leaf is its own, and naming them would only cost time.
            let differentiated = if updates.len() == 1 { &[] } else { optimizer.parameters() };
            for _ in 0..micro_batches {
                let batch = if index == 0 {
                    self.data.next(micro_batch_samples).map_err(StepError::Data)?
                } else {
                    kept_batches.pop_front().expect("the update before left as many as this one takes")
                };
                clock.lap(|phases| &mut phases.data_ns);

                let loss = {
                    let _autocast = bf16.then(|| AutocastBf16::enter(device)).transpose().map_err(failed)?;
                    self.workload.loss(index, &batch).map_err(failed)?
                };
                if index == 0 {
                    losses.push(loss.detach());
                }
                let scaled = if micro_batches == 1 {
                    loss
                } else {
                    loss.f_div_scalar(micro_batches as f64).map_err(failed)?
                };
                clock.lap(|phases| &mut phases.forward_ns);

                backward(&scaled, differentiated).map_err(failed)?;
                drop(scaled);
                clock.lap(|phases| &mut phases.backward_ns);

                // All updates of a step see the same samples.
                if index + 1 < updates.len() {
                    kept_batches.push_back(batch);
                }
            }
            optimizer.step().map_err(failed)?;
            clock.lap(|phases| &mut phases.optimizer_ns);
        }
        // Reading a loss from a device waits for all that was queued before, the optimizer included. So the step's
        // only synchronisation stands here, where its end must be known anyway.
        let sum: f64 = losses
            .iter()
            .map(|loss| loss.f_double_value(&[]))
            .sum::<Result<_, _>>()
            .map_err(StepError::Device)?;
        Ok(Completed {
            samples: (micro_batches * micro_batch_samples) as u64,
            loss: sum / micro_batches as f64,
            phases: (!device.is_cuda()).then_some(clock.phases),
        })
    }
}

/// Gives every moment from its start on to one phase.
struct PhaseClock {
    last: Nanos,
    phases: Phases,
}

impl PhaseClock {
    fn start() -> Self {
        Self { last: Nanos::monotonic_now(), phases: Phases::default() }
    }

    /// Adds the time since the last lap to one phase.
    fn lap(&mut self, phase: impl FnOnce(&mut Phases) -> &mut Option<Nanos>) {
        let now = Nanos::monotonic_now();
        *phase(&mut self.phases).get_or_insert(Nanos::ZERO) += now - self.last;
        self.last = now;
    }
}
