//! Twin delayed DDPG (Fujimoto, van Hoof and Meger, ICML 2018) in Pendulum-v1, with the networks, names and default
//! settings of Stable-Baselines3: a step is one update of the critics after one interaction, and every second step also
//! moves the actor and the target networks.

mod replay;

use std::{cell::Cell, rc::Rc};

use schema::catalog::{self, Optimizer};
use tch::{Device, TchError, Tensor};

use self::replay::{Outcomes, Replay};
use crate::{
    environments::Pendulum,
    nn::{
        loss::mean_squared_error,
        parameters::{Parameters, Scope},
        perceptron::Perceptron,
        precision::at_least_fp32,
        relu_in_place,
    },
    workload::{Batch, Block, DataStream, Update, Workload},
};

/// All six networks. A batch holds observations and actions, and their outcomes.
pub(super) struct Td3 {
    parameters: Parameters,
    actor: Rc<Actor>,
    actor_target: Actor,
    critics: [Perceptron; 2],
    critic_targets: [Perceptron; 2],
    policy_delay: u64,
    /// Transitions that are kept, and those made before the first step.
    replay: usize,
    random: usize,
    updates: [Update; 2],
    /// Updates of the critics so far, which the stream also counts its interactions by.
    critic_updates: Rc<Cell<u64>>,
}

/// Gives actions from -1 to 1.
struct Actor(Perceptron);

impl Block for Actor {
    fn forward(&self, observations: &Tensor) -> Result<Tensor, TchError> {
        self.0.forward(observations)?.f_tanh_()
    }
}

/// Number of the critics' update; the actor's comes after it.
const CRITICS: usize = 0;
const CRITIC_NAMES: [&str; 2] = ["qf0", "qf1"];

/// # Errors
/// Out of memory.
pub(super) fn build(
    model: &catalog::Td3,
    mut parameters: Parameters,
    optimizer: Optimizer,
) -> Result<Td3, TchError> {
    let catalog::Td3 { hidden, replay, random, policy_delay } = model;
    const OBSERVATION: i64 = Pendulum::OBSERVATION as i64;
    const ACTION: i64 = Pendulum::ACTION as i64;
    let network = |scope: Scope<'_>, inputs: i64, outputs: i64| {
        let mut widths = vec![inputs];
        widths.extend(hidden.iter().copied().map(i64::from));
        widths.push(outputs);
        Perceptron::sequential(scope, &widths, relu_in_place)
    };
    let mut root = parameters.root();
    let actor = network(root.part("actor").part("mu"), OBSERVATION, ACTION)?;
    let actor_target = actor.frozen(root.part("actor_target").part("mu"))?;
    let [first, second] = CRITIC_NAMES;
    let mut critic = |name: &str| network(root.part("critic").part(name), OBSERVATION + ACTION, 1);
    let critics = [critic(first)?, critic(second)?];
    let mut target = |name: &str, critic: &Perceptron| critic.frozen(root.part("critic_target").part(name));
    let critic_targets = [target(first, &critics[0])?, target(second, &critics[1])?];
    let update = |name, parameter_prefix| Update { name, parameter_prefix, optimizer };
    Ok(Td3 {
        parameters,
        actor: Rc::new(Actor(actor)),
        actor_target: Actor(actor_target),
        critics,
        critic_targets,
        policy_delay: u64::from(*policy_delay),
        replay: *replay as usize,
        random: *random as usize,
        updates: [update("critics", "critic."), update("actor", "actor.")],
        critic_updates: Rc::new(Cell::new(0)),
    })
}

impl Td3 {
    /// Both critics against what the smaller one of their targets expects to follow (equations 10 and 14 of the paper).
    fn critic_loss(&self, batch: &Batch) -> Result<Tensor, TchError> {
        const DISCOUNT: f64 = 0.99;
        let Outcomes { observations, rewards, goes_on, noise } = Outcomes::of(&batch.targets)?;
        let target = tch::no_grad(|| -> Result<Tensor, TchError> {
            let actions = self.actor_target.forward(&observations)?.f_add(&noise)?.f_clamp(-1.0, 1.0)?;
            let pairs = Tensor::f_cat(&[&observations, &actions], 1)?;
            let [first, second] = &self.critic_targets;
            let smaller = first.forward(&pairs)?.f_minimum(&second.forward(&pairs)?)?;
            at_least_fp32(&smaller)?.f_mul(&goes_on)?.f_mul_scalar(DISCOUNT)?.f_add(&rewards)
        })?;
        let loss = |critic: &Perceptron| mean_squared_error(&critic.forward(&batch.inputs)?, &target);
        let [first, second] = &self.critics;
        loss(first)?.f_add(&loss(second)?)
    }

    /// The actor should do what the first critic values most.
    fn actor_loss(&self, batch: &Batch) -> Result<Tensor, TchError> {
        let observations = batch.inputs.f_narrow(1, 0, Pendulum::OBSERVATION as i64)?;
        let pairs = Tensor::f_cat(&[&observations, &self.actor.forward(&observations)?], 1)?;
        at_least_fp32(&self.critics[0].forward(&pairs)?)?.f_mean(None)?.f_neg()
    }
}

impl Workload for Td3 {
    fn parameters(&self) -> &Parameters {
        &self.parameters
    }

    fn updates(&self) -> &[Update] {
        &self.updates
    }

    fn loss(&self, update: usize, batch: &Batch) -> Result<Tensor, TchError> {
        if update == CRITICS { self.critic_loss(batch) } else { self.actor_loss(batch) }
    }

    /// The critics' update runs three targets, one of them an actor's, and learns with both critics; the actor's runs
    /// the actor and one critic, whose weights stand still.
    fn step_operations(&self, forward: &[u64]) -> u64 {
        let &[critics, both] = forward else { unreachable!("there are two updates") };
        let critic = (critics - both) / 3;
        let actor = both - critic;
        (actor + 2 * critic) + 6 * critic + (3 * actor + 2 * critic) / self.policy_delay
    }

    fn is_due(&self, update: usize) -> bool {
        update == CRITICS || self.critic_updates.get().is_multiple_of(self.policy_delay)
    }

    /// Target networks follow the others when the actor has moved.
    fn after_update(&self, update: usize) -> Result<(), TchError> {
        const SHARE: f64 = 0.005;
        if update == CRITICS {
            self.critic_updates.update(|count| count + 1);
            return Ok(());
        }
        for (target, critic) in self.critic_targets.iter().zip(&self.critics) {
            target.follow(critic, SHARE)?;
        }
        self.actor_target.0.follow(&self.actor.0, SHARE)
    }

    fn experience(&self, seed: u64, device: Device) -> anyhow::Result<Option<Box<dyn DataStream>>> {
        let (actor, clock) = (Rc::clone(&self.actor), Rc::clone(&self.critic_updates));
        Ok(Some(Box::new(Replay::new(actor, clock, self.replay, self.random, seed, device))))
    }
}
