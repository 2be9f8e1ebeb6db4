//! Activation checkpointing, `gc` in a plan: what lies inside a segment of the model is forgotten in the forward pass
//! and made again in the backward pass (Chen et al., "Training deep nets with sublinear memory cost", 2016).
//!
//! A segment is a block of a [`crate::workload::Sequential`], or a layer of a model that is none. What is kept of a
//! micro-batch then is what lies between segments, and while a backward pass is inside one, that one's activations.
//! For it, a step costs one more forward pass of the segments.
//!
//! The last block of a `Sequential` is none, and heads are not, as in PyTorch's `checkpoint_sequential` and in the models
//! of Hugging Face: the backward pass begins with it, so what it keeps would be made again at once, and the most that is
//! held at a time would be the same.
//!
//! The second run computes what the first one did, to the bit on a CPU: it draws the same random numbers, under the same
//! autocast, and by the same kernels, as both make a graph (PyTorch may pick others where none is wanted). Gradients are
//! those without checkpointing, to the bit but for two sums that then are added up in another order: of a tensor that
//! several segments take and each uses more than once, and of a weight that is used more than once under autocast, whose
//! gradients are added up in bf16 where all uses share one bf16 copy.
//!
//! PyTorch makes the backward pass of a GPU on a thread of its own, so a segment may run there. Tensors go from thread to
//! thread and are not to be shared, so each part of a model lies behind a lock. It is always free: the thread that trains
//! waits for the backward pass to end.

use std::{
    cell::Cell,
    sync::{Arc, Mutex, PoisonError},
    thread::LocalKey,
};

use tch::{TchError, Tensor};

use crate::shim::recompute::{Run, recompute};

/// A part of a model that is forgotten and made again: shared by the model and the graphs of its steps.
pub struct Segment<T>(Arc<Mutex<T>>);

impl<T: Send + 'static> Segment<T> {
    pub fn new(part: T) -> Self {
        Self(Arc::new(Mutex::new(part)))
    }

    /// What `forward` makes of the part and of `inputs`, which it must not overwrite.
    ///
    /// # Errors
    /// Those of `forward`, here or in the backward pass.
    pub fn forward<const N: usize>(
        &self,
        inputs: [&Tensor; N],
        forward: fn(&T, [&Tensor; N]) -> Result<Tensor, TchError>,
    ) -> Result<Tensor, TchError> {
        let part = Arc::clone(&self.0);
        // A panic has left nothing half done: running a part changes nothing of it.
        let run =
            move |inputs: [&Tensor; N]| forward(&part.lock().unwrap_or_else(PoisonError::into_inner), inputs);
        segment(inputs, run)
    }
}

/// What `forward` makes of `inputs`. While segments are recomputed on this thread ([`enter`]) and gradients are recorded,
/// the graph of the result keeps `inputs` alone, and its backward pass calls `forward` again; else it is just called.
///
/// It uses its inputs and parameters of the model, and no other tensor that has a graph. A segment inside of it is none.
///
/// # Errors
/// Those of `forward`, here or, with the same words, in the backward pass.
pub fn segment<const N: usize>(
    inputs: [&Tensor; N],
    forward: impl Fn([&Tensor; N]) -> Result<Tensor, TchError> + Send + 'static,
) -> Result<Tensor, TchError> {
    if !IS_ON.get() {
        return forward(inputs);
    }
    let closure = move |run, inputs: &[Tensor]| {
        let _inside = Guard::set(&IS_ON, false);
        let _again = Guard::set(&IS_AGAIN, run == Run::Again);
        forward(std::array::from_fn(|index| &inputs[index]))
    };
    recompute(&inputs, Box::new(closure))
}

/// While the guard lives, segments that run on this thread are recomputed in the backward pass, or, if not `on`, are not.
pub fn enter(on: bool) -> Guard {
    Guard::set(&IS_ON, on)
}

/// Whether a segment runs for the second time: what it left behind beside its output, it left behind the first time.
pub fn is_again() -> bool {
    IS_AGAIN.get()
}

thread_local! {
    static IS_ON: Cell<bool> = const { Cell::new(false) };
    static IS_AGAIN: Cell<bool> = const { Cell::new(false) };
}

/// Puts back what was set before.
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
