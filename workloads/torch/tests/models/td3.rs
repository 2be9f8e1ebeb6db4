//! TD3 against single operations, and whether it learns to swing up.

use tch::{Device, Kind, Tensor};
use torch_worker::{
    data,
    environments::Pendulum,
    shim::autograd::backward,
    step::{Execution, Trainer},
    workload::{Batch, Workload},
};

use crate::{
    operations::{State, linear},
    support::{batch_of, build, catalog, difference, is_slow_run, state, take_step},
};

/// A network of two hidden layers once more, in products and sums.
fn network(state: &State, inputs: &Tensor, name: &str) -> Tensor {
    let linear = |x: &Tensor, index: u32| linear(state, &format!("{name}.{index}"), x);
    linear(&linear(&linear(inputs, 0).clamp_min(0.0), 2).clamp_min(0.0), 4)
}

/// The critics' loss and the actor's.
fn expected_losses(state: &State, batch: &Batch) -> [Tensor; 2] {
    let columns = |first, count| batch.targets.narrow(1, first, count);
    let (next, reward, goes_on, noise) = (columns(0, 3), columns(3, 1), columns(4, 1), columns(5, 1));
    let action = (network(state, &next, "actor_target.mu").tanh() + noise).clamp(-1.0, 1.0);
    let pairs = Tensor::cat(&[next, action], 1);
    let targets = ["critic_target.qf0", "critic_target.qf1"].map(|name| network(state, &pairs, name));
    let target = reward + goes_on * 0.99 * Tensor::cat(&targets, 1).amin([1], true);
    let error = |name| (network(state, &batch.inputs, name) - &target).square().mean(Kind::Float);
    let critics = error("critic.qf0") + error("critic.qf1");

    let observation = batch.inputs.narrow(1, 0, 3);
    let action = network(state, &observation, "actor.mu").tanh();
    let value = network(state, &Tensor::cat(&[observation, action], 1), "critic.qf0");
    [critics, -value.mean(Kind::Float)]
}

/// Takes `target.` out of the names of target networks.
fn leader(name: &str) -> Option<String> {
    name.contains("_target.").then(|| name.replacen("_target.", ".", 1))
}

/// Makes the target networks differ from the others, as they do in training.
fn move_targets(state: &State) {
    for (name, tensor) in state.iter().filter(|(name, _)| leader(name).is_some()) {
        let waves = (Tensor::arange(tensor.numel() as i64, tch::kind::FLOAT_CPU) * 1.7).sin() * 0.02;
        let _ = tensor.shallow_clone().g_add_(&waves.view_as(tensor));
        assert!(!tensor.requires_grad(), "{name}");
    }
}

#[test]
fn td3_equals_single_operations() {
    let workload = catalog("td3-pendulum");
    let model = build(&workload);
    let (batch, state) = (batch_of(model.as_ref(), &workload, 64), state(model.as_ref()));
    move_targets(&state);
    for (update, prefix) in ["critic.", "actor."].into_iter().enumerate() {
        let moved = model.parameters().with_prefix(prefix);
        let gradients = |loss: &Tensor| {
            backward(loss, &moved).unwrap();
            let gradients: Vec<_> = moved.iter().map(|tensor| tensor.grad().copy()).collect();
            moved.iter().for_each(|tensor| tensor.shallow_clone().zero_grad());
            gradients
        };
        let (loss, expected) =
            (model.loss(update, &batch).unwrap(), &expected_losses(&state, &batch)[update]);
        assert!(difference(&loss.detach(), &expected.detach()) < 1e-5, "{prefix}");
        for (ours, reference) in gradients(&loss).iter().zip(gradients(expected)) {
            assert!(difference(ours, &reference) < 1e-4, "{prefix}");
        }
    }
}

fn trainer(model: Box<dyn Workload>, batch: usize) -> Trainer {
    let samples =
        data::of(model.as_ref(), catalog("td3-pendulum").model.samples(), None, 1, Device::Cpu).unwrap();
    let execution = Execution {
        device: Device::Cpu,
        micro_batches: 1,
        micro_batch_samples: batch,
        recompute: false,
        bf16: false,
    };
    Trainer::new(model, samples, execution).unwrap()
}

#[test]
fn targets_begin_equal_and_every_second_step_moves_them_and_the_actor() {
    let model = build(&catalog("td3-pendulum"));
    let state = state(model.as_ref());
    for (name, tensor) in &state {
        if let Some(leader) = leader(name) {
            assert_eq!(tensor, &state[&leader].detach(), "{name}");
        }
    }
    let mut trainer = trainer(model, 16);
    let values =
        || -> State { state.iter().map(|(name, tensor)| (name.clone(), tensor.detach().copy())).collect() };
    for step in 1..=4 {
        let before = values();
        take_step(&mut trainer);
        let after = values();
        for (name, tensor) in &after {
            let has_moved = *tensor != before[name];
            assert_eq!(has_moved, step % 2 == 0 || name.starts_with("critic."), "{name} in step {step}");
            if let (Some(leader), true) = (leader(name), has_moved) {
                let expected = &before[name] * 0.995 + &after[&leader] * 0.005;
                assert!(difference(tensor, &expected) < 1e-5, "{name}");
            }
        }
    }
}

/// The mean sum of rewards of an episode, without exploration.
fn mean_return(state: &State) -> f64 {
    const EPISODES: u32 = 10;
    let mut rng = fastrand::Rng::with_seed(99);
    let mut sum = 0.0;
    for _ in 0..EPISODES {
        let mut environment = Pendulum::random(&mut rng);
        loop {
            let observation = Tensor::from_slice(&environment.observation()).unsqueeze(0);
            let action = network(state, &observation, "actor.mu").tanh().double_value(&[0, 0]);
            let outcome = environment.step(Pendulum::TORQUE_MAX * action as f32);
            sum += f64::from(outcome.reward);
            if outcome.ended() {
                break;
            }
        }
    }
    sum / f64::from(EPISODES)
}

#[test]
fn td3_learns_to_swing_up_the_pendulum() {
    if !is_slow_run("to swing up a pendulum") {
        return;
    }
    tch::set_num_threads(1);
    tch::manual_seed(1);
    let model = build(&catalog("td3-pendulum"));
    let state = state(model.as_ref());
    let before = tch::no_grad(|| mean_return(&state));
    let mut trainer = trainer(model, 64);
    for _ in 0..7000 {
        take_step(&mut trainer);
    }
    let after = tch::no_grad(|| mean_return(&state));
    println!("returns of {before:.0} became {after:.0}");
    assert!(before < -800.0 && after > -600.0, "{before} became {after}");
}
