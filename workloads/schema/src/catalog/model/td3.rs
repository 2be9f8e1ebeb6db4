//! Fujimoto et al., ICML 2018.

use serde::{Deserialize, Serialize};

use super::{Family, Features, Samples, one_environment};
use crate::plan::Axis;

/// An actor and twin critics, each with a target network, which swing up a pendulum (Pendulum-v1).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Td3 {
    /// Widths of the hidden layers of each network.
    pub hidden: Vec<u32>,
    /// Capacity of the replay buffer, in transitions.
    pub replay: u32,
    /// Number of random transitions before the first step.
    pub random: u32,
    /// Critic updates per update of the actor and the target networks.
    pub policy_delay: u32,
}

impl Family for Td3 {
    fn samples(&self) -> Samples {
        Samples::Transitions
    }

    fn features(&self) -> Features {
        Features::of_mlp(&self.hidden)
    }

    fn lacks(&self, axis: Axis) -> Option<&'static str> {
        one_environment(axis)
    }

    fn problem(&self) -> Option<String> {
        let Td3 { replay, random, .. } = self;
        (random > replay)
            .then(|| format!("random {random} is more than what replay {replay} keeps; use {replay} or less"))
    }
}
