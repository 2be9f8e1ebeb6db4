//! Environments for reinforcement learning: the classic-control environments of Gymnasium, with its
//! equations, constants, initial states and time limits. They run on the host in f64 and return
//! observations in f32, as in Gymnasium.

mod cart_pole;
mod pendulum;

pub use cart_pole::CartPole;
pub use pendulum::Pendulum;

/// The answer of an environment to an action.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Outcome<const OBSERVATION: usize> {
    pub observation: [f32; OBSERVATION],
    pub reward: f32,
    /// The episode ended by itself, and no state follows.
    pub terminated: bool,
    /// The time limit ended the episode.
    pub truncated: bool,
}

impl<const OBSERVATION: usize> Outcome<OBSERVATION> {
    /// The environment must be reset before the next action.
    pub fn ended(&self) -> bool {
        self.terminated || self.truncated
    }
}
