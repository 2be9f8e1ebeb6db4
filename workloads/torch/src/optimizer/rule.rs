//! The update rules, and the state that they need per parameter.

use schema::catalog;
use tch::{TchError, Tensor};

use crate::shim::optimizer::{self as fused, Adam};

/// One of the catalog's optimizers, as PyTorch's fused kernels execute it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Rule {
    Sgd { learning_rate: f64, momentum: f64, weight_decay: f64 },
    Adam(Adam),
}

impl Rule {
    pub(super) fn new(settings: catalog::Optimizer) -> Self {
        match settings {
            catalog::Optimizer::Sgd { learning_rate, momentum, weight_decay } => {
                Rule::Sgd { learning_rate, momentum, weight_decay }
            }
            catalog::Optimizer::Adam { learning_rate, beta1, beta2, epsilon, weight_decay } => {
                Rule::Adam(Adam { learning_rate, beta1, beta2, epsilon, weight_decay, decoupled: false })
            }
            catalog::Optimizer::Adamw { learning_rate, beta1, beta2, epsilon, weight_decay } => {
                Rule::Adam(Adam { learning_rate, beta1, beta2, epsilon, weight_decay, decoupled: true })
            }
        }
    }

    /// The kinds of state, each with one number for every number of a parameter.
    pub(super) fn kinds(&self) -> &'static [&'static str] {
        match self {
            Rule::Sgd { momentum, .. } if *momentum == 0.0 => &[],
            Rule::Sgd { .. } => &["momentum"],
            Rule::Adam(_) => &["average", "square"],
        }
    }

    /// Whether the updates are counted.
    pub(super) fn counts(&self) -> bool {
        matches!(self, Rule::Adam(_))
    }

    /// Moves `parameters` along `gradients`, by default their own. `state` has a list for each of
    /// [`Rule::kinds`], with a tensor for each parameter; `step` is present if updates are counted,
    /// including this one.
    pub(super) fn apply(
        &self,
        parameters: &[Tensor],
        gradients: Option<&[Tensor]>,
        state: &[Vec<Tensor>],
        step: Option<&Tensor>,
    ) -> Result<(), TchError> {
        match (self, state, step) {
            (Rule::Sgd { learning_rate, momentum, weight_decay }, momenta, None) => {
                let momenta = momenta.first().map_or(&[][..], Vec::as_slice);
                fused::sgd(*learning_rate, *momentum, *weight_decay, parameters, gradients, momenta)
            }
            (Rule::Adam(constants), [averages, squares], Some(step)) => {
                fused::adam(constants, parameters, gradients, averages, squares, step)
            }
            _ => unreachable!("state is made as `kinds` and `counts` say"),
        }
    }
}
