//! The interface of the training loop to a model: its loss, its parameters, and one or more updates per step.
//!
//! A model with one loss and one update is a [`Supervised`] workload: a chain of links and not one opaque function, because
//! plans cut it between links (see [`crate::chain`]).
//!
//! [`crate::models::build`] makes the workload of a launch, [`crate::data::open`] its samples.

use schema::catalog::Optimizer;
use tch::{Device, TchError, Tensor};

use crate::{
    chain::{Chain, Link},
    nn::parameters::Parameters,
    stream_state::StreamState,
};

/// One part of a model: takes the activation of the block before it and gives its own.
///
/// A block holds shallow clones of its parameters, which [`Parameters`] also holds, under the same storage.
/// It runs in training mode (batch norm uses and updates batch statistics, dropout is on), because nothing
/// here ever evaluates. Use the `f_` functions of tch, so that a failed allocation becomes an error and not
/// a panic. Do not overwrite the input: under activation checkpointing it is all that is kept of the block.
/// Blocks are `Send` because there they run again on a thread of PyTorch.
pub trait Block: Send {
    fn forward(&self, input: &Tensor) -> Result<Tensor, TchError>;
}

/// One micro-batch, already on the device it is used on.
pub struct Batch {
    /// The input of the first block. Several inputs are packed into one tensor: `[samples, 2]` for (user,
    /// item).
    pub inputs: Tensor,
    /// The reference for the loss. For a GAN, whose inputs are noise, these are the real images.
    pub targets: Tensor,
}

/// An endless, seeded sequence of samples: a synthetic stream, a file that repeats, or the experience of a
/// model that acts ([`Workload::experience`]).
pub trait DataStream {
    /// The next `samples` samples of this rank. The cost of making them is part of the step (phase `data`).
    ///
    /// # Errors
    /// Every error but a failed allocation ends the job as `failed {kind: data}`: it names file and offset.
    fn next(&mut self, samples: usize) -> anyhow::Result<Batch>;

    /// Restricts the stream to one rank's part. Must be called before the first `next`.
    ///
    /// # Errors
    /// The stream cannot be shared, because a model makes it by acting.
    fn share_out(&mut self, share: Share) -> anyhow::Result<()> {
        anyhow::ensure!(
            share == Share::ALL,
            "what the model makes for itself cannot be shared out among ranks"
        );
        Ok(())
    }

    /// Number of samples that all ranks together have taken; `None` for a stream that cannot be continued.
    fn position(&self) -> Option<u64> {
        None
    }

    /// Continues after `position` samples, with any number of ranks. A stream that has a state is set to it afterwards.
    ///
    /// # Errors
    /// The stream has no position.
    fn seek(&mut self, position: u64) -> anyhow::Result<()> {
        anyhow::bail!("this stream cannot go on from sample {position}: it has no position")
    }

    /// What decides the samples to come besides the position, for a stream that a model makes by acting.
    ///
    /// # Errors
    /// Out of memory.
    fn state(&self) -> Result<StreamState, TchError> {
        Ok(StreamState::default())
    }

    /// Continues from what [`DataStream::state`] gave. Parameters that the stream shares with the model are those of then.
    ///
    /// # Errors
    /// Something of it is absent or has another size.
    fn set_state(&mut self, _state: &StreamState) -> anyhow::Result<()> {
        Ok(())
    }

    /// The tensors that the stream keeps on the device.
    fn tensors(&self) -> Vec<&Tensor> {
        Vec::new()
    }
}

/// A rank's share of a stream: each `next` of all ranks together takes one piece of the stream, which they
/// divide in the order of their ranks. A global batch thus has the same samples for any number of ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    pub rank: u32,
    pub ranks: u32,
}

impl Share {
    /// The share of a single rank.
    pub const ALL: Share = Share { rank: 0, ranks: 1 };

    /// Number of samples before this rank's part, if each rank takes `samples`.
    pub fn before(self, samples: u64) -> u64 {
        u64::from(self.rank) * samples
    }

    /// Samples that all ranks take together.
    pub fn all(self, samples: u64) -> u64 {
        u64::from(self.ranks) * samples
    }
}

/// One optimizer update of a step. Most workloads have one; a GAN has one for D and one for G.
pub struct Update {
    /// The name of the update in errors, as `discriminator`.
    pub name: &'static str,
    /// The update moves the parameters whose name starts with this; the empty prefix stands for all of them.
    pub parameter_prefix: &'static str,
    pub optimizer: Optimizer,
}

impl Update {
    /// The only update of a step.
    pub fn of_everything(optimizer: Optimizer) -> Self {
        Self { name: "all", parameter_prefix: "", optimizer }
    }
}

/// What can be trained: built once, then asked for one loss per update and micro-batch.
pub trait Workload {
    /// Every parameter and buffer of the model, in the order and under the names PyTorch would give them.
    fn parameters(&self) -> &Parameters;

    /// The updates of one step, in the order they are made. Never empty.
    fn updates(&self) -> &[Update];

    /// The scalar mean loss of `batch` that update number `update` minimises, with its graph.
    ///
    /// The loop calls this `ga` times per update with consecutive micro-batches (the same ones for every update of a
    /// step), differentiates with respect to that update's parameters alone, and adds up. It is called inside
    /// autocast when the plan says bf16: losses are left to autocast's own list of fp32 operations.
    fn loss(&self, update: usize, batch: &Batch) -> Result<Tensor, TchError>;

    /// Floating-point operations of a step per sample, from those of the forward pass of each update: a backward pass
    /// costs two forward passes.
    fn step_operations(&self, forward: &[u64]) -> u64 {
        3 * forward.iter().sum::<u64>()
    }

    /// Whether update number `update` is made in this step. Asked once, right before it; the first update of a step
    /// always is.
    fn is_due(&self, _update: usize) -> bool {
        true
    }

    /// The largest norm of the gradients of update number `update`, all of them together; larger ones are scaled down.
    fn gradient_norm_max(&self, _update: usize) -> Option<f64> {
        None
    }

    /// Called when the optimizer has moved the parameters of update number `update`, to move parameters
    /// that follow them, as target networks do. Its time counts as the optimizer's.
    fn after_update(&self, _update: usize) -> Result<(), TchError> {
        Ok(())
    }

    /// The workload as a chain of links, if plans can cut it.
    fn supervised(&self) -> Option<&Supervised> {
        None
    }

    /// As [`Workload::supervised`].
    fn supervised_mut(&mut self) -> Option<&mut Supervised> {
        None
    }

    /// The samples that a model makes by acting in an environment, from `seed`; `None` for a model with
    /// external samples. The stream holds handles on the parameters and so acts with the learnt policy.
    fn experience(&self, _seed: u64, _device: Device) -> anyhow::Result<Option<Box<dyn DataStream>>> {
        Ok(None)
    }
}

/// Takes the output of a model and the targets of a batch, gives the scalar mean loss.
pub type Criterion = Box<dyn Fn(&[Tensor], &Tensor) -> Result<Tensor, TchError>>;

/// A workload with one model, one loss and one optimizer.
pub struct Supervised {
    parameters: Parameters,
    chain: Chain,
    criterion: Criterion,
    update: [Update; 1],
}

impl Supervised {
    /// Trains a model that gives one tensor. Of `links` and `parameters`, those that this rank does not hold are dropped.
    pub fn new(
        parameters: Parameters,
        links: Vec<Box<dyn Link>>,
        criterion: fn(&Tensor, &Tensor) -> Result<Tensor, TchError>,
        optimizer: Optimizer,
    ) -> Self {
        let of_first = move |outputs: &[Tensor], targets: &Tensor| criterion(&outputs[0], targets);
        Self::with_criterion(parameters, links, Box::new(of_first), optimizer)
    }

    /// As [`Supervised::new`], with a loss of all tensors that the last link gives.
    pub fn with_criterion(
        mut parameters: Parameters,
        links: Vec<Box<dyn Link>>,
        criterion: Criterion,
        optimizer: Optimizer,
    ) -> Self {
        let chain = Chain::part(links, parameters.links().cloned());
        parameters.drop_unused();
        Self { parameters, chain, criterion, update: [Update::of_everything(optimizer)] }
    }

    /// The links that this rank holds.
    pub fn chain(&self) -> &Chain {
        &self.chain
    }

    pub(crate) fn chain_mut(&mut self) -> &mut Chain {
        &mut self.chain
    }

    /// The scalar mean loss of what the last link gave.
    ///
    /// # Errors
    /// Out of memory.
    pub fn criterion(&self, outputs: &[Tensor], targets: &Tensor) -> Result<Tensor, TchError> {
        (self.criterion)(outputs, targets)
    }
}

impl Workload for Supervised {
    fn parameters(&self) -> &Parameters {
        &self.parameters
    }

    fn updates(&self) -> &[Update] {
        &self.update
    }

    fn loss(&self, _update: usize, batch: &Batch) -> Result<Tensor, TchError> {
        self.criterion(&self.chain.run(&batch.inputs)?, &batch.targets)
    }

    fn supervised(&self) -> Option<&Supervised> {
        Some(self)
    }

    fn supervised_mut(&mut self) -> Option<&mut Supervised> {
        Some(self)
    }
}
