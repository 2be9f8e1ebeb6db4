//! A closure that is called in the forward pass, and again in the backward pass.

use std::{
    ffi::{c_int, c_void},
    mem::ManuallyDrop,
    ptr, slice,
};

use tch::{TchError, Tensor};
use torch_sys::C_tensor;

use super::{answer, check, handles};

type Call = unsafe extern "C" fn(
    context: *mut c_void,
    again: c_int,
    inputs: *const *mut C_tensor,
    count: usize,
    outputs: *mut *mut C_tensor,
    output_count: *mut usize,
) -> c_int;

unsafe extern "C" {
    fn tw_recompute(
        call: Call,
        drop: unsafe extern "C" fn(context: *mut c_void),
        context: *mut c_void,
        inputs: *const *const C_tensor,
        count: usize,
        outputs: *mut *mut C_tensor,
        output_count: *mut usize,
    ) -> c_int;
}

/// The largest number of tensors that a closure makes (`kMaxOutputs` in recompute.cpp).
const MAX_OUTPUTS: usize = 8;

/// Which of its two runs a closure is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Run {
    Forward,
    /// The run in a backward pass, in which side effects on the model must not be repeated.
    Again,
}

/// Computes tensors from its inputs and from parameters of the model, and from no other tensor that has a graph.
///
/// `Send`, because PyTorch makes the backward pass of a GPU on a thread of its own.
pub type Closure = Box<dyn Fn(Run, &[Tensor]) -> Result<Vec<Tensor>, TchError> + Send>;

/// What `closure` makes of `inputs`, of which there is at least one. Where gradients are recorded, all that is kept for
/// the backward pass is the inputs, and there the closure is called once more, with the same random numbers and under the
/// same autocast, for the rest. An input that the closure hands through, as the same handle, takes no part in this.
///
/// # Errors
/// The closure's own, in its words, here or out of the backward pass. There is one of autograd in the backward pass when
/// an input was overwritten in between.
pub fn recompute(inputs: &[Tensor], closure: Closure) -> Result<Vec<Tensor>, TchError> {
    assert!(!inputs.is_empty(), "what depends on nothing is not made again");
    let context = Box::into_raw(Box::new(closure)).cast();
    let inputs = handles(inputs);
    let (mut outputs, mut made) = ([ptr::null_mut(); MAX_OUTPUTS], 0);
    // SAFETY: the context is what `call` and `drop_closure` take it for, and goes over to C++, which drops it once. The
    // handles, of which there are some, are borrowed for the length of the call; there is room for all outputs.
    check(unsafe {
        tw_recompute(
            call,
            drop_closure,
            context,
            inputs.as_ptr(),
            inputs.len(),
            outputs.as_mut_ptr(),
            &mut made,
        )
    })?;
    // SAFETY: on success these handles are new and belong to us alone.
    Ok(outputs[..made].iter().map(|&output| unsafe { Tensor::from_ptr(output) }).collect())
}

/// # Safety
/// `context` is one of [`recompute`] that was not dropped, and no other thread uses it now. The `count` handles of
/// `inputs`, one or more, are valid for the length of the call, and `outputs` has room for [`MAX_OUTPUTS`] handles.
unsafe extern "C" fn call(
    context: *mut c_void,
    again: c_int,
    inputs: *const *mut C_tensor,
    count: usize,
    outputs: *mut *mut C_tensor,
    output_count: *mut usize,
) -> c_int {
    let run = if again == 0 { Run::Forward } else { Run::Again };
    answer(|| {
        // SAFETY: as promised to this function. That no other thread uses the closure now: the one that runs a graph's
        // forward pass has left it before the graph can have a backward pass, and waits until that has ended.
        let (closure, inputs) =
            unsafe { (&*context.cast::<Closure>(), slice::from_raw_parts(inputs, count)) };
        // SAFETY: the handles are valid, as promised to this function; what is made here are handles of our own.
        let inputs: Vec<_> = inputs.iter().map(|&input| unsafe { Tensor::clone_from_ptr(input) }).collect();
        let made = closure(run, &inputs)?;
        assert!(made.len() <= MAX_OUTPUTS, "{} tensors are more than a segment makes", made.len());
        // SAFETY: as promised to this function.
        let (places, count) =
            unsafe { (slice::from_raw_parts_mut(outputs, MAX_OUTPUTS), &mut *output_count) };
        *count = made.len();
        for (place, output) in places.iter_mut().zip(made) {
            // The handle goes over to C++, which frees it as tch would.
            *place = ManuallyDrop::new(output).as_mut_ptr();
        }
        Ok(())
    })
}

/// # Safety
/// `context` comes from [`recompute`] and is not used afterwards.
unsafe extern "C" fn drop_closure(context: *mut c_void) {
    // SAFETY: it came from a box of this type.
    drop(unsafe { Box::from_raw(context.cast::<Closure>()) });
}
