//! Where reinforcement learning acts: the classic-control environments of Gymnasium, with its equations, constants,
//! starts and time limits. They run on the host in f64 and show their state in f32, as there.

mod cart_pole;
mod pendulum;

pub use cart_pole::CartPole;
pub use pendulum::Pendulum;

/// What an environment answers to an action.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Outcome<const OBSERVATION: usize> {
    pub observation: [f32; OBSERVATION],
    pub reward: f32,
    /// The episode came to its own end: nothing can follow from here.
    pub terminated: bool,
    /// The time limit cut the episode off, where more would have followed.
    pub truncated: bool,
}

impl<const OBSERVATION: usize> Outcome<OBSERVATION> {
    /// The environment must be reset before the next action.
    pub fn ended(&self) -> bool {
        self.terminated || self.truncated
    }
}
