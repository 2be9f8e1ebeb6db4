//! The norm of all gradients of a model. A rank may have a part of them.

use tch::{TchError, Tensor, no_grad};

use crate::group::{Group, Reduction};

/// How the norm of all gradients is found.
pub enum GradientNorm {
    /// This rank has all of them.
    Own,
    /// The ranks add up the squares of theirs.
    Shared {
        all: Group,
        /// Whether this rank counts the gradient of each parameter: of several ranks with the same one, a single one does.
        counted: Vec<bool>,
        /// Number of ranks that count each gradient nevertheless, because all of them have the same part.
        copies: u32,
    },
}

impl GradientNorm {
    /// The norm, a scalar on the device of the parameters.
    pub(super) fn of(&self, parameters: &[Tensor]) -> Result<Tensor, TchError> {
        let norm = |gradients: &mut dyn Iterator<Item = Tensor>| {
            let norms = gradients.map(|gradient| gradient.f_norm()).collect::<Result<Vec<_>, _>>()?;
            if norms.is_empty() { Ok(None) } else { Tensor::f_stack(&norms, 0)?.f_norm().map(Some) }
        };
        let mut gradients = parameters.iter().map(Tensor::grad).filter(Tensor::defined);
        let GradientNorm::Shared { all, counted, copies } = self else {
            return Ok(norm(&mut gradients)?.expect("a step has gradients"));
        };
        drop(gradients);
        let counted = parameters.iter().zip(counted).filter(|(_, counted)| **counted);
        let mut own = counted.map(|(parameter, _)| parameter.grad()).filter(Tensor::defined);
        let square = match norm(&mut own)? {
            Some(norm) => norm.f_square()?,
            None => {
                let first = parameters.first().expect("an update moves a parameter");
                Tensor::f_zeros([] as [i64; 0], (first.f_kind()?, first.device()))?
            }
        };
        let sum = square.f_reshape([1])?;
        all.all_reduce(&sum, Reduction::Sum)?.wait()?;
        no_grad(|| sum.f_div_scalar(i64::from(*copies))?.f_sqrt()?.f_reshape([] as [i64; 0]))
    }
}
