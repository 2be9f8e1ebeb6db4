//! Gradients and autocast.

use std::{
    ffi::{c_int, c_uint, c_void},
    mem::ManuallyDrop,
};

use tch::{Device, TchError, Tensor};
use torch_sys::C_tensor;

use super::{answer, check, handles};

unsafe extern "C" {
    fn tw_backward(output: *const C_tensor, inputs: *const *const C_tensor, count: usize) -> c_int;
    fn tw_backward_from(
        outputs: *const *const C_tensor,
        gradients: *const *const C_tensor,
        count: usize,
    ) -> c_int;
    fn tw_clear_gradients(parameters: *const *const C_tensor, count: usize) -> c_int;
    fn tw_gradient_hook_set(
        parameter: *const C_tensor,
        closure: *mut c_void,
        call: unsafe extern "C" fn(*const c_void, *mut C_tensor) -> c_int,
        drop: unsafe extern "C" fn(*mut c_void),
    ) -> c_int;
    fn tw_gradient_hook_clear(parameter: *const C_tensor) -> c_int;
    fn tw_gradient_unshare(parameter: *const C_tensor, position: *mut c_uint) -> c_int;
    fn tw_gradient_share(parameter: *const C_tensor, position: c_uint) -> c_int;
    fn tw_keep_gradient_in(parameter: *const C_tensor, place: *const C_tensor) -> c_int;
    fn tw_autocast_bf16_enter(is_cuda: c_int, previous: *mut i64) -> c_int;
    fn tw_autocast_bf16_leave(is_cuda: c_int, previous: i64) -> c_int;
    fn tw_autocast_cpu_suspend(was_on: *mut c_int) -> c_int;
    fn tw_autocast_cpu_resume(was_on: c_int) -> c_int;
}

/// Adds the gradients of the scalar `output` to those of `inputs`, and frees the graph.
///
/// Without `inputs` every leaf of the graph that requires a gradient gets one. With them, gradients of all other
/// leaves are not even computed: the discriminator's, while the generator learns through it.
///
/// # Errors
/// Whatever the backward pass of an operation reports, out of memory included.
pub fn backward(output: &Tensor, inputs: &[Tensor]) -> Result<(), TchError> {
    let inputs = handles(inputs);
    // SAFETY: all handles are borrowed for the length of the call.
    check(unsafe { tw_backward(output.as_ptr(), inputs.as_ptr(), inputs.len()) })
}

/// Adds the gradients of `outputs`, each of which has its gradient in `gradients`, to those of every leaf of their graphs,
/// and frees the graphs.
///
/// # Errors
/// As [`backward`].
pub fn backward_from(outputs: &[Tensor], gradients: &[Tensor]) -> Result<(), TchError> {
    assert_eq!(outputs.len(), gradients.len(), "each output has a gradient");
    let (outputs, gradients) = (handles(outputs), handles(gradients));
    // SAFETY: all handles are borrowed for the length of the call, and the two lists are equally long.
    check(unsafe { tw_backward_from(outputs.as_ptr(), gradients.as_ptr(), outputs.len()) })
}

/// Frees the gradients of `parameters`: the next backward pass hands its results over and adds nothing.
///
/// # Errors
/// None is known; libtorch reserves the right.
pub fn clear_gradients(parameters: &[Tensor]) -> Result<(), TchError> {
    let parameters = handles(parameters);
    // SAFETY: all handles are borrowed for the length of the call.
    check(unsafe { tw_clear_gradients(parameters.as_ptr(), parameters.len()) })
}

/// Makes `place` the gradient of `parameter`, with the numbers of the gradient that it has, if any.
///
/// `place` has the parameter's shape and strides. Until the gradient is cleared, backward passes add to it where it lies.
///
/// # Errors
/// When shapes, types or devices of the two do not agree.
pub fn keep_gradient_in(parameter: &Tensor, place: &Tensor) -> Result<(), TchError> {
    // SAFETY: both handles are borrowed for the length of the call.
    check(unsafe { tw_keep_gradient_in(parameter.as_ptr(), place.as_ptr()) })
}

/// While it lives, a closure is called for each addition to the gradient of a parameter.
#[must_use = "the closure is called no more when the guard is dropped"]
pub struct GradientHook {
    parameter: Tensor,
}

impl GradientHook {
    /// Makes autograd call `closure` with `parameter`, a leaf without a hook, each time it has added to its
    /// gradient: usually once per backward pass, and more often if parts of the pass are passes of their
    /// own.
    ///
    /// On CUDA the call is on a thread of autograd. An error of the closure, or a panic, ends the backward
    /// pass, which reports it.
    ///
    /// # Errors
    /// When the parameter has a hook already.
    pub fn new<F>(parameter: &Tensor, closure: F) -> Result<Self, TchError>
    where
        F: Fn(&Tensor) -> Result<(), TchError> + Send + Sync + 'static,
    {
        /// # Safety
        /// `closure` is what `new` made of an `F`, and `parameter` is valid for the length of the call.
        unsafe extern "C" fn call<F>(closure: *const c_void, parameter: *mut C_tensor) -> c_int
        where
            F: Fn(&Tensor) -> Result<(), TchError>,
        {
            answer(|| {
                // SAFETY: the hook owns the closure, and calls it while it lives.
                let closure = unsafe { &*closure.cast::<F>() };
                // SAFETY: the handle is autograd's: it is valid, and not ours to drop.
                let parameter = ManuallyDrop::new(unsafe { Tensor::from_ptr(parameter) });
                closure(&parameter)
            })
        }

        /// # Safety
        /// `closure` is what `new` made of an `F`, and is not used any more.
        unsafe extern "C" fn free<F>(closure: *mut c_void) {
            // SAFETY: `new` made it of a box, and this is called once.
            drop(unsafe { Box::from_raw(closure.cast::<F>()) });
        }

        let closure = Box::into_raw(Box::new(closure)).cast();
        // SAFETY: the handle is borrowed for the length of the call. The closure, and the two functions that know its
        // type, are the hook's from here on, whether the call succeeds or not.
        check(unsafe { tw_gradient_hook_set(parameter.as_ptr(), closure, call::<F>, free::<F>) })?;
        Ok(Self { parameter: parameter.shallow_clone() })
    }
}

impl Drop for GradientHook {
    fn drop(&mut self) {
        // SAFETY: the handle is borrowed for the length of the call.
        let cleared = check(unsafe { tw_gradient_hook_clear(self.parameter.as_ptr()) });
        debug_assert!(cleared.is_ok(), "a hook could not be taken back: {cleared:?}");
    }
}

/// While it lives, only a parameter owns the memory in which a backward pass leaves its gradient, so that
/// it can be written during the pass.
///
/// Otherwise autograd uses any tensor without other handles as a gradient, even if it is a view of memory
/// that others still have to read. For example, an operation that adds a parameter, in another shape, to
/// activations has one gradient for both. Such a gradient is copied now, and no other one is.
#[must_use = "memory may be shared again when the guard is dropped"]
pub struct UnsharedGradient {
    parameter: Tensor,
    position: c_uint,
}

impl UnsharedGradient {
    /// Sets the guard for `parameter`, a leaf that requires a gradient.
    ///
    /// # Errors
    /// The parameter is no such leaf.
    pub fn new(parameter: &Tensor) -> Result<Self, TchError> {
        let mut position = 0;
        // SAFETY: the handle is borrowed for the length of the call and the pointer is that of a local number.
        check(unsafe { tw_gradient_unshare(parameter.as_ptr(), &mut position) })?;
        Ok(Self { parameter: parameter.shallow_clone(), position })
    }
}

impl Drop for UnsharedGradient {
    fn drop(&mut self) {
        // SAFETY: the handle is borrowed for the length of the call, and the position is what `new` was given.
        let shared = check(unsafe { tw_gradient_share(self.parameter.as_ptr(), self.position) });
        debug_assert!(shared.is_ok(), "a hook could not be taken back: {shared:?}");
    }
}

/// While it lives, operations of this thread on `device` that benefit from it run in bfloat16, as PyTorch's
/// autocast decides.
///
/// The bf16 copies of weights are kept until the guard is dropped, so one guard spans one forward pass.
#[must_use = "autocast ends when the guard is dropped"]
pub struct AutocastBf16 {
    is_cuda: c_int,
    previous: i64,
}

impl AutocastBf16 {
    /// # Errors
    /// When libtorch's autocast does not know the device.
    pub fn enter(device: Device) -> Result<Self, TchError> {
        let mut guard = Self { is_cuda: c_int::from(device.is_cuda()), previous: 0 };
        // SAFETY: the pointer is that of a field which outlives the call. On failure nothing was entered and `forget`
        // keeps the guard from leaving.
        let entered = check(unsafe { tw_autocast_bf16_enter(guard.is_cuda, &mut guard.previous) });
        match entered {
            Ok(()) => Ok(guard),
            Err(error) => {
                std::mem::forget(guard);
                Err(error)
            }
        }
    }
}

impl Drop for AutocastBf16 {
    fn drop(&mut self) {
        // SAFETY: puts back what `enter` found; the two are always paired.
        let left = check(unsafe { tw_autocast_bf16_leave(self.is_cuda, self.previous) });
        debug_assert!(left.is_ok(), "autocast could not be left: {left:?}");
    }
}

/// While it lives, operations of this thread on the CPU run in the type of their arguments, also within [`AutocastBf16`].
#[must_use = "autocast comes back when the guard is dropped"]
pub struct SuspendedCpuAutocast {
    was_on: c_int,
}

impl SuspendedCpuAutocast {
    /// # Errors
    /// When libtorch refuses.
    pub fn enter() -> Result<Self, TchError> {
        let mut was_on = 0;
        // SAFETY: the pointer is that of a local number, which outlives the call.
        check(unsafe { tw_autocast_cpu_suspend(&mut was_on) })?;
        Ok(Self { was_on })
    }
}

impl Drop for SuspendedCpuAutocast {
    fn drop(&mut self) {
        // SAFETY: puts back what `enter` found; the two are always paired.
        let resumed = check(unsafe { tw_autocast_cpu_resume(self.was_on) });
        debug_assert!(resumed.is_ok(), "autocast could not be resumed: {resumed:?}");
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    };

    use super::*;

    fn leaf() -> Tensor {
        Tensor::from_slice(&[1.0_f32, 2.0]).set_requires_grad(true)
    }

    #[test]
    fn a_hook_hears_of_every_addition_until_its_guard_goes() {
        let (parameter, other, calls) = (leaf(), leaf(), Arc::new(AtomicU32::new(0)));
        let hook = GradientHook::new(&parameter, {
            let calls = Arc::clone(&calls);
            move |parameter| {
                assert_eq!(parameter.grad().size(), [2], "the gradient is there");
                calls.fetch_add(1, Ordering::Relaxed);
                Ok(())
            }
        })
        .unwrap();
        let both = || (&parameter * &parameter + &other).sum(tch::Kind::Float);
        let heard = || calls.load(Ordering::Relaxed);
        backward(&both(), &[]).unwrap();
        assert_eq!(heard(), 1, "both uses are added at once");
        backward(&both(), &[parameter.shallow_clone()]).unwrap();
        assert_eq!(heard(), 2, "it is named");
        backward(&both(), &[other.shallow_clone()]).unwrap();
        assert_eq!(heard(), 2, "another one is named");
        assert!(GradientHook::new(&parameter, |_| Ok(())).is_err(), "there is one");
        drop(hook);
        backward(&both(), &[]).unwrap();
        assert_eq!((heard(), Arc::strong_count(&calls)), (2, 1));
    }

    #[test]
    fn what_a_hook_reports_comes_out_of_the_backward_pass_and_a_panic_too() {
        let parameter = leaf();
        let words = |hook: fn(&Tensor) -> Result<(), TchError>| {
            let _hook = GradientHook::new(&parameter, hook).unwrap();
            backward(&parameter.sum(tch::Kind::Float), &[]).unwrap_err().to_string()
        };
        assert_eq!(
            words(|_| Err(TchError::Torch("the link is gone".into()))),
            "Internal torch error: the link is gone"
        );
        assert_eq!(words(|_| panic!("lost")), "Internal torch error: lost");
    }

    #[test]
    fn what_others_have_still_to_read_is_not_left_as_a_gradient() {
        let (taken, other) = (leaf(), leaf());
        let _unshared = UnsharedGradient::new(&taken).unwrap();
        // The first user of the gradient overwrites it.
        let _hook = GradientHook::new(&taken, |taken| taken.grad().f_fill_(7.0).map(drop)).unwrap();
        // In this order the backward pass reaches `taken` first. The sum has one gradient for both.
        let tripled = (&other * 3.0).view([1, 2]);
        let loss = (tripled + taken.view([1, 2])).square().sum(tch::Kind::Float);
        backward(&loss, &[]).unwrap();
        let numbers = |tensor: Tensor| Vec::<f32>::try_from(tensor).unwrap();
        assert_eq!(numbers(taken.grad()), [7.0, 7.0]);
        assert_eq!(numbers(other.grad()), [24.0, 48.0], "three times twice the sums, which are 4 and 8");
    }

    #[test]
    fn a_gradient_moves_to_its_place_and_grows_there() {
        let (parameter, place) = (leaf(), Tensor::from_slice(&[7.0_f32, 7.0]));
        let pass = || backward(&(&parameter * 3.0).sum(tch::Kind::Float), &[]).unwrap();
        pass();
        keep_gradient_in(&parameter, &place).unwrap();
        pass();
        keep_gradient_in(&parameter, &place).unwrap();
        assert_eq!((place.double_value(&[0]), parameter.grad().data_ptr()), (6.0, place.data_ptr()));
        clear_gradients(&[parameter.shallow_clone()]).unwrap();
        keep_gradient_in(&parameter, &place).unwrap();
        assert_eq!(parameter.grad().double_value(&[1]), 6.0, "without a gradient the place is left as it is");
    }
}
