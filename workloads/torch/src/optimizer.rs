//! Optimizers that expose their state to be counted, saved, partitioned and moved, which those of tch do
//! not.

mod chunks;
mod host;
mod link;
mod norm;
mod rule;

use std::slice;

use schema::catalog;
use tch::{Device, Kind, TchError, Tensor};

pub use self::norm::GradientNorm;
use self::{host::Host, rule::Rule};
use crate::{clock::Phase, shim::autograd};

/// The parameters of one update and the optimizer's state.
pub struct Optimizer {
    parameters: Vec<Tensor>,
    rule: Rule,
    /// For each kind of state, one tensor per parameter, in its layout, as the fused kernels require.
    state: Vec<Vec<Tensor>>,
    /// Number of updates, if the rule counts them.
    count: Option<Tensor>,
    /// Present if updates are made in host memory.
    host: Option<Host>,
}

/// The place of an optimizer's state and updates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Home {
    /// On the device of the parameters.
    Device,
    /// In host memory, with a copy of the parameters and this number of threads.
    Host { threads: u32 },
}

/// The name of the number of updates among the kinds of state.
pub(crate) const STEP: &str = "step";

impl Optimizer {
    /// Allocates all state at once, so that a job which does not fit fails before its first step.
    ///
    /// `parameters` are handles on the model's own tensors: leaves that require gradients, at least one.
    ///
    /// # Errors
    /// Out of memory.
    pub fn new(settings: catalog::Optimizer, parameters: Vec<Tensor>, home: Home) -> Result<Self, TchError> {
        let rule = Rule::new(settings);
        let device = match home {
            Home::Device => parameters.first().expect("an update moves at least one parameter").device(),
            Home::Host { .. } => Device::Cpu,
        };
        let zeros = |parameter: &Tensor| {
            let options = (parameter.f_kind()?, device);
            Tensor::f_empty_strided(parameter.size(), parameter.stride(), options)?.f_zero_()
        };
        let state = rule
            .kinds()
            .iter()
            .map(|_| parameters.iter().map(zeros).collect())
            .collect::<Result<Vec<Vec<_>>, _>>()?;
        // PyTorch counts in fp32 for any kind of parameters.
        let count =
            rule.counts().then(|| Tensor::f_zeros([] as [i64; 0], (Kind::Float, device))).transpose()?;
        let host = match home {
            Home::Device => None,
            Home::Host { threads } => Some(Host::new(&parameters, &state, threads)?),
        };
        Ok(Self { parameters, rule, state, count, host })
    }

    /// The parameters that this optimizer moves.
    pub fn parameters(&self) -> &[Tensor] {
        &self.parameters
    }

    /// The state between updates, by kind, under the same names on every home: `momentum`, `average` and
    /// `square` have a tensor for each parameter, of its shape; `step` is one fp32 scalar, the number of
    /// updates. A restore from a checkpoint writes into these tensors.
    pub fn state(&self) -> Vec<(&'static str, &[Tensor])> {
        let kinds = self.rule.kinds().iter().copied().zip(self.state.iter().map(Vec::as_slice));
        kinds.chain(self.count.as_ref().map(|count| (STEP, slice::from_ref(count)))).collect()
    }

    /// Reads the parameters again if updates are made on a copy. Must be called when something else than an update, such as a
    /// restored checkpoint, has written them.
    ///
    /// # Errors
    /// An error of the device.
    pub fn reload_parameters(&self) -> Result<(), TchError> {
        self.host.as_ref().map_or(Ok(()), |host| host.reload(&self.parameters))
    }

    /// Scales the gradients down where their norm, over all parameters together, is above `norm_max`: Pascanu et al.,
    /// ICML 2013, as `torch.nn.utils.clip_grad_norm_`. `norm` finds the norm; nothing is read back from the device.
    ///
    /// # Errors
    /// Out of memory, or those of `norm`.
    pub fn clip_gradients(&mut self, norm_max: f64, norm: &GradientNorm) -> Result<(), TchError> {
        // Avoids a division by zero if all gradients are zero; PyTorch's value.
        const EPSILON: f64 = 1e-6;
        let norm = norm.of(&self.parameters)?;
        let scale = norm.f_add_scalar(EPSILON)?.f_reciprocal()?.f_mul_scalar(norm_max)?.f_clamp_max(1.0)?;
        let gradients = self.parameters.iter().map(Tensor::grad).filter(Tensor::defined);
        gradients.into_iter().try_for_each(|mut gradient| gradient.f_mul_(&scale).map(drop))
    }

    /// Moves the parameters along their gradients, which stay unchanged. Parameters without one stay, too.
    ///
    /// An update in host memory waits for the gradients and calls `lap` for its phases. All time since the
    /// previous call belongs to the phase of the call. An update on the device is one phase, which the
    /// caller reports.
    ///
    /// # Errors
    /// Out of memory, an error of the device, or one of `lap`.
    pub fn step(&mut self, lap: &mut dyn FnMut(Phase) -> Result<(), TchError>) -> Result<(), TchError> {
        if !self.parameters.iter().any(|parameter| parameter.grad().defined()) {
            return Ok(());
        }
        let Self { parameters, rule, state, count, host } = self;
        if let Some(count) = count {
            let _ = count.f_add_scalar_(1.0)?;
        }
        match host {
            None => rule.apply(parameters, None, state, count.as_ref()),
            Some(host) => host.step(parameters, rule, count.as_ref(), lap),
        }
    }

    /// Releases the gradients, so that the next backward pass hands its results over instead of adding
    /// them. Their memory is freed unless another owner, such as a shared bucket, keeps it.
    ///
    /// # Errors
    /// None is known; libtorch reserves the right.
    pub fn clear_gradients(&self) -> Result<(), TchError> {
        autograd::clear_gradients(&self.parameters)
    }
}
