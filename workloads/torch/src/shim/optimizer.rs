//! PyTorch's fused optimizer kernels on explicit state tensors, with one call per update.
//!
//! tch's optimizers hide their state and loop over tensors. Here the state can be saved, partitioned and
//! moved.

use std::ffi::c_int;

use tch::{TchError, Tensor};
use torch_sys::C_tensor;

use super::{check, handles};

unsafe extern "C" {
    fn tw_fused_sgd(
        count: usize,
        parameters: *const *const C_tensor,
        gradients: *const *const C_tensor,
        momenta: *const *const C_tensor,
        learning_rate: f64,
        momentum: f64,
        weight_decay: f64,
    ) -> c_int;
    fn tw_fused_adam(
        count: usize,
        parameters: *const *const C_tensor,
        gradients: *const *const C_tensor,
        averages: *const *const C_tensor,
        squares: *const *const C_tensor,
        step: *const C_tensor,
        learning_rate: f64,
        beta1: f64,
        beta2: f64,
        epsilon: f64,
        weight_decay: f64,
        decoupled: c_int,
    ) -> c_int;
}

/// The constants of Adam (Kingma and Ba, ICLR 2015) and AdamW (Loshchilov and Hutter, ICLR 2019).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Adam {
    pub learning_rate: f64,
    pub beta1: f64,
    pub beta2: f64,
    pub epsilon: f64,
    pub weight_decay: f64,
    /// `true`: weight decay shrinks the parameter itself (AdamW); `false`: it is added to the gradient (Adam).
    pub decoupled: bool,
}

/// One update of the parameters that have a gradient, as by `torch.optim.SGD` with no dampening.
///
/// `gradients` holds a tensor for each parameter, undefined where there is none; without it each parameter has its own.
/// `momenta` holds a tensor for each parameter, zeros before the first update; it is empty when `momentum` is 0.
///
/// # Errors
/// When shapes, types or devices of the lists do not agree.
pub fn sgd(
    learning_rate: f64,
    momentum: f64,
    weight_decay: f64,
    parameters: &[Tensor],
    gradients: Option<&[Tensor]>,
    momenta: &[Tensor],
) -> Result<(), TchError> {
    let expected = if momentum == 0.0 { 0 } else { parameters.len() };
    assert_eq!(momenta.len(), expected, "one momentum for each parameter, or none without momentum");
    assert!(gradients.is_none_or(|gradients| gradients.len() == parameters.len()));
    let (parameter_handles, gradient_handles) = (handles(parameters), gradients.map(handles));
    let momentum_handles = (!momenta.is_empty()).then(|| handles(momenta));
    // SAFETY: all handles are borrowed for the length of the call; the lists are as long as the assertions say, and
    // null stands for a missing one.
    check(unsafe {
        tw_fused_sgd(
            parameters.len(),
            parameter_handles.as_ptr(),
            or_null(gradient_handles.as_deref()),
            or_null(momentum_handles.as_deref()),
            learning_rate,
            momentum,
            weight_decay,
        )
    })
}

/// One update of the parameters that have a gradient, as by `torch.optim.Adam` or `AdamW`.
///
/// `gradients` as in [`sgd`]. `averages` and `squares` hold a tensor for each parameter, zeros before the first update.
/// `step` is one fp32 scalar on the parameters' device that all of them share, as none ever sits out an update: the
/// number of updates, this one included.
///
/// # Errors
/// When shapes, types or devices of the lists do not agree.
pub fn adam(
    constants: &Adam,
    parameters: &[Tensor],
    gradients: Option<&[Tensor]>,
    averages: &[Tensor],
    squares: &[Tensor],
    step: &Tensor,
) -> Result<(), TchError> {
    assert!(averages.len() == parameters.len() && squares.len() == parameters.len());
    assert!(gradients.is_none_or(|gradients| gradients.len() == parameters.len()));
    let (parameter_handles, gradient_handles) = (handles(parameters), gradients.map(handles));
    let (average_handles, square_handles) = (handles(averages), handles(squares));
    // SAFETY: all handles are borrowed for the length of the call; the lists are as long as the assertions say, and
    // null stands for a missing one.
    check(unsafe {
        tw_fused_adam(
            parameters.len(),
            parameter_handles.as_ptr(),
            or_null(gradient_handles.as_deref()),
            average_handles.as_ptr(),
            square_handles.as_ptr(),
            step.as_ptr(),
            constants.learning_rate,
            constants.beta1,
            constants.beta2,
            constants.epsilon,
            constants.weight_decay,
            c_int::from(constants.decoupled),
        )
    })
}

fn or_null(handles: Option<&[*const C_tensor]>) -> *const *const C_tensor {
    handles.map_or(std::ptr::null(), <[_]>::as_ptr)
}
