//! A 64-bit hash of all events and actions of a run up to some moment.

use std::fmt;

use schema::units::Nanos;
use serde::Serialize;

use super::{Action, ClusterEvent};

/// A chain of hashes. Each link is made from the previous one and from one event or action. It is spelled
/// as the first 16 hexadecimal digits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Chain([u8; 32]);

impl Chain {
    pub fn happened(&mut self, at: Nanos, happened: &ClusterEvent) {
        self.link(&(at, happened));
    }

    /// Appends the actions in order. No actions add no link.
    pub fn done(&mut self, actions: &[Action]) {
        if !actions.is_empty() {
            self.link(&actions);
        }
    }

    fn link(&mut self, what: &impl Serialize) {
        let text = serde_json::to_vec(what).expect("events and actions have string keys and finite numbers");
        *self = Chain(*blake3::Hasher::new().update(&self.0).update(&text).finalize().as_bytes());
    }
}

impl fmt::Display for Chain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0[..8].iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decision::JobId;

    #[test]
    fn a_chain_tells_order_time_and_actions_apart() {
        let arrived = |job| ClusterEvent::Arrived { job: JobId(job) };
        let chain = |links: &[(u64, u32)]| {
            let mut chain = Chain::default();
            links.iter().for_each(|&(at, job)| chain.happened(Nanos(at), &arrived(job)));
            chain.to_string()
        };
        assert_eq!(chain(&[(1, 0), (2, 1)]), chain(&[(1, 0), (2, 1)]));
        let others = [chain(&[(2, 1), (1, 0)]), chain(&[(1, 0), (3, 1)]), chain(&[(1, 0)]), chain(&[])];
        for other in others {
            assert_eq!(other.len(), 16);
            assert_ne!(other, chain(&[(1, 0), (2, 1)]));
        }
        let (mut nothing, mut paused) = (Chain::default(), Chain::default());
        nothing.done(&[]);
        paused.done(&[Action::Pause { job: JobId(0) }]);
        assert_ne!(nothing, paused);
    }
}
