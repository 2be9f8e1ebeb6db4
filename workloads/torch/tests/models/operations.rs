//! Layers written out in single operations, and what a loss says of every parameter.

use std::collections::BTreeMap;

use fastrand::Rng;
use tch::Tensor;
use torch_worker::shim::autograd::backward;

use crate::support::difference;

/// A model's tensors by name.
pub(crate) type State = BTreeMap<String, Tensor>;

/// A convolution as a matrix product of the weights with all the patches of the images.
pub(crate) fn convolution(
    state: &State,
    name: &str,
    images: &Tensor,
    stride: [i64; 2],
    padding: [i64; 2],
) -> Tensor {
    let (weight, bias) = (&state[&format!("{name}.weight")], &state[&format!("{name}.bias")]);
    let size = weight.size();
    let side =
        |axis: usize| (images.size()[2 + axis] + 2 * padding[axis] - size[2 + axis]) / stride[axis] + 1;
    let patches = images.im2col([size[2], size[3]], [1, 1], padding, stride);
    let outputs = weight.reshape([size[0], -1]).matmul(&patches) + bias.view([-1, 1]);
    outputs.view([images.size()[0], size[0], side(0), side(1)])
}

/// Over all dimensions but the second, with this batch's own mean and variance.
pub(crate) fn batch_norm(state: &State, name: &str, x: &Tensor) -> Tensor {
    let dimensions: Vec<i64> = (0..x.dim() as i64).filter(|&dimension| dimension != 1).collect();
    let shape: Vec<i64> = (0..x.dim()).map(|dimension| if dimension == 1 { -1 } else { 1 }).collect();
    let of = |part: &str| state[&format!("{name}.{part}")].view(&shape[..]);
    let centred = x - x.mean_dim(&dimensions[..], true, None);
    let variance = centred.square().mean_dim(&dimensions[..], true, None);
    centred / (variance + 1e-5).sqrt() * of("weight") + of("bias")
}

/// Over the last dimension.
pub(crate) fn layer_norm(state: &State, name: &str, x: &Tensor, epsilon: f64) -> Tensor {
    let centred = x - x.mean_dim([-1].as_slice(), true, None);
    let variance = centred.square().mean_dim([-1].as_slice(), true, None);
    let of = |part: &str| &state[&format!("{name}.{part}")];
    centred / (variance + epsilon).sqrt() * of("weight") + of("bias")
}

/// `y = x W^T + b` over the last dimension.
pub(crate) fn linear(state: &State, name: &str, x: &Tensor) -> Tensor {
    x.matmul(&state[&format!("{name}.weight")].tr()) + &state[&format!("{name}.bias")]
}

/// The gradients of `loss` by parameter, which then are cleared.
pub(crate) fn gradients(state: &State, loss: &Tensor) -> State {
    backward(loss, &[]).unwrap();
    let trained = state.iter().filter(|(_, tensor)| tensor.requires_grad() && tensor.grad().defined());
    let gradients = trained.map(|(name, tensor)| (name.clone(), tensor.grad().copy())).collect();
    state
        .values()
        .filter(|tensor| tensor.requires_grad())
        .for_each(|tensor| tensor.shallow_clone().zero_grad());
    gradients
}

/// Two losses are equal up to rounding, and so are their gradients, as [`assert_same_gradients`] has it.
pub(crate) fn assert_same_training(state: &State, loss: &Tensor, expected: &Tensor, tolerance: f64) {
    assert!(difference(&loss.detach(), &expected.detach()) < 1e-5, "{loss} for {expected}");
    let (ours, reference) = (gradients(state, loss), gradients(state, expected));
    assert_same_gradients(&ours, &reference, tolerance);
}

/// Gradients are those expected up to `tolerance`, a part of each one's largest. Those that are nothing but rounding, as of
/// a bias before a batch norm, need only be as small.
pub(crate) fn assert_same_gradients(ours: &State, expected: &State, tolerance: f64) {
    assert!(ours.keys().eq(expected.keys()), "the same parameters take part");
    let largest = |tensor: &Tensor| tensor.abs().max().double_value(&[]);
    let scale = expected.values().map(largest).fold(0.0, f64::max);
    for (name, expected) in expected {
        let apart = largest(&(&ours[name] - expected));
        let allowed = tolerance * largest(expected).max(1e-2 * scale);
        assert!(apart < allowed, "{name}: {apart} of {}", largest(expected));
    }
}

/// Gives every parameter other values, the same in each run: no scale is one and no bias zero, where a mistake would not
/// show.
pub(crate) fn draw(state: &State) {
    let rng = &mut Rng::with_seed(1);
    tch::no_grad(|| {
        for (name, tensor) in state.iter().filter(|(_, tensor)| tensor.requires_grad()) {
            let (middle, spread) = match tensor.size()[..] {
                [_] if name.ends_with("weight") => (1.0, 0.4),
                [_] => (0.0, 0.4),
                [_, ref inputs @ ..] => (0.0, 12.0 / inputs.iter().product::<i64>() as f32),
                [] => unreachable!("no parameter is a number"),
            };
            let values: Vec<f32> =
                (0..tensor.numel()).map(|_| middle + spread.sqrt() * (rng.f32() - 0.5)).collect();
            tensor.shallow_clone().copy_(&Tensor::from_slice(&values).view_as(tensor));
        }
    });
}
