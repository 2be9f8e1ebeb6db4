//! The samples of TD3: transitions that the actor makes, one before each update, and random draws from
//! them.

use std::{cell::Cell, rc::Rc};

use fastrand::Rng;
use tch::{Device, TchError, Tensor};

use super::Actor;
use crate::{
    data::normal,
    environments::Pendulum,
    stream_state::StreamState,
    workload::{Batch, Block, DataStream},
};

type Observation = [f32; Pendulum::OBSERVATION];

/// The newest transitions, in memory of the host.
pub(super) struct Replay {
    actor: Rc<Actor>,
    /// Number of updates so far.
    updates: Rc<Cell<u64>>,
    /// Interactions for those updates, without the random ones at the start.
    interactions: u64,
    environment: Pendulum,
    rng: Rng,
    device: Device,
    /// Grows up to the capacity, then the oldest ones are overwritten.
    transitions: Vec<Transition>,
    capacity: usize,
    /// Where the next one is written.
    place: usize,
    /// Samples taken.
    position: u64,
}

#[derive(Debug, PartialEq)]
struct Transition {
    observation: Observation,
    /// From -1 to 1.
    action: f32,
    next: Observation,
    reward: f32,
    /// Whether the episode ended by itself. The time limit does not count, because a state would have
    /// followed.
    terminated: bool,
}

impl Transition {
    const NUMBERS: usize = 2 * Pendulum::OBSERVATION + 3;

    fn numbers(&self) -> [f32; Self::NUMBERS] {
        let &Self { observation: [a, b, c], action, next: [d, e, f], reward, terminated } = self;
        [a, b, c, action, d, e, f, reward, f32::from(u8::from(terminated))]
    }

    fn of([a, b, c, action, d, e, f, reward, terminated]: [f32; Self::NUMBERS]) -> Self {
        let (observation, next, terminated) = ([a, b, c], [d, e, f], terminated != 0.0);
        Self { observation, action, next, reward, terminated }
    }
}

/// The targets of a batch, `[samples, 6]`, in the order of its columns.
pub(super) struct Outcomes {
    pub(super) observations: Tensor,
    pub(super) rewards: Tensor,
    /// 0 if no state follows, else 1.
    pub(super) goes_on: Tensor,
    /// Smoothing noise for the target actor's actions. It is drawn with the samples, so that the loss of a
    /// batch is a function of the batch alone.
    pub(super) noise: Tensor,
}

impl Outcomes {
    const COUNT: i64 = Pendulum::OBSERVATION as i64 + 3;

    pub(super) fn of(targets: &Tensor) -> Result<Self, TchError> {
        const OBSERVATION: i64 = Pendulum::OBSERVATION as i64;
        Ok(Self {
            observations: targets.f_narrow(1, 0, OBSERVATION)?,
            rewards: targets.f_narrow(1, OBSERVATION, 1)?,
            goes_on: targets.f_narrow(1, OBSERVATION + 1, 1)?,
            noise: targets.f_narrow(1, OBSERVATION + 2, 1)?,
        })
    }
}

impl Replay {
    /// Keeps up to `capacity` transitions, and first makes `random` ones with random actions.
    pub(super) fn new(
        actor: Rc<Actor>,
        updates: Rc<Cell<u64>>,
        capacity: usize,
        random: usize,
        seed: u64,
        device: Device,
    ) -> Self {
        let mut rng = Rng::with_seed(seed);
        let environment = Pendulum::random(&mut rng);
        let (transitions, interactions) = (Vec::new(), updates.get());
        let (place, position) = (0, 0);
        let mut replay = Self {
            actor,
            updates,
            interactions,
            environment,
            rng,
            device,
            transitions,
            capacity,
            place,
            position,
        };
        for _ in 0..random {
            let action = 2.0 * replay.rng.f32() - 1.0;
            replay.act(action);
        }
        replay
    }

    /// Acts like the actor, with some noise for exploration.
    fn interact(&mut self) -> Result<(), TchError> {
        const EXPLORATION: f32 = 0.1;
        let actions = tch::no_grad(|| {
            let observation = Tensor::f_from_slice(&self.environment.observation())?.f_unsqueeze(0)?;
            let observation = observation.f_to(self.device)?.f_totype(self.actor.0.kind())?;
            Vec::<f32>::try_from(&self.actor.forward(&observation)?.f_flatten(0, -1)?)
        })?;
        let [action] = actions[..] else { unreachable!("an action is one torque") };
        let explored = action + EXPLORATION * normal(&mut self.rng);
        self.act(explored.clamp(-1.0, 1.0));
        Ok(())
    }

    fn act(&mut self, action: f32) {
        let observation = self.environment.observation();
        let outcome = self.environment.step(action * Pendulum::TORQUE_MAX);
        if outcome.ended() {
            self.environment = Pendulum::random(&mut self.rng);
        }
        let transition = Transition {
            observation,
            action,
            next: outcome.observation,
            reward: outcome.reward,
            terminated: outcome.terminated,
        };
        match self.transitions.get_mut(self.place) {
            Some(oldest) => *oldest = transition,
            None => self.transitions.push(transition),
        }
        self.place = (self.place + 1) % self.capacity;
    }
}

impl DataStream for Replay {
    /// The first call for each update interacts. The following micro-batches only draw samples.
    fn next(&mut self, samples: usize) -> anyhow::Result<Batch> {
        const NOISE: f32 = 0.2;
        const NOISE_MAX: f32 = 0.5;
        if self.interactions <= self.updates.get() {
            self.interact()?;
            self.interactions = self.updates.get() + 1;
        }
        let (mut pairs, mut outcomes) = (Vec::new(), Vec::new());
        for _ in 0..samples {
            let Transition { observation, action, next, reward, terminated } =
                &self.transitions[self.rng.usize(..self.transitions.len())];
            pairs.extend(observation);
            pairs.push(*action);
            let goes_on = if *terminated { 0.0 } else { 1.0 };
            let noise = (NOISE * normal(&mut self.rng)).clamp(-NOISE_MAX, NOISE_MAX);
            outcomes.extend(next);
            outcomes.extend([*reward, goes_on, noise]);
        }
        self.position += samples as u64;
        let rows = |values: &[f32], columns| -> Result<Tensor, TchError> {
            Tensor::f_from_slice(values)?.f_reshape([-1, columns])?.f_to(self.device)
        };
        Ok(Batch {
            inputs: rows(&pairs, (Pendulum::OBSERVATION + Pendulum::ACTION) as i64)?,
            targets: rows(&outcomes, Outcomes::COUNT)?,
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
        let (environment, actions) = self.environment.state();
        state.put_numbers("environment", &environment)?;
        state.put_numbers("actions", &[i64::from(actions)])?;
        state.put_generator(&self.rng)?;
        let transitions: Vec<f32> = self.transitions.iter().flat_map(Transition::numbers).collect();
        state.put_numbers("transitions", &transitions)?;
        state.put_numbers("place", &[self.place as i64])?;
        let counts = [self.updates.get(), self.interactions].map(u64::cast_signed);
        state.put_numbers("updates-and-interactions", &counts)?;
        Ok(state)
    }

    /// The number of updates decides when the model moves its actor, too.
    fn set_state(&mut self, state: &StreamState) -> anyhow::Result<()> {
        let [actions] = state.array::<i64, 1>("actions")?;
        self.environment = Pendulum::resumed(state.array("environment")?, u32::try_from(actions)?);
        self.rng = state.generator()?;
        self.transitions = state.rows("transitions")?.into_iter().map(Transition::of).collect();
        let [place] = state.array::<i64, 1>("place")?;
        self.place = usize::try_from(place)?;
        let (found, place) = (self.transitions.len(), self.place);
        let fits = (1..=self.capacity).contains(&found) && (place < found || place == found % self.capacity);
        anyhow::ensure!(
            fits,
            "the state of the data has {found} transitions and would write the next at {place}"
        );
        let [updates, interactions] = state.array::<i64, 2>("updates-and-interactions")?;
        self.updates.set(u64::try_from(updates)?);
        self.interactions = u64::try_from(interactions)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use schema::catalog::{Catalog, Model};

    use super::*;
    use crate::{models::td3, nn::parameters::Parameters, workload::Workload};

    fn replay(capacity: usize, random: usize) -> (Replay, td3::Td3) {
        let catalog = Catalog::embedded();
        let workload = catalog.get("td3-pendulum").unwrap();
        let Model::Td3(model) = &workload.model else { unreachable!("it is TD3") };
        let model = td3::build(model, Parameters::new(Device::Cpu), workload.optimizer).unwrap();
        let (actor, updates) = (Rc::clone(&model.actor), Rc::clone(&model.critic_updates));
        (Replay::new(actor, updates, capacity, random, 1, Device::Cpu), model)
    }

    #[test]
    fn one_transition_is_made_for_each_update_however_many_micro_batches_it_has() {
        let (mut replay, model) = replay(1000, 100);
        assert_eq!(replay.transitions.len(), 100);
        for made in 1..=3 {
            for _ in 0..4 {
                replay.next(8).unwrap();
                assert_eq!(replay.transitions.len(), 100 + made);
            }
            model.after_update(td3::CRITICS).unwrap();
        }
    }

    #[test]
    fn a_transition_leads_to_the_observation_of_the_next_and_the_oldest_are_forgotten() {
        let (replay, _model) = replay(50, 70);
        assert_eq!((replay.transitions.len(), replay.place), (50, 20));
        let oldest_first = (0..50).map(|index| &replay.transitions[(20 + index) % 50]);
        for (transition, follower) in oldest_first.clone().zip(oldest_first.skip(1)) {
            assert_eq!(transition.next, follower.observation);
            let mut environment = Pendulum::at(
                f64::from(transition.observation[1]).atan2(f64::from(transition.observation[0])),
                f64::from(transition.observation[2]),
            );
            let outcome = environment.step(2.0 * transition.action);
            assert!((outcome.reward - transition.reward).abs() < 1e-4);
        }
    }

    #[test]
    fn batches_hold_transitions_and_noise_of_the_paper() {
        let (mut replay, _model) = replay(1000, 100);
        let batch = replay.next(4096).unwrap();
        assert_eq!((batch.inputs.size(), batch.targets.size()), (vec![4096, 4], vec![4096, 6]));
        let Outcomes { rewards, goes_on, noise, .. } = Outcomes::of(&batch.targets).unwrap();
        assert!(rewards.max().double_value(&[]) <= 0.0);
        assert_eq!(
            goes_on.min().double_value(&[]),
            1.0,
            "a pendulum's episode has no end but the time limit"
        );
        assert!((noise.std(true).double_value(&[]) / 0.2 - 1.0).abs() < 0.1);
        assert!(noise.abs().max().double_value(&[]) <= 0.5);
    }

    #[test]
    fn a_stream_that_is_set_to_the_state_of_another_one_gives_the_same_samples() {
        let (mut first, model) = replay(60, 50);
        for _ in 0..25 {
            first.next(4).unwrap();
            model.after_update(td3::CRITICS).unwrap();
        }
        let (mut second, other) = replay(60, 50);
        tch::no_grad(|| {
            let pairs = other.parameters().state().zip(model.parameters().state());
            pairs.for_each(|(to, from)| to.tensor().shallow_clone().copy_(from.tensor()));
        });
        second.seek(first.position().unwrap()).unwrap();
        second.set_state(&first.state().unwrap()).unwrap();
        assert_eq!((second.position(), second.place), (Some(100), 15));
        assert_eq!(other.is_due(td3::CRITICS + 1), model.is_due(td3::CRITICS + 1));
        for _ in 0..300 {
            let [one, two] = [&mut first, &mut second].map(|stream| stream.next(4).unwrap());
            assert_eq!((one.inputs, one.targets), (two.inputs, two.targets));
            let _ = [&model, &other].map(|model| model.after_update(td3::CRITICS).unwrap());
        }
        assert_eq!(first.transitions, second.transitions);
        let absent = second.set_state(&StreamState::default()).unwrap_err().to_string();
        assert_eq!(absent, "the state of the data has no 'actions'");
    }
}
