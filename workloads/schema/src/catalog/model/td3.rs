//! Fujimoto et al., ICML 2018.

use serde::{Deserialize, Serialize};

use super::{Family, Features, Samples};

/// An actor, twin critics and the target network of each, which swing up a pendulum (Pendulum-v1).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Td3 {
    /// Widths of the hidden layers of each network.
    pub hidden: Vec<u32>,
    /// The newest transitions that are kept to learn from.
    pub replay: u32,
    /// Transitions of random actions that are made before the first step.
    pub random: u32,
    /// Updates of the critics for each one of the actor and of the target networks.
    pub policy_delay: u32,
}

impl Family for Td3 {
    fn samples(&self) -> Samples {
        Samples::Transitions
    }

    fn features(&self) -> Features {
        Features::of_mlp(&self.hidden)
    }

    fn problem(&self) -> Option<String> {
        let Td3 { replay, random, .. } = self;
        (random > replay)
            .then(|| format!("random {random} is more than what replay {replay} keeps; use {replay} or less"))
    }
}
