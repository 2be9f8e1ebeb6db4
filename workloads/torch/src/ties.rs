//! Gradients of weights that several pipeline stages use: an embedding of the first stage that is the output layer of the
//! last one.

use tch::{TchError, Tensor, no_grad};

use crate::{
    group::{Group, Reduction, Work},
    shim::{autograd::keep_gradient_in, layout::gradient_as_line},
};

/// A weight of this stage that other stages use, too. All of them start equal and move alike.
pub(crate) struct Tied {
    pub(crate) parameter: Tensor,
    /// The stages that use it, in ascending order.
    pub(crate) stages: Vec<u32>,
}

/// Sums the gradients of tied weights over the stages that use them, then over data-parallel ranks.
pub(crate) struct Ties {
    tied: Vec<Tied>,
    stages: Group,
    data: Group,
}

impl Ties {
    /// `stages` has the stages of this pipeline in order.
    pub(crate) fn new(tied: Vec<Tied>, stages: Group, data: Group) -> Self {
        Self { tied, stages, data }
    }

    /// Gives each tied weight the sum of its gradients. Every stage sends its gradient to the others, and each adds them up
    /// in the order of stages, so that all have the same bits.
    ///
    /// # Errors
    /// Another rank has gone, or out of memory.
    pub(crate) fn sum(&self) -> Result<(), TchError> {
        let mut under_way = Vec::new();
        for (index, Tied { parameter, stages }) in self.tied.iter().enumerate() {
            if !parameter.f_grad()?.defined() {
                keep_gradient_in(parameter, &parameter.f_zeros_like()?)?;
            }
            let (own, tag) = (gradient_as_line(parameter)?, index as u32);
            let (mut parts, mut works) = (Vec::new(), Vec::<Work>::new());
            for &stage in stages {
                if stage == self.stages.rank() {
                    parts.push(own.f_detach_copy()?);
                    continue;
                }
                let part = own.f_empty_like()?;
                works.push(self.stages.receive(&part, stage, FIRST_TAG + tag)?);
                works.push(self.stages.send(&own, stage, FIRST_TAG + tag)?);
                parts.push(part);
            }
            under_way.push((own, parts, works));
        }
        for (mut own, parts, works) in under_way {
            works.into_iter().try_for_each(|work| work.wait().map(drop))?;
            no_grad(|| {
                own.f_copy_(&parts[0])?;
                parts[1..].iter().try_for_each(|part| own.f_add_(part).map(drop))
            })?;
            self.data.all_reduce(&own, Reduction::Sum)?.wait()?;
        }
        Ok(())
    }
}

/// Tags below this one are those of carries.
const FIRST_TAG: u32 = 1000;
