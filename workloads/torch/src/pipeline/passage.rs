//! What passes between a stage and its neighbours.

use std::{collections::VecDeque, mem};

use tch::{Device, TchError, Tensor, no_grad};

use super::cut::{Cut, Passed};
use crate::{
    group::{Group, Work},
    nn::channels_last,
    shim::layout::line,
};

/// One stage's ends of the connections to the stages before and behind it. Carries go forward and their gradients come
/// back, each in the order of micro-batches.
pub(crate) struct Passage {
    forward: Group,
    backward: Group,
    device: Device,
    /// The carry from the stage before; `None` for the first stage.
    incoming: Option<Vec<Passed>>,
    /// The carry to the next stage; `None` for the last stage.
    outgoing: Option<Vec<Passed>>,
    carries: VecDeque<Arriving>,
    gradients: VecDeque<Arriving>,
    /// The carries that were sent and whose gradients have not come back.
    sent_carries: VecDeque<Sending>,
    /// The gradients that were sent last.
    sent_gradients: Sending,
}

/// Tensors that are sent and not waited for. Dropping a transfer would give it up, and its tensor must not change.
type Sending = Vec<(Work, Tensor)>;

/// Tensors that another stage sends.
struct Arriving {
    tensors: Vec<Tensor>,
    works: Vec<Work>,
}

impl Arriving {
    fn wait(self) -> Result<Vec<Tensor>, TchError> {
        self.works.into_iter().try_for_each(|work| work.wait().map(drop))?;
        Ok(self.tensors)
    }
}

impl Passage {
    /// The ends of stage number `stage`, whose groups have the stages in order.
    pub(crate) fn new(cut: &Cut, stage: usize, forward: Group, backward: Group, device: Device) -> Self {
        let boundary = |index: Option<usize>| index.and_then(|index| cut.boundaries.get(index)).cloned();
        Self {
            forward,
            backward,
            device,
            incoming: boundary(stage.checked_sub(1)),
            outgoing: boundary(Some(stage)),
            carries: VecDeque::new(),
            gradients: VecDeque::new(),
            sent_carries: VecDeque::new(),
            sent_gradients: Vec::new(),
        }
    }

    pub(crate) fn is_first(&self) -> bool {
        self.incoming.is_none()
    }

    pub(crate) fn is_last(&self) -> bool {
        self.outgoing.is_none()
    }

    /// Begins to receive the carry of the next micro-batch, so that it arrives while this stage computes.
    pub(crate) fn expect_carry(&mut self) -> Result<(), TchError> {
        let Some(passed) = &self.incoming else { return Ok(()) };
        let arriving = expect(passed.iter(), &self.forward, self.forward.rank() - 1, self.device)?;
        self.carries.push_back(arriving);
        Ok(())
    }

    /// The expected carry: leaves, which require a gradient if it is to be sent back.
    pub(crate) fn take_carry(&mut self) -> Result<Vec<Tensor>, TchError> {
        let passed = self.incoming.as_ref().expect("the first stage takes a batch");
        let tensors = self.carries.pop_front().expect("it was expected").wait()?;
        let leaf = |(tensor, passed): (Tensor, &Passed)| tensor.f_set_requires_grad(passed.has_gradient);
        tensors.into_iter().zip(passed).map(leaf).collect()
    }

    /// Begins to send the carry of a micro-batch to the next stage.
    pub(crate) fn send_carry(&mut self, carry: &[Tensor]) -> Result<(), TchError> {
        let passed = self.outgoing.as_ref().expect("the last stage computes a loss");
        assert_eq!(carry.len(), passed.len(), "a carry is as the cut says");
        let (to, mut sending) = (self.forward.rank() + 1, Vec::new());
        for (index, (tensor, passed)) in carry.iter().zip(passed).enumerate() {
            let sent = arranged(&tensor.f_detach()?.f_to_kind(passed.kind)?)?;
            let work = self.forward.send(&line(&sent)?, to, index as u32)?;
            sending.push((work, sent));
        }
        self.sent_carries.push_back(sending);
        Ok(())
    }

    /// Begins to receive the gradients of the next micro-batch's carry.
    pub(crate) fn expect_gradients(&mut self) -> Result<(), TchError> {
        let Some(passed) = &self.outgoing else { return Ok(()) };
        let passed = passed.iter().filter(|passed| passed.has_gradient);
        let arriving = expect(passed, &self.backward, self.backward.rank() + 1, self.device)?;
        self.gradients.push_back(arriving);
        Ok(())
    }

    /// The tensors of `carry`, which was sent, that a backward pass starts from, and the expected gradient of each.
    pub(crate) fn take_gradients(
        &mut self,
        carry: Vec<Tensor>,
    ) -> Result<(Vec<Tensor>, Vec<Tensor>), TchError> {
        let passed = self.outgoing.as_ref().expect("the last stage starts from a loss");
        let with_gradient = carry.into_iter().zip(passed).filter(|(_, passed)| passed.has_gradient);
        let outputs: Vec<Tensor> = with_gradient.map(|(tensor, _)| tensor).collect();
        let gradients = self.gradients.pop_front().expect("they were expected").wait()?;
        // The next stage has answered, so it has this carry.
        sent(self.sent_carries.pop_front().unwrap_or_default())?;
        let fitting = outputs.iter().zip(gradients).map(|(output, gradient)| {
            // Autocast may have made the output bf16.
            gradient.f_to_kind(output.f_kind()?)
        });
        let gradients = fitting.collect::<Result<_, _>>()?;
        Ok((outputs, gradients))
    }

    /// Begins to send the gradients of `carry`, which was taken, to the stage before.
    pub(crate) fn send_gradients(&mut self, carry: &[Tensor]) -> Result<(), TchError> {
        let Some(passed) = &self.incoming else { return Ok(()) };
        // The stage before has expected those of the last micro-batch since it took the ones before them.
        sent(mem::take(&mut self.sent_gradients))?;
        let to = self.backward.rank() - 1;
        let with_gradient = carry.iter().zip(passed).filter(|(_, passed)| passed.has_gradient);
        for (index, (leaf, _)) in with_gradient.enumerate() {
            let gradient = leaf.f_grad()?;
            let gradient = if gradient.defined() { arranged(&gradient)? } else { leaf.f_zeros_like()? };
            let work = self.backward.send(&line(&gradient)?, to, index as u32)?;
            self.sent_gradients.push((work, gradient));
        }
        Ok(())
    }

    /// Waits until the other stages have everything that was sent in this step.
    pub(crate) fn finish(&mut self) -> Result<(), TchError> {
        self.sent_carries.drain(..).try_for_each(sent)?;
        sent(mem::take(&mut self.sent_gradients))
    }
}

/// Waits until another stage has these tensors.
fn sent(sending: Sending) -> Result<(), TchError> {
    sending.into_iter().try_for_each(|(work, _)| work.wait().map(drop))
}

/// Begins to receive tensors like these from a stage.
fn expect<'a>(
    passed: impl Iterator<Item = &'a Passed>,
    group: &Group,
    from: u32,
    device: Device,
) -> Result<Arriving, TchError> {
    let (mut tensors, mut works) = (Vec::new(), Vec::new());
    for (index, passed) in passed.enumerate() {
        let tensor = arranged(&Tensor::f_empty(&passed.shape, (passed.kind, device))?)?;
        works.push(group.receive(&line(&tensor)?, from, index as u32)?);
        tensors.push(tensor);
    }
    Ok(Arriving { tensors, works })
}

/// The layout in which a tensor passes, without a copy where it has that already: images channels-last, all others
/// contiguous.
fn arranged(tensor: &Tensor) -> Result<Tensor, TchError> {
    no_grad(|| if tensor.dim() == 4 { channels_last(tensor) } else { tensor.f_contiguous() })
}
