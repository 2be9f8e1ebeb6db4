use schema::catalog::Catalog;

use super::*;
use crate::{models::ppo, nn::parameters::Parameters, workload::Workload};

fn interaction(value: f32, reward: f32, ended: bool) -> Interaction {
    Interaction { observation: [0.0; 4], action: 0, log_probability: 0.0, value, reward, ended }
}

#[test]
fn advantages_are_the_discounted_sums_of_errors() {
    let interactions =
        [interaction(3.0, 1.0, false), interaction(2.0, 1.0, true), interaction(5.0, 1.0, false)];
    let advantages: Vec<_> = with_advantages(&interactions, 7.0).iter().map(|s| s.advantage).collect();
    let errors = [1.0 + 0.99 * 2.0 - 3.0, 1.0 - 2.0, 1.0 + 0.99 * 7.0 - 5.0];
    let expected = [errors[0] + 0.99 * 0.95 * errors[1], errors[1], errors[2]];
    for (ours, expected) in advantages.iter().zip(expected) {
        assert!((ours - expected).abs() < 1e-6, "{advantages:?} for {expected:?}");
    }
}

#[test]
fn actions_are_drawn_as_often_as_their_logits_say() {
    let logits = [1.0, 1.0 + 3.0_f32.ln()];
    assert_eq!([0.0, 0.24, 0.26, 0.99].map(|random| choose(logits, random).0), [0, 0, 1, 1]);
    assert!((choose(logits, 0.1).1 - 0.25_f32.ln()).abs() < 1e-6);
    assert!((choose(logits, 0.9).1 - 0.75_f32.ln()).abs() < 1e-6);
    let extreme = [0.0, 200.0];
    assert_eq!(choose(extreme, 0.0), (1, 0.0));
}

/// The stream of `ppo-cartpole` with rollouts of 20, and the model.
fn rollouts(epochs: usize) -> (Rollouts, ppo::Ppo) {
    let catalog = Catalog::embedded();
    let workload = catalog.get("ppo-cartpole").unwrap();
    let schema::catalog::Model::Ppo(model) = &workload.model else { unreachable!("it is PPO") };
    let model = ppo::build(model, Parameters::new(Device::Cpu), workload.optimizer).unwrap();
    let (networks, unsaved) = (Rc::clone(&model.networks), model.parameters().beside());
    (Rollouts::new(networks, unsaved, 20, epochs, 1, Device::Cpu).unwrap(), model)
}

#[test]
fn every_epoch_takes_each_sample_once_while_as_many_interactions_are_made_as_were_used_up() {
    let (mut rollouts, _model) = rollouts(2);
    let mut orders = Vec::new();
    for epoch in 1..=2 {
        let taken: Vec<Sample> = (0..20).map(|_| rollouts.take().unwrap()).collect();
        assert_eq!(rollouts.interactions.len(), 10 * epoch);
        let mut values: Vec<f32> = taken.iter().map(|sample| sample.interaction.observation[3]).collect();
        orders.push(values.clone());
        let mut all: Vec<f32> = rollouts.samples.iter().map(|s| s.interaction.observation[3]).collect();
        values.sort_by(f32::total_cmp);
        all.sort_by(f32::total_cmp);
        assert_eq!(values, all);
    }
    assert_ne!(orders[0], orders[1]);

    // The next sample is one of the rollout that was made meanwhile.
    let made: Vec<Observation> = rollouts.interactions.iter().map(|i| i.observation).collect();
    let next = rollouts.take().unwrap();
    assert!(made.contains(&next.interaction.observation));
    assert!(rollouts.interactions.is_empty());
}

#[test]
fn a_whole_rollout_is_made_by_the_policy_as_it_was_when_the_rollout_began() {
    let (mut rollouts, model) = rollouts(1);
    let logits_of = |rollouts: &Rollouts| rollouts.judge([0.1, 0.2, 0.3, 0.4]).unwrap();
    let before = logits_of(&rollouts);
    rollouts.next(5).unwrap();
    tch::no_grad(|| {
        for mut parameter in model.parameters().with_prefix("action_net") {
            let _ = parameter.g_add_scalar_(0.5).g_mul_scalar_(3.0);
        }
    });
    rollouts.next(15).unwrap();
    assert_eq!(logits_of(&rollouts), before, "what learns has changed, what acts has not");
    rollouts.next(1).unwrap();
    assert_ne!(logits_of(&rollouts), before);
}

#[test]
fn a_stream_that_is_set_to_the_state_of_another_one_gives_the_same_samples() {
    // Within a rollout, at its end, and with interactions of the next one.
    for before in [1, 13, 20, 33, 40, 47] {
        let (mut first, model) = rollouts(2);
        first.next(before).unwrap();
        tch::no_grad(|| {
            for mut parameter in model.parameters().with_prefix("") {
                let _ = parameter.g_add_scalar_(0.25);
            }
        });
        first.next(2).unwrap();
        let (mut second, other) = rollouts(2);
        second.next(5).unwrap();
        tch::no_grad(|| {
            let pairs = other.parameters().state().zip(model.parameters().state());
            pairs.for_each(|(to, from)| to.tensor().shallow_clone().copy_(from.tensor()));
        });
        second.seek(first.position().unwrap()).unwrap();
        second.set_state(&first.state().unwrap()).unwrap();
        assert_eq!(second.position(), Some(before as u64 + 2));
        for _ in 0..10 {
            let [one, other] = [&mut first, &mut second].map(|stream| stream.next(7).unwrap());
            assert_eq!((one.inputs, one.targets), (other.inputs, other.targets), "after {before}");
        }
        assert_eq!(first.samples, second.samples);
    }
    let (mut stream, _model) = rollouts(2);
    let absent = stream.set_state(&StreamState::default()).unwrap_err().to_string();
    assert_eq!(absent, "the state of the data has no 'pushes'");
}
