//! Proximal policy optimisation against single operations, and whether it learns to balance.

use tch::{Device, Kind, Tensor};
use torch_worker::{
    data,
    environments::CartPole,
    step::{Execution, Trainer},
    workload::Batch,
};

use crate::{
    operations::{State, assert_same_training, draw, linear},
    support::{batch_of, build, catalog, difference, is_slow_run, state, take_step},
};

/// A network of two hidden layers once more, in products and sums.
fn network(state: &State, observations: &Tensor, layers: [&str; 3]) -> Tensor {
    let linear = |x: &Tensor, name: &str| linear(state, name, x);
    let [first, second, last] = layers;
    linear(&linear(&linear(observations, first).tanh(), second).tanh(), last)
}

const POLICY: [&str; 3] = ["mlp_extractor.policy_net.0", "mlp_extractor.policy_net.2", "action_net"];
const VALUE: [&str; 3] = ["mlp_extractor.value_net.0", "mlp_extractor.value_net.2", "value_net"];

/// The loss as a mean over samples of cases: the objective is flat where the ratio has left the clip range on the side
/// to which its advantage draws it.
fn expected_loss(state: &State, batch: &Batch) -> Tensor {
    let column = |index: i64| batch.targets.select(1, index);
    let (actions, old, advantages, returns) = (column(0), column(1), column(2), column(3));
    let logits = network(state, &batch.inputs, POLICY);
    // Of two actions the second has the probability of a logistic function.
    let difference = logits.select(1, 1) - logits.select(1, 0);
    let log_probabilities = (difference * (actions * 2.0 - 1.0)).log_sigmoid();
    let ratios = (log_probabilities - old).exp();
    let advantages = (&advantages - advantages.mean(None)) / (advantages.std(true) + 1e-8);
    let above = ratios.gt(1.2).logical_and(&advantages.gt(0.0)).to_kind(Kind::Float);
    let below = ratios.lt(0.8).logical_and(&advantages.lt(0.0)).to_kind(Kind::Float);
    let [clipped_above, clipped_below] = [&above, &below].map(|mask| mask.sum(None).double_value(&[]));
    assert!(clipped_above > 0.0 && clipped_below > 0.0, "{clipped_above} and {clipped_below} are clipped");
    let inside = 1.0 - &above - &below;
    let surrogate: Tensor = (inside * ratios + above * 1.2 + below * 0.8) * advantages;
    let values = network(state, &batch.inputs, VALUE).squeeze_dim(1);
    (values - returns).square().mean(None) * 0.5 - surrogate.mean(None)
}

#[test]
fn ppo_equals_single_operations() {
    let workload = catalog("ppo-cartpole");
    let model = build(&workload);
    let state = state(model.as_ref());
    // Initial weights differ from run to run, because other tests draw from PyTorch's generator at the same time.
    draw(&state);
    let batch = batch_of(model.as_ref(), &workload, 256);
    // The policy that learns is no longer the policy that acted.
    tch::no_grad(|| {
        for tensor in state.values() {
            let waves = (Tensor::arange(tensor.numel() as i64, tch::kind::FLOAT_CPU) * 1.7).sin() * 0.3;
            let _ = tensor.shallow_clone().g_add_(&waves.view_as(tensor));
        }
    });
    let expected = expected_loss(&state, &batch);
    assert_same_training(&state, &model.loss(0, &batch).unwrap(), &expected, 1e-4);
}

#[test]
fn initial_weights_are_orthogonal_with_the_gains_of_stable_baselines() {
    let state = state(build(&catalog("ppo-cartpole")).as_ref());
    let sqrt_2 = std::f64::consts::SQRT_2;
    for (name, gain) in [(POLICY[1], sqrt_2), (VALUE[1], sqrt_2), (POLICY[2], 0.01), (VALUE[2], 1.0)] {
        let weight = &state[&format!("{name}.weight")];
        let expected = Tensor::eye(weight.size()[0], (Kind::Float, Device::Cpu)) * gain * gain;
        assert!(difference(&weight.matmul(&weight.tr()), &expected) < 1e-4, "{name}");
    }
}

/// The mean length of episodes in which the likelier action is always taken.
fn mean_episode(state: &State) -> f64 {
    const EPISODES: u32 = 20;
    let mut rng = fastrand::Rng::with_seed(99);
    let mut pushes = 0;
    for _ in 0..EPISODES {
        let mut environment = CartPole::random(&mut rng);
        loop {
            let observation = Tensor::from_slice(&environment.observation()).unsqueeze(0);
            let action = network(state, &observation, POLICY).argmax(1, false).int64_value(&[0]);
            pushes += 1;
            if environment.step(action as usize).ended() {
                break;
            }
        }
    }
    f64::from(pushes) / f64::from(EPISODES)
}

#[test]
fn ppo_learns_to_balance_the_pole() {
    if !is_slow_run("to balance a pole") {
        return;
    }
    tch::set_num_threads(1);
    tch::manual_seed(1);
    let workload = catalog("ppo-cartpole");
    let model = build(&workload);
    let state = state(model.as_ref());
    let samples = data::of(model.as_ref(), workload.model.samples(), None, 1, Device::Cpu).unwrap();
    let execution = Execution::plain(Device::Cpu, workload.global_batch as usize);
    let before = tch::no_grad(|| mean_episode(&state));
    let mut trainer = Trainer::new(model, samples, execution).unwrap();
    // 20,480 interactions.
    for _ in 0..3200 {
        take_step(&mut trainer);
    }
    let after = tch::no_grad(|| mean_episode(&state));
    println!("episodes of {before} pushes became {after}");
    assert!(before < 100.0 && after > 150.0, "{before} became {after}");
}
