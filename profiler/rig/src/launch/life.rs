//! Signs of life of a program that takes no step: a test of its model may take longer than any heartbeat.

use std::time::Duration;

use schema::units::Nanos;

use crate::usage::Tree;

/// The time over which a silent program is observed.
const LOOK: Duration = Duration::from_secs(1);

/// The part of a core from which a program counts as computing. A waiting program uses less: timers, and threads that poll.
const COMPUTES_FROM: f64 = 0.05;

/// A reading of all processes of a program.
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

    /// Whether the program computes; `None` until it was observed for long enough.
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
