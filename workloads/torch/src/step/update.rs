//! One update of a step: its passes, what ranks do together, and the optimizer.

use std::collections::VecDeque;

use tch::{TchError, Tensor};

use super::{Execution, Issued, StepError};
use crate::{
    clock::{Clock, Phase},
    optimizer::Optimizer,
    parallel::Parallel,
    pipeline::{self, Pass},
    shim::{
        autograd::{backward, backward_from},
        transfer::to_host,
    },
    workload::{Batch, DataStream, Workload},
    world::{Waits, World},
};

/// One update of a step in progress.
pub(super) struct RunningUpdate<'a> {
    pub(super) index: usize,
    pub(super) workload: &'a dyn Workload,
    pub(super) data: &'a mut dyn DataStream,
    pub(super) optimizer: &'a mut Optimizer,
    pub(super) parallel: &'a mut Parallel,
    pub(super) execution: &'a Execution,
    pub(super) world: &'a World,
    pub(super) clock: &'a mut dyn Clock,
    pub(super) issued: &'a mut Issued,
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
    pub(super) fn run(&mut self, kept_batches: &mut VecDeque<Batch>) -> Result<(), StepError> {
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
    pub(super) fn run_pipeline(&mut self) -> Result<(), StepError> {
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
    pub(super) fn finish(&mut self) -> Result<(), StepError> {
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
