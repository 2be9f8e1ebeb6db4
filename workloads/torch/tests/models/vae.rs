//! The variational autoencoder against single operations.

use tch::{Kind, Tensor};
use torch_worker::workload;

use crate::{
    operations::{State, assert_same_training, draw, linear},
    support::{batch, build, catalog, state},
};

/// The bias of the layer that gives the logarithms of variances, and no weight.
fn set_log_variance(state: &State, value: f64) {
    tch::no_grad(|| {
        let _ = state["fc22.weight"].shallow_clone().zero_();
        let _ = state["fc22.bias"].shallow_clone().fill_(value);
    });
}

/// The loss where every number drawn is its distribution's mean, for lack of variance.
fn loss_without_noise(state: &State, batch: &workload::Batch) -> Tensor {
    let images = batch.inputs.flatten(1, -1);
    let hidden = linear(state, "fc1", &images).relu();
    let (mean, log_variance) = (linear(state, "fc21", &hidden), linear(state, "fc22", &hidden));
    let probability = linear(state, "fc4", &linear(state, "fc3", &mean).relu()).sigmoid();
    let not = |share: &Tensor| -> Tensor { 1.0 - share };
    let entropy = -(&images * probability.log() + not(&images) * not(&probability).log());
    let distance: Tensor = -0.5 * (1.0 + &log_variance - mean.square() - log_variance.exp());
    (entropy.sum(Kind::Float) + distance.sum(Kind::Float)) / images.size()[0] as f64
}

#[test]
fn vae_equals_single_operations() {
    let workload = catalog("vae");
    let (model, batch) = (build(&workload), batch(&workload, 4));
    let state = state(model.as_ref());
    draw(&state);
    set_log_variance(&state, -60.0);
    assert_same_training(&state, &model.loss(0, &batch).unwrap(), &loss_without_noise(&state, &batch), 1e-4);
}

#[test]
fn numbers_are_drawn_with_the_variance_that_the_encoder_gives() {
    let workload = catalog("vae");
    let (model, batch) = (build(&workload), batch(&workload, 256));
    let state = state(model.as_ref());
    // A decoder whose only pixel that is not black shows the sum of all numbers.
    tch::no_grad(|| {
        let set = |name: &str, value: f64| {
            let _ = state[name].shallow_clone().fill_(value);
        };
        for name in ["fc3.weight", "fc4.weight", "fc21.weight", "fc21.bias", "fc4.bias"] {
            set(name, 0.0);
        }
        // Far above zero the ReLU is the identity.
        set("fc3.bias", 100.0);
        let _ = state["fc3.weight"].get(0).fill_(1.0);
        let _ = state["fc4.weight"].get(0).get(0).fill_(1.0);
        let _ = state["fc4.bias"].get(0).fill_(-100.0);
    });
    let entropy_of_the_pixel = |log_variance: f64| {
        set_log_variance(&state, log_variance);
        let blank = workload::Batch { inputs: &batch.inputs * 0.0, targets: &batch.targets * 0.0 };
        let rest = 783.0 * 2.0_f64.ln() + 10.0 * (log_variance.exp() - 1.0 - log_variance);
        model.loss(0, &blank).unwrap().double_value(&[]) - rest
    };
    // The logit has 20 times the variance of a number: its mean softplus is ln 2 + 20 v / 8 for little variance, and half the
    // mean of its absolute value, sqrt(20 v / 2 pi), for much of it.
    assert!((entropy_of_the_pixel(-60.0) - 2.0_f64.ln()).abs() < 1e-2);
    let expected = (20.0 * 4.0_f64.exp() / std::f64::consts::TAU).sqrt();
    let entropy = entropy_of_the_pixel(4.0);
    assert!((entropy / expected - 1.0).abs() < 0.3, "{entropy} for {expected}");
}
