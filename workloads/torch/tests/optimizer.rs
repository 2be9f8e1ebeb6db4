//! Our optimizers against tch's own and against the formulas.

use schema::catalog;
use tch::{
    Device, Kind, Tensor,
    nn::{self, OptimizerConfig, VarStore},
};
use torch_worker::{
    nn::channels_last,
    optimizer::{GradientNorm, Home, Optimizer},
    shim::autograd::backward,
};

const STEPS: usize = 5;

/// Starting values and targets of two parameters; the loss pulls each towards its target.
///
/// No random numbers: tests run side by side in one process and would draw from the same generator.
fn problem() -> Vec<(Tensor, Tensor)> {
    let values = |shape: &[i64], step: f64| {
        let count = shape.iter().product::<i64>();
        (Tensor::arange(count, (Kind::Float, Device::Cpu)) * step).sin().view(shape)
    };
    [&[17, 5][..], &[3]].map(|shape| (values(shape, 0.7), values(shape, 1.3) + 0.5)).into()
}

fn loss(parameters: &[Tensor], targets: &[Tensor]) -> Tensor {
    let squares =
        parameters.iter().zip(targets).map(|(parameter, target)| (parameter - target).square().sum(None));
    squares.sum()
}

fn of(settings: catalog::Optimizer, parameters: &[Tensor]) -> Optimizer {
    let handles = parameters.iter().map(Tensor::shallow_clone).collect();
    Optimizer::new(settings, handles, Home::Device).unwrap()
}

fn step(optimizer: &mut Optimizer) {
    optimizer.step(&mut |phase| panic!("an update on the device is one phase, and told {phase:?}")).unwrap();
    optimizer.clear_gradients().unwrap();
}

/// Where `STEPS` updates by our optimizer lead.
fn ours(settings: catalog::Optimizer) -> Vec<Tensor> {
    let (starts, targets): (Vec<_>, Vec<_>) = problem().into_iter().unzip();
    let parameters: Vec<_> = starts.iter().map(|start| start.copy().set_requires_grad(true)).collect();
    let mut optimizer = of(settings, &parameters);
    for _ in 0..STEPS {
        backward(&loss(&parameters, &targets), &[]).unwrap();
        step(&mut optimizer);
        assert!(
            parameters.iter().all(|parameter| !parameter.grad().defined()),
            "gradients are freed, not zeroed"
        );
    }
    parameters.iter().map(Tensor::detach).collect()
}

/// Where `STEPS` updates by tch's optimizer lead.
fn theirs(mut build: impl FnMut(&VarStore) -> nn::Optimizer) -> Vec<Tensor> {
    let (starts, targets): (Vec<_>, Vec<_>) = problem().into_iter().unzip();
    let store = VarStore::new(Device::Cpu);
    let parameters: Vec<_> = starts
        .iter()
        .enumerate()
        .map(|(index, start)| store.root().var_copy(&index.to_string(), start))
        .collect();
    let mut optimizer = build(&store);
    for _ in 0..STEPS {
        optimizer.backward_step(&loss(&parameters, &targets));
    }
    parameters.iter().map(Tensor::detach).collect()
}

fn assert_close(ours: &[Tensor], theirs: &[Tensor]) {
    for (ours, theirs) in ours.iter().zip(theirs) {
        let difference = (ours - theirs).abs().max().double_value(&[]);
        assert!(difference < 2e-6, "they differ by {difference}");
    }
}

#[test]
fn sgd_with_momentum_is_torchs() {
    let ours = ours(catalog::Optimizer::Sgd { learning_rate: 0.05, momentum: 0.9, weight_decay: 0.01 });
    let sgd = nn::Sgd { momentum: 0.9, dampening: 0.0, wd: 0.01, nesterov: false };
    assert_close(&ours, &theirs(|store| sgd.build(store, 0.05).unwrap()));
}

#[test]
fn plain_sgd_is_the_formula() {
    let ours = ours(catalog::Optimizer::Sgd { learning_rate: 0.05, momentum: 0.0, weight_decay: 0.0 });
    // p - t shrinks by the factor 1 - 2 * 0.05 with every update.
    let formula: Vec<_> = problem()
        .into_iter()
        .map(|(start, target)| &target + (start - &target) * 0.9_f64.powi(STEPS as i32))
        .collect();
    assert_close(&ours, &formula);
}

#[test]
fn adam_and_adamw_are_torchs_and_differ_in_their_weight_decay() {
    let (learning_rate, beta1, beta2, epsilon, weight_decay) = (0.01, 0.9, 0.99, 1e-8, 0.1);
    let adam = ours(catalog::Optimizer::Adam { learning_rate, beta1, beta2, epsilon, weight_decay });
    let adamw = ours(catalog::Optimizer::Adamw { learning_rate, beta1, beta2, epsilon, weight_decay });
    let coupled = nn::Adam { beta1, beta2, wd: weight_decay, eps: epsilon, amsgrad: false };
    let decoupled = nn::AdamW { beta1, beta2, wd: weight_decay, eps: epsilon, amsgrad: false };
    assert_close(&adam, &theirs(|store| coupled.build(store, learning_rate).unwrap()));
    assert_close(&adamw, &theirs(|store| decoupled.build(store, learning_rate).unwrap()));
    assert!((&adam[0] - &adamw[0]).abs().max().double_value(&[]) > 1e-4);
}

#[test]
fn weights_of_convolutions_move_alike_in_every_layout_of_them_and_their_gradients() {
    let start = (Tensor::arange(2 * 3 * 4 * 5, (Kind::Float, Device::Cpu)) * 0.7).sin().view([2, 3, 4, 5]);
    let slope = (Tensor::arange(2 * 3 * 4 * 5, (Kind::Float, Device::Cpu)) * 1.3).cos().view([2, 3, 4, 5]);
    let moved = |parameter: Tensor, slope: Tensor| {
        let parameter = parameter.set_requires_grad(true);
        let settings = catalog::Optimizer::Sgd { learning_rate: 0.5, momentum: 0.9, weight_decay: 0.1 };
        let mut optimizer = of(settings, &[parameter.shallow_clone()]);
        for _ in 0..3 {
            backward(&(&parameter * &slope).sum(None), &[]).unwrap();
            step(&mut optimizer);
        }
        parameter.detach()
    };
    let last = |tensor: &Tensor| channels_last(tensor).unwrap();
    let plain = moved(start.copy(), slope.copy());
    assert_eq!(last(&start).stride(), [60, 1, 15, 3]);
    assert_eq!(moved(last(&start), last(&slope)), plain);
    assert_eq!(moved(last(&start), slope.copy()), plain);
    assert_eq!(moved(start.copy(), last(&slope)), plain);
}

#[test]
fn a_parameter_without_a_gradient_stays() {
    let (starts, _): (Vec<_>, Vec<_>) = problem().into_iter().unzip();
    let parameters: Vec<_> = starts.iter().map(|start| start.copy().set_requires_grad(true)).collect();
    let settings = catalog::Optimizer::Adam {
        learning_rate: 0.1,
        beta1: 0.9,
        beta2: 0.99,
        epsilon: 1e-8,
        weight_decay: 0.1,
    };
    let mut optimizer = of(settings, &parameters);
    backward(&parameters[0].sum(None), &[]).unwrap();
    step(&mut optimizer);
    assert_ne!(parameters[0].detach(), starts[0]);
    assert_eq!(parameters[1].detach(), starts[1]);
}

#[test]
fn gradients_are_scaled_down_to_the_largest_norm_and_never_up() {
    let settings = catalog::Optimizer::Sgd { learning_rate: 1.0, momentum: 0.0, weight_decay: 0.0 };
    // The gradients 2 and -1 in all four places of each parameter have a norm of sqrt(4 * 4 + 4 * 1).
    let norm = 20.0_f64.sqrt();
    for (norm_max, scale) in [(0.5, 0.5 / norm), (2.0 * norm, 1.0)] {
        let parameters: Vec<_> =
            (0..3).map(|_| Tensor::zeros([4], (Kind::Float, Device::Cpu)).set_requires_grad(true)).collect();
        let mut optimizer = of(settings, &parameters);
        // The third has no gradient.
        backward(&(parameters[0].sum(None) * 2.0 - parameters[1].sum(None)), &[]).unwrap();
        optimizer.clip_gradients(norm_max, &GradientNorm::Own).unwrap();
        step(&mut optimizer);
        for (parameter, gradient) in parameters.iter().zip([2.0, -1.0, 0.0]) {
            let expected = Tensor::full([4], -gradient * scale, (Kind::Float, Device::Cpu));
            assert!(parameter.detach().allclose(&expected, 1e-5, 1e-6, false), "{gradient} with {norm_max}");
        }
    }
}
