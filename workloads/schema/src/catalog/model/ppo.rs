//! Schulman et al., 2017.

use serde::{Deserialize, Serialize};

use super::{Family, Features, Samples, one_environment};
use crate::plan::Axis;

/// A policy and a value network that balance a pole (CartPole-v1).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ppo {
    /// Widths of the hidden layers of each network.
    pub hidden: Vec<u32>,
    /// Interactions with the environment between two changes of the policy that acts.
    pub rollout: u32,
    /// Passes over each rollout.
    pub epochs: u32,
}

impl Family for Ppo {
    fn samples(&self) -> Samples {
        Samples::Transitions
    }

    fn features(&self) -> Features {
        Features::of_mlp(&self.hidden)
    }

    fn lacks(&self, axis: Axis) -> Option<&'static str> {
        one_environment(axis)
    }
}
