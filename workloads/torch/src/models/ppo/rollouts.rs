//! What PPO learns from: interactions of one fixed policy, a rollout, taken in a new order in each epoch.
//!
//! Stable-Baselines3 stands still for a whole rollout of 2048 interactions and then makes 320 updates. A step here is one
//! update, so one step in 320 would last as long as a hundred others, and what a launch of fifty steps shows would depend
//! on whether that one is among them. Therefore the rollout that will be learnt from next is made while this one is
//! learnt from, each interaction when the updates have used as many samples as it will give: with 10 epochs and batches of
//! 64, 32 interactions for every 5 steps. As PPO demands, one policy with one set of parameters makes a whole rollout, the
//! probabilities that an update is held to and the values in the advantages are that policy's, and it is older than what
//! learns by one rollout more than without the overlap, as in asynchronous PPO.

use std::rc::Rc;

use fastrand::Rng;
use tch::{Device, TchError, Tensor};

use super::ActorCritic;
use crate::{
    environments::CartPole,
    nn::parameters::{Entry, Parameters},
    stream_state::StreamState,
    workload::{Batch, DataStream},
};

/// How much a reward counts one interaction earlier.
const DISCOUNT: f32 = 0.99;

type Observation = [f32; CartPole::OBSERVATION];

/// The stream of samples for which its policy acts.
pub(super) struct Rollouts {
    /// What learns.
    networks: Rc<ActorCritic>,
    /// What acts.
    behaviour: ActorCritic,
    behaviour_state: Parameters,
    environment: CartPole,
    rng: Rng,
    device: Device,
    epochs: usize,
    /// The rollout that is learnt from.
    samples: Vec<Sample>,
    /// The order of its samples in this epoch.
    order: Vec<usize>,
    /// How many times one of its samples was taken.
    taken: usize,
    /// Samples taken of all rollouts.
    position: u64,
    /// The rollout that is being made; as long as the other one when that was learnt from.
    interactions: Vec<Interaction>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Interaction {
    observation: Observation,
    action: usize,
    /// Of the action, by the policy that chose it.
    log_probability: f32,
    /// Of the observation.
    value: f32,
    reward: f32,
    /// Whether the episode ended with it.
    ended: bool,
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Sample {
    interaction: Interaction,
    advantage: f32,
}

impl Interaction {
    const NUMBERS: usize = CartPole::OBSERVATION + 5;

    fn numbers(&self) -> [f32; Self::NUMBERS] {
        let &Self { observation: [a, b, c, d], action, log_probability, value, reward, ended } = self;
        [a, b, c, d, action as f32, log_probability, value, reward, f32::from(u8::from(ended))]
    }

    fn of([a, b, c, d, action, log_probability, value, reward, ended]: [f32; Self::NUMBERS]) -> Self {
        let (observation, action, ended) = ([a, b, c, d], action as usize, ended != 0.0);
        Self { observation, action, log_probability, value, reward, ended }
    }
}

/// What a batch holds as targets, `[samples, 4]`, in the order of its columns.
pub(super) struct Columns {
    pub(super) actions: Tensor,
    pub(super) log_probabilities: Tensor,
    pub(super) advantages: Tensor,
    /// What the value network should have said.
    pub(super) returns: Tensor,
}

impl Columns {
    const COUNT: i64 = 4;

    fn row(sample: &Sample) -> [f32; Self::COUNT as usize] {
        let Sample { interaction, advantage } = sample;
        let &Interaction { action, log_probability, value, .. } = interaction;
        [action as f32, log_probability, *advantage, *advantage + value]
    }

    pub(super) fn of(targets: &Tensor) -> Result<Self, TchError> {
        let column = |index| targets.f_select(1, index);
        Ok(Self {
            actions: column(0)?,
            log_probabilities: column(1)?,
            advantages: column(2)?,
            returns: column(3)?,
        })
    }
}

impl Rollouts {
    /// Makes the first rollout, of `length` interactions; `unsaved` will hold what acts.
    ///
    /// # Errors
    /// Out of memory.
    pub(super) fn new(
        networks: Rc<ActorCritic>,
        unsaved: Parameters,
        length: usize,
        epochs: usize,
        seed: u64,
        device: Device,
    ) -> Result<Self, TchError> {
        let mut rng = Rng::with_seed(seed);
        let (behaviour, behaviour_state) = networks.frozen(unsaved)?;
        let mut rollouts = Self {
            behaviour,
            behaviour_state,
            networks,
            environment: CartPole::random(&mut rng),
            rng,
            device,
            epochs,
            samples: Vec::new(),
            order: (0..length).collect(),
            taken: 0,
            position: 0,
            interactions: Vec::with_capacity(length),
        };
        for _ in 0..length {
            rollouts.interact()?;
        }
        rollouts.turn()?;
        Ok(rollouts)
    }

    fn interact(&mut self) -> Result<(), TchError> {
        let observation = self.environment.observation();
        let (logits, value) = self.judge(observation)?;
        let (action, log_probability) = choose(logits, self.rng.f32());
        let outcome = self.environment.step(action);
        let mut reward = outcome.reward;
        if outcome.truncated && !outcome.terminated {
            // The time limit is no property of the state: what would have followed counts as the network values it.
            let (_, to_come) = self.judge(outcome.observation)?;
            reward += DISCOUNT * to_come;
        }
        let ended = outcome.ended();
        self.interactions.push(Interaction { observation, action, log_probability, value, reward, ended });
        if ended {
            self.environment = CartPole::random(&mut self.rng);
        }
        Ok(())
    }

    /// The logits of the actions and the value, read back from the device: an agent that acts cannot but wait for them.
    fn judge(&self, observation: Observation) -> Result<([f32; CartPole::ACTIONS], f32), TchError> {
        let read = tch::no_grad(|| {
            let row = Tensor::f_from_slice(&observation)?.f_unsqueeze(0)?;
            let row = row.f_to(self.device)?.f_totype(self.behaviour.kind())?;
            let (logits, values) = self.behaviour.forward(&row)?;
            let all = Tensor::f_cat(&[logits.f_flatten(0, -1)?, values], 0)?;
            Vec::<f32>::try_from(&all)
        })?;
        let (&value, logits) = read.split_last().expect("a value follows the logits");
        Ok((logits.try_into().expect("there is a logit for each action"), value))
    }

    /// Goes on to the rollout that was made meanwhile; the policy that acts becomes the one learnt so far.
    fn turn(&mut self) -> Result<(), TchError> {
        let (_, to_come) = self.judge(self.environment.observation())?;
        self.samples = with_advantages(&self.interactions, to_come);
        self.interactions.clear();
        self.taken = 0;
        self.behaviour.become_equal(&self.networks)
    }

    fn take(&mut self) -> Result<Sample, TchError> {
        let length = self.samples.len();
        if self.taken == self.epochs * length {
            self.turn()?;
        }
        if self.taken.is_multiple_of(length) {
            self.rng.shuffle(&mut self.order);
        }
        let sample = self.samples[self.order[self.taken % length]];
        self.taken += 1;
        if self.taken.is_multiple_of(self.epochs) {
            self.interact()?;
        }
        Ok(sample)
    }
}

impl DataStream for Rollouts {
    fn next(&mut self, samples: usize) -> anyhow::Result<Batch> {
        let (mut observations, mut targets) = (Vec::new(), Vec::new());
        for _ in 0..samples {
            let sample = self.take()?;
            observations.extend(sample.interaction.observation);
            targets.extend(Columns::row(&sample));
        }
        self.position += samples as u64;
        let rows = |values: &[f32], columns| -> Result<Tensor, TchError> {
            Tensor::f_from_slice(values)?.f_reshape([-1, columns])?.f_to(self.device)
        };
        Ok(Batch {
            inputs: rows(&observations, CartPole::OBSERVATION as i64)?,
            targets: rows(&targets, Columns::COUNT)?,
        })
    }

    fn position(&self) -> Option<u64> {
        Some(self.position)
    }

    fn seek(&mut self, position: u64) -> anyhow::Result<()> {
        self.position = position;
        Ok(())
    }

    fn state(&self) -> Result<StreamState, TchError> {
        let mut state = StreamState::default();
        let (environment, pushes) = self.environment.state();
        state.put_numbers("environment", &environment)?;
        state.put_numbers("pushes", &[i64::from(pushes)])?;
        state.put_generator(&self.rng)?;
        let order: Vec<i64> = self.order.iter().map(|index| *index as i64).collect();
        state.put_numbers("order", &order)?;
        state.put_numbers("taken", &[self.taken as i64])?;
        let rollout: Vec<f32> = self.samples.iter().flat_map(|sample| sample.interaction.numbers()).collect();
        state.put_numbers("rollout", &rollout)?;
        let advantages: Vec<f32> = self.samples.iter().map(|sample| sample.advantage).collect();
        state.put_numbers("advantages", &advantages)?;
        let interactions: Vec<f32> = self.interactions.iter().flat_map(Interaction::numbers).collect();
        state.put_numbers("interactions", &interactions)?;
        for entry in self.behaviour_state.state() {
            state.put(behaviour_name(entry), entry.tensor())?;
        }
        Ok(state)
    }

    fn set_state(&mut self, state: &StreamState) -> anyhow::Result<()> {
        let [pushes] = state.array::<i64, 1>("pushes")?;
        self.environment = CartPole::resumed(state.array("environment")?, u32::try_from(pushes)?);
        self.rng = state.generator()?;
        let (rollout, advantages) = (state.rows("rollout")?, state.numbers::<f32>("advantages")?);
        let samples = rollout.into_iter().zip(advantages);
        let samples = samples.map(|(row, advantage)| Sample { interaction: Interaction::of(row), advantage });
        self.samples = samples.collect();
        self.interactions = state.rows("interactions")?.into_iter().map(Interaction::of).collect();
        let order = state.numbers::<i64>("order")?.into_iter().map(usize::try_from);
        self.order = order.collect::<Result<_, _>>()?;
        let length = self.samples.len();
        let is_order = self.order.len() == length && self.order.iter().all(|index| *index < length);
        anyhow::ensure!(
            length > 0 && is_order,
            "'order' of the state of the data is not an order of {length} samples"
        );
        let [taken] = state.array::<i64, 1>("taken")?;
        self.taken = usize::try_from(taken)?;
        for entry in self.behaviour_state.state() {
            let value = state.tensor(&behaviour_name(entry))?;
            tch::no_grad(|| entry.tensor().shallow_clone().f_copy_(value).map(drop))?;
        }
        Ok(())
    }

    fn tensors(&self) -> Vec<&Tensor> {
        self.behaviour_state.tensors().collect()
    }
}

/// The name of a tensor of the policy that acts.
fn behaviour_name(entry: &Entry) -> String {
    format!("behaviour.{}", entry.name())
}

/// Draws an action with the probabilities that `logits` stand for, by a number from 0 to below 1; with its log probability.
fn choose(logits: [f32; CartPole::ACTIONS], random: f32) -> (usize, f32) {
    let most = logits.into_iter().fold(f32::NEG_INFINITY, f32::max);
    let log_sum = logits.iter().map(|logit| (logit - most).exp()).sum::<f32>().ln() + most;
    let log_probabilities = logits.map(|logit| logit - log_sum);
    let mut left = random;
    let drawn = log_probabilities.iter().position(|log_probability| {
        left -= log_probability.exp();
        left < 0.0
    });
    // Rounding may leave a rest of nothing beyond the last action.
    let action = drawn.unwrap_or(CartPole::ACTIONS - 1);
    (action, log_probabilities[action])
}

/// Generalised advantage estimation (Schulman et al., ICLR 2016, equation 16), cut off where an episode or the rollout
/// ends; `to_come` is the value of the observation after the last interaction.
fn with_advantages(interactions: &[Interaction], to_come: f32) -> Vec<Sample> {
    const LAMBDA: f32 = 0.95;
    let (mut next_value, mut next_advantage) = (to_come, 0.0);
    let backwards = interactions.iter().rev().map(|&interaction| {
        let Interaction { value, reward, ended, .. } = interaction;
        let goes_on = if ended { 0.0 } else { 1.0 };
        let error = reward + DISCOUNT * goes_on * next_value - value;
        let advantage = error + DISCOUNT * LAMBDA * goes_on * next_advantage;
        (next_value, next_advantage) = (value, advantage);
        Sample { interaction, advantage }
    });
    let mut samples: Vec<Sample> = backwards.collect();
    samples.reverse();
    samples
}

#[cfg(test)]
mod tests;
