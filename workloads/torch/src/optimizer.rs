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
