//! Models as chains of links.
//!
//! Plans cut a model between its links: activation checkpointing drops the activations inside a link, a pipeline gives
//! each stage a range of links, and ZeRO-3 gathers the parameters of one link at a time. A [`Chain`] is the one place
//! that runs links, so that each of these is written once for all models.

use std::{ops::Range, sync::Arc};

use tch::{TchError, Tensor};

use crate::{
    recompute::{Segment, segment},
    workload::Block,
};

/// One part of a model: takes the tensors that the link before it gives, the carry, and gives its own.
///
/// The first link takes the inputs of a batch, and the last one gives the output. What a link does not change it hands
/// through as the same handle. The rules for a [`Block`] hold for a link as well; each block is a link whose carry is one
/// tensor.
pub trait Link: Send {
    fn run(&self, carry: &[Tensor]) -> Result<Vec<Tensor>, TchError>;
}

impl<B: Block> Link for B {
    fn run(&self, carry: &[Tensor]) -> Result<Vec<Tensor>, TchError> {
        let [input] = carry else {
            unreachable!("a block takes one tensor, and this carry has {}", carry.len())
        };
        Ok(vec![self.forward(input)?])
    }
}

/// What happens at the ends of each link: a plan that keeps parameters elsewhere brings them here.
pub trait Ends: Send + Sync {
    /// Called before link number `link` runs on `carry`; gives what it runs on.
    ///
    /// # Errors
    /// The link cannot run.
    fn before(&self, link: usize, carry: &[Tensor]) -> Result<Vec<Tensor>, TchError>;

    /// Called when link number `link` has run; gives what the next link takes.
    ///
    /// # Errors
    /// The next link cannot run.
    fn after(&self, link: usize, carry: Vec<Tensor>) -> Result<Vec<Tensor>, TchError>;
}

/// Links that run one after another. All but the last link of the whole model are segments of activation checkpointing.
pub struct Chain {
    links: Vec<Segment<Box<dyn Link>>>,
    /// The number of the first of them in the whole model.
    first: usize,
    /// Number of links of the whole model.
    count: usize,
    ends: Option<Arc<dyn Ends>>,
}

impl Chain {
    /// All links of a model, of which there is at least one.
    pub fn new(links: Vec<Box<dyn Link>>) -> Self {
        Self::part(links, None)
    }

    /// The links `held` of a model, or all of them. The others are dropped.
    pub fn part(links: Vec<Box<dyn Link>>, held: Option<Range<usize>>) -> Self {
        let count = links.len();
        let held = held.unwrap_or(0..count);
        assert!(!held.is_empty() && held.end <= count, "a chain of {count} links has no part {held:?}");
        let first = held.start;
        let links = links.into_iter().skip(first).take(held.len()).map(Segment::new).collect();
        Self { links, first, count, ends: None }
    }

    /// Number of links of the whole model.
    pub fn count(&self) -> usize {
        self.count
    }

    /// From here on, `ends` are called around each link.
    pub(crate) fn set_ends(&mut self, ends: Arc<dyn Ends>) {
        self.ends = Some(ends);
    }

    /// The output of the chain for the inputs of a batch.
    ///
    /// # Errors
    /// Those of the links.
    pub fn run(&self, inputs: &Tensor) -> Result<Vec<Tensor>, TchError> {
        self.run_from(vec![inputs.shallow_clone()])
    }

    /// The output of the chain for the carry of the link before it.
    ///
    /// # Errors
    /// Those of the links.
    pub fn run_from(&self, carry: Vec<Tensor>) -> Result<Vec<Tensor>, TchError> {
        (0..self.links.len()).try_fold(carry, |carry, index| self.run_link(index, &carry))
    }

    /// Runs link number `index` of the links that are held.
    ///
    /// # Errors
    /// Those of the link.
    pub(crate) fn run_link(&self, index: usize, carry: &[Tensor]) -> Result<Vec<Tensor>, TchError> {
        let (link, ends) = (self.links[index].shallow_clone(), self.ends.clone());
        let number = self.first + index;
        let run = move |carry: &[Tensor]| match &ends {
            None => link.with(|link| link.run(carry)),
            Some(ends) => {
                let carry = ends.before(number, carry)?;
                ends.after(number, link.with(|link| link.run(&carry))?)
            }
        };
        if number + 1 == self.count { run(carry) } else { segment(carry, run) }
    }

    /// The single tensor that the chain makes of `input`, in a model whose carry is one tensor.
    ///
    /// # Errors
    /// Those of the links.
    pub fn forward(&self, input: &Tensor) -> Result<Tensor, TchError> {
        let [output] = <[_; 1]>::try_from(self.run(input)?).expect("its last link gives one tensor");
        Ok(output)
    }
}
