//! Signs of life of a program that takes no step: to test its model may take it longer than any heartbeat.

use std::time::Duration;

use schema::units::Nanos;

use crate::usage::Tree;

/// How long a silent program is looked at.
const LOOK: Duration = Duration::from_secs(1);

/// The part of a core from which on a program computes. One that waits has less: timers, and threads that poll.
const COMPUTES_FROM: f64 = 0.05;

/// A look at all processes of a program.
pub(super) struct Life {
    tree: Tree,
    since: Nanos,
    cpu_ns: u64,
}

impl Life {
    pub(super) fn look_at(root: u32) -> Life {
        let mut tree = Tree::new(root);
        Life { since: Nanos::monotonic_now(), cpu_ns: tree.read().cpu_ns, tree }
    }

    /// Whether the program computes; absent until it was looked at for long enough.
    pub(super) fn sign(&mut self) -> Option<bool> {
        let looked = Nanos::monotonic_now().saturating_sub(self.since);
        if looked < LOOK.into() {
            return None;
        }
        self.tree.refresh();
        let cpu_ns = self.tree.read().cpu_ns.saturating_sub(self.cpu_ns);
        Some(cpu_ns as f64 > COMPUTES_FROM * looked.0 as f64)
    }
}
