//! Operations whose backward pass is a closure.

use std::{
    ffi::{c_int, c_void},
    mem::ManuallyDrop,
    ptr, slice,
};

use tch::{TchError, Tensor};
use torch_sys::C_tensor;

use super::{answer, check, handles};

type Call = unsafe extern "C" fn(
    closure: *mut c_void,
    gradients: *const *mut C_tensor,
    count: usize,
    results: *mut *mut C_tensor,
    result_count: usize,
) -> c_int;

unsafe extern "C" {
    fn tw_function(
        closure: *mut c_void,
        call: Call,
        drop: unsafe extern "C" fn(closure: *mut c_void),
        inputs: *const *const C_tensor,
        input_count: usize,
        values: *const *const C_tensor,
        value_count: usize,
        outputs: *mut *mut C_tensor,
    ) -> c_int;
}

/// Takes a gradient for each output and gives one for each input; `None` stands for a gradient of zeros.
///
/// `Send`, because PyTorch makes the backward pass of a GPU on a thread of its own.
pub type Backward = Box<dyn FnMut(Vec<Option<Tensor>>) -> Result<Vec<Option<Tensor>>, TchError> + Send>;

/// Gives handles on the data of `values`, which were computed from `inputs` outside of autograd, with a graph whose
/// backward pass is `backward`. It is called once at most and dropped with the graph. If no input requires a gradient,
/// the handles have no graph.
///
/// # Errors
/// None is known; libtorch reserves the right. Errors of `backward` come out of the backward pass.
pub fn function(inputs: &[Tensor], values: &[Tensor], backward: Backward) -> Result<Vec<Tensor>, TchError> {
    let closure = Box::into_raw(Box::new(backward)).cast();
    let (inputs, value_handles) = (handles(inputs), handles(values));
    let mut outputs = vec![ptr::null_mut(); values.len()];
    // SAFETY: the closure is what `call` and `free` take it for, and goes over to C++, which drops it once. All handles
    // are borrowed for the length of the call, and there is room for as many outputs as there are values.
    check(unsafe {
        tw_function(
            closure,
            call,
            free,
            inputs.as_ptr(),
            inputs.len(),
            value_handles.as_ptr(),
            value_handles.len(),
            outputs.as_mut_ptr(),
        )
    })?;
    // SAFETY: on success the handles are new and belong to us alone.
    Ok(outputs.into_iter().map(|output| unsafe { Tensor::from_ptr(output) }).collect())
}

/// # Safety
/// `closure` is one of [`function`] that was not dropped, and no other thread uses it now. The `count` handles of
/// `gradients` are valid for the length of the call or null, and `results` has room for `result_count` handles.
unsafe extern "C" fn call(
    closure: *mut c_void,
    gradients: *const *mut C_tensor,
    count: usize,
    results: *mut *mut C_tensor,
    result_count: usize,
) -> c_int {
    answer(|| {
        // SAFETY: as promised to this function. A node runs once, under a lock of its own.
        let (closure, gradients, results) = unsafe {
            (
                &mut *closure.cast::<Backward>(),
                slice::from_raw_parts(gradients, count),
                slice::from_raw_parts_mut(results, result_count),
            )
        };
        let gradients = gradients
            .iter()
            // SAFETY: the handles that are not null are valid, as promised; what is made here are handles of our own.
            .map(|&gradient| (!gradient.is_null()).then(|| unsafe { Tensor::clone_from_ptr(gradient) }))
            .collect();
        let found = closure(gradients)?;
        assert_eq!(found.len(), results.len(), "a backward pass gives a gradient for each input");
        for (place, gradient) in results.iter_mut().zip(found) {
            // The handle goes over to C++, which frees it as tch would.
            *place = gradient.map_or(ptr::null_mut(), |gradient| ManuallyDrop::new(gradient).as_mut_ptr());
        }
        Ok(())
    })
}

/// # Safety
/// `closure` comes from [`function`] and is not used afterwards.
unsafe extern "C" fn free(closure: *mut c_void) {
    // SAFETY: it came from a box of this type.
    drop(unsafe { Box::from_raw(closure.cast::<Backward>()) });
}

#[cfg(test)]
mod tests {
    use std::sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    };

    use super::*;
    use crate::shim::autograd::backward;

    #[test]
    fn the_backward_pass_is_the_closure_and_is_dropped_with_the_graph() {
        let input = Tensor::from_slice(&[1.0_f32, 2.0]).set_requires_grad(true);
        let alive = Arc::new(AtomicU32::new(0));
        let held = Arc::clone(&alive);
        let tripled = move |gradients: Vec<Option<Tensor>>| {
            held.fetch_add(1, Ordering::Relaxed);
            Ok(gradients.into_iter().map(|gradient| gradient.map(|gradient| gradient * 3.0)).collect())
        };
        let outputs = function(&[input.shallow_clone()], &[input.detach()], Box::new(tripled)).unwrap();
        assert_eq!(outputs[0].data_ptr(), input.data_ptr(), "no data is copied");
        backward(&(&outputs[0] * 5.0).sum(tch::Kind::Float), &[]).unwrap();
        assert_eq!(Vec::<f32>::try_from(input.grad()).unwrap(), [15.0, 15.0]);
        assert_eq!((alive.load(Ordering::Relaxed), Arc::strong_count(&alive)), (1, 1));
    }

    #[test]
    fn without_a_gradient_there_is_no_graph_and_an_error_comes_out_of_the_pass() {
        let constant = Tensor::from_slice(&[1.0_f32]);
        let outputs = function(&[constant.shallow_clone()], &[constant], Box::new(Ok)).unwrap();
        assert!(!outputs[0].requires_grad());
        let leaf = Tensor::from_slice(&[1.0_f32]).set_requires_grad(true);
        let lost = |_: Vec<Option<Tensor>>| Err(TchError::Torch("a rank is gone".into()));
        let outputs = function(&[leaf.shallow_clone()], &[leaf.detach()], Box::new(lost)).unwrap();
        let error = backward(&outputs[0].sum(tch::Kind::Float), &[]).unwrap_err().to_string();
        assert_eq!(error, "Internal torch error: a rank is gone");
    }
}
