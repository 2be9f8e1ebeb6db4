//! Activation checkpointing, `gc` in a plan: the activations inside a segment of the model are dropped in
//! the forward pass and recomputed in the backward pass (Chen et al., "Training deep nets with sublinear
//! memory cost", 2016).
//!
//! A segment is a link of a [`crate::chain::Chain`]. The stored activations of a micro-batch are those between
//! segments and, while a backward pass is inside a segment, those of this segment. The cost of a step is one more
//! forward pass of the segments.
//!
//! The last link of a chain is no segment, as in PyTorch's `checkpoint_sequential` and in the models of Hugging Face: the
//! backward pass begins with it, so that its activations would be recomputed at once, with the same peak of memory.
//!
//! The second run repeats the first one, to the bit on a CPU: it draws the same random numbers, under the
//! same autocast, and with the same kernels, because both record a graph (PyTorch may choose others without
//! one). Gradients are those without checkpointing, to the bit except for two sums in another order: of a
//! tensor that several segments use more than once, and of a weight that is used more than once under
//! autocast, whose gradients are summed in bf16 if all uses share one bf16 copy.
//!
//! PyTorch runs the backward pass of a GPU on its own thread, so that a segment may run there. Tensors may
//! move between threads but not be shared, so each part of a model is behind a lock. The lock is always
//! free, because the training thread waits for the backward pass to end.

use std::{
    cell::Cell,
    sync::{Arc, Mutex, PoisonError},
    thread::LocalKey,
};

use tch::{TchError, Tensor};

use crate::shim::recompute::{Run, recompute};

/// A part of a model that is recomputed: shared by the model and the graphs of its steps.
pub struct Segment<T>(Arc<Mutex<T>>);

impl<T: Send + 'static> Segment<T> {
    pub fn new(part: T) -> Self {
        Self(Arc::new(Mutex::new(part)))
    }

    /// Another handle on the part.
    pub fn shallow_clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }

    /// Runs `forward` on the part, now.
    pub fn with<R>(&self, forward: impl FnOnce(&T) -> R) -> R {
        // A panic leaves no inconsistent state, because running a part does not change it.
        forward(&self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Runs `forward` on `inputs`. While segments are recomputed on this thread ([`enter`]) and gradients are
/// recorded, the graph of the result keeps only `inputs`, and its backward pass calls `forward` again.
/// Otherwise this is a plain call.
///
/// `forward` uses its inputs and parameters of the model, and no other tensor that has a graph, and overwrites none of
/// them. A segment inside of it is just called. An input that it hands through is the caller's own again.
///
/// # Errors
/// The errors of `forward`, here or, with the same message, in the backward pass.
pub fn segment(
    inputs: &[Tensor],
    forward: impl Fn(&[Tensor]) -> Result<Vec<Tensor>, TchError> + Send + 'static,
) -> Result<Vec<Tensor>, TchError> {
    if !IS_ON.get() {
        return forward(inputs);
    }
    let closure = move |run, inputs: &[Tensor]| {
        let _inside = Guard::set(&IS_ON, false);
        let _again = Guard::set(&IS_AGAIN, run == Run::Again);
        forward(inputs)
    };
    recompute(inputs, Box::new(closure))
}

/// While the guard lives, segments on this thread are recomputed in the backward pass if `on`, else they
/// are not.
pub fn enter(on: bool) -> Guard {
    Guard::set(&IS_ON, on)
}

/// Whether a segment runs for the second time, so that its side effects must not be repeated.
pub fn is_again() -> bool {
    IS_AGAIN.get()
}

thread_local! {
    static IS_ON: Cell<bool> = const { Cell::new(false) };
    static IS_AGAIN: Cell<bool> = const { Cell::new(false) };
}

/// Restores the previous setting.
#[must_use = "what was set ends when the guard is dropped"]
pub struct Guard {
    key: &'static LocalKey<Cell<bool>>,
    previous: bool,
}

impl Guard {
    fn set(key: &'static LocalKey<Cell<bool>>, value: bool) -> Self {
        Self { key, previous: key.replace(value) }
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.key.set(self.previous);
    }
}
