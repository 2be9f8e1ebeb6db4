//! Optimizers whose state is ours: it can be counted, saved, partitioned and moved, which tch's own do not allow.

mod chunks;
mod host;
mod link;
mod rule;

use std::slice;

use schema::catalog;
use tch::{Device, Kind, TchError, Tensor};

use self::{host::Host, rule::Rule};
use crate::{clock::Phase, shim::autograd};

/// The parameters of one update, and what the optimizer remembers of them.
pub struct Optimizer {
    parameters: Vec<Tensor>,
    rule: Rule,
    /// For each kind of the rule a tensor for each parameter, in its layout, as the fused kernels demand.
    state: Vec<Vec<Tensor>>,
    /// Counts the updates, where the rule does.
    count: Option<Tensor>,
    /// Where updates are made in host memory.
    host: Option<Host>,
}

/// Where an optimizer keeps its state and makes its updates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Home {
    /// Where the parameters are.
    Device,
    /// In host memory, beside a copy of the parameters, with so many threads.
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
        // PyTorch counts in fp32, whatever the kind of the parameters.
        let count =
            rule.counts().then(|| Tensor::f_zeros([] as [i64; 0], (Kind::Float, device))).transpose()?;
        let host = match home {
            Home::Device => None,
            Home::Host { threads } => Some(Host::new(&parameters, &state, threads)?),
        };
        Ok(Self { parameters, rule, state, count, host })
    }

    /// What this optimizer moves.
    pub fn parameters(&self) -> &[Tensor] {
        &self.parameters
    }

    /// What is remembered between updates, by kind, under the same names wherever it is kept: `momentum`, `average` and
    /// `square` have a tensor for each parameter, of its shape; `step` is one fp32 scalar, the number of updates. Whoever
    /// goes on from a checkpoint writes into these tensors.
    pub fn state(&self) -> Vec<(&'static str, &[Tensor])> {
        let kinds = self.rule.kinds().iter().copied().zip(self.state.iter().map(Vec::as_slice));
        kinds.chain(self.count.as_ref().map(|count| (STEP, slice::from_ref(count)))).collect()
    }

    /// To be called when something else than an update has written the parameters, as a checkpoint that is restored: takes
    /// them over where updates are made on a copy.
    ///
    /// # Errors
    /// An error of the device.
    pub fn reload_parameters(&self) -> Result<(), TchError> {
        self.host.as_ref().map_or(Ok(()), |host| host.reload(&self.parameters))
    }

    /// Scales the gradients down where their norm, over all parameters together, is above `norm_max`: Pascanu et al.,
    /// ICML 2013, as `torch.nn.utils.clip_grad_norm_`. Reads nothing back from the device.
    ///
    /// # Errors
    /// Out of memory.
    pub fn clip_gradients(&mut self, norm_max: f64) -> Result<(), TchError> {
        // Keeps gradients of zero from being divided by zero; PyTorch's.
        const EPSILON: f64 = 1e-6;
        let gradients = || self.parameters.iter().map(Tensor::grad).filter(Tensor::defined);
        let norms = gradients().map(|gradient| gradient.f_norm()).collect::<Result<Vec<_>, _>>()?;
        let norm = Tensor::f_stack(&norms, 0)?.f_norm()?;
        let scale = norm.f_add_scalar(EPSILON)?.f_reciprocal()?.f_mul_scalar(norm_max)?.f_clamp_max(1.0)?;
        gradients().try_for_each(|mut gradient| gradient.f_mul_(&scale).map(drop))
    }

    /// Moves the parameters along their gradients, which stay as they are. Parameters without one stay, too.
    ///
    /// An update in host memory waits for the gradients and tells `lap` of its phases: everything since it was last called
    /// belongs to the one that it is called with. An update on the device is one phase, and left to the caller.
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

    /// Lets go of the gradients: the next backward pass hands its results over instead of adding them. Their memory is freed,
    /// unless somebody else keeps it for them, as buckets do that ranks share.
    ///
    /// # Errors
    /// None is known; libtorch reserves the right.
    pub fn clear_gradients(&self) -> Result<(), TchError> {
        autograd::clear_gradients(&self.parameters)
    }
}
