//! Optimizers whose state is ours: it can be counted, saved, partitioned and moved, which tch's own do not allow.

use schema::catalog;
use tch::{Kind, TchError, Tensor};

use crate::shim::{
    autograd,
    optimizer::{self as fused, Adam},
};

/// The parameters of one update, and what the optimizer remembers of them.
pub struct Optimizer {
    parameters: Vec<Tensor>,
    rule: Rule,
}

/// How parameters move. The state lists hold a tensor for each parameter, in its layout, as the fused kernels demand.
enum Rule {
    Sgd { learning_rate: f64, momentum: f64, weight_decay: f64, momenta: Vec<Tensor> },
    Adam { constants: Adam, averages: Vec<Tensor>, squares: Vec<Tensor>, step: Tensor },
}

impl Optimizer {
    /// Allocates all state at once, so that a job which does not fit fails before its first step.
    ///
    /// `parameters` are handles on the model's own tensors: leaves that require gradients, at least one.
    ///
    /// # Errors
    /// Out of memory.
    pub fn new(settings: catalog::Optimizer, parameters: Vec<Tensor>) -> Result<Self, TchError> {
        let zeros = || parameters.iter().map(Tensor::f_zeros_like).collect::<Result<Vec<_>, _>>();
        let adam = |constants| {
            let device = parameters.first().expect("an update moves at least one parameter").device();
            let step = Tensor::f_zeros([] as [i64; 0], (Kind::Float, device))?;
            Ok::<_, TchError>(Rule::Adam { constants, averages: zeros()?, squares: zeros()?, step })
        };
        let rule = match settings {
            catalog::Optimizer::Sgd { learning_rate, momentum, weight_decay } => {
                let momenta = if momentum == 0.0 { Vec::new() } else { zeros()? };
                Rule::Sgd { learning_rate, momentum, weight_decay, momenta }
            }
            catalog::Optimizer::Adam { learning_rate, beta1, beta2, epsilon, weight_decay } => {
                adam(Adam { learning_rate, beta1, beta2, epsilon, weight_decay, decoupled: false })?
            }
            catalog::Optimizer::Adamw { learning_rate, beta1, beta2, epsilon, weight_decay } => {
                adam(Adam { learning_rate, beta1, beta2, epsilon, weight_decay, decoupled: true })?
            }
        };
        Ok(Self { parameters, rule })
    }

    /// What this optimizer moves.
    pub fn parameters(&self) -> &[Tensor] {
        &self.parameters
    }

    /// What is remembered between updates, by kind: `momentum`, `average` and `square` have a tensor for each parameter, of
    /// its shape; `step` is one scalar, the number of updates.
    pub fn state(&self) -> Vec<(&'static str, &[Tensor])> {
        match &self.rule {
            Rule::Sgd { momenta, .. } if momenta.is_empty() => Vec::new(),
            Rule::Sgd { momenta, .. } => vec![("momentum", momenta)],
            Rule::Adam { averages, squares, step, .. } => {
                vec![("average", averages), ("square", squares), ("step", std::slice::from_ref(step))]
            }
        }
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

    /// Moves the parameters along their gradients, then frees the gradients.
    ///
    /// # Errors
    /// None is known for gradients that a backward pass made.
    pub fn step(&mut self) -> Result<(), TchError> {
        match &self.rule {
            Rule::Sgd { learning_rate, momentum, weight_decay, momenta } => {
                fused::sgd(*learning_rate, *momentum, *weight_decay, &self.parameters, momenta)?;
            }
            Rule::Adam { constants, averages, squares, step } => {
                fused::adam(constants, &self.parameters, averages, squares, step)?;
            }
        }
        autograd::clear_gradients(&self.parameters)
    }
}
