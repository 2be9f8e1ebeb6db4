//! Signs of life of a program that takes no step: a test of its model may take longer than any heartbeat.

use std::time::Duration;

use schema::units::Nanos;

use crate::usage::{Reading, Tree};

/// How long a silent program is observed. A pause of the host for one second leaves half of this time.
const LOOK: Duration = Duration::from_secs(2);

/// The smallest CPU usage of a computing program, as a fraction of the time in which the program did not wait for a core. Timers and
/// threads that poll use less.
const COMPUTES_FROM: f64 = 0.05;

/// A reading of all processes of a program.
pub(super) struct Life {
    tree: Tree,
    since: Nanos,
    before: Reading,
}

impl Life {
    pub(super) fn look_at(root: u32) -> Life {
        let mut tree = Tree::new(root);
        Life { since: Nanos::monotonic_now(), before: tree.read(), tree }
    }

    /// Whether the program computes; `None` until it was observed for long enough.
    pub(super) fn sign(&mut self) -> Option<bool> {
        let looked = Nanos::monotonic_now().saturating_sub(self.since);
        if looked < LOOK.into() {
            return None;
        }
        self.tree.refresh();
        Some(computes(&self.before, &self.tree.read(), looked))
    }
}

/// Returns whether a program computed between two readings.
fn computes(before: &Reading, after: &Reading, looked: Nanos) -> bool {
    let cpu_ns = after.cpu_ns.saturating_sub(before.cpu_ns);
    let waited_ns =
        after.run_queue_wait_ns.unwrap_or(0).saturating_sub(before.run_queue_wait_ns.unwrap_or(0));
    cpu_ns as f64 > COMPUTES_FROM * looked.saturating_sub(Nanos(waited_ns)).0 as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_waits_for_a_core_computes_and_one_that_polls_does_not() {
        let ms = |cpu: u64, wait: Option<u64>| Reading {
            cpu_ns: cpu * 1_000_000,
            run_queue_wait_ns: wait.map(|wait| wait * 1_000_000),
            ..Reading::default()
        };
        for (cpu_ms, wait_ms, expected) in [
            (100, Some(0), false),
            (110, Some(0), true),
            (110, None, true),
            (20, Some(1_900), true),
            (0, Some(1_900), false),
            // A thread that polls a hundred times a second and waits for a core each time.
            (10, Some(900), false),
            (1_000, Some(9_000), true),
        ] {
            let (before, after) = (ms(5, wait_ms.map(|_| 7)), ms(5 + cpu_ms, wait_ms.map(|wait| 7 + wait)));
            let is_computing = computes(&before, &after, LOOK.into());
            assert_eq!(is_computing, expected, "{cpu_ms} ms of CPU time, {wait_ms:?} ms of waiting");
        }
    }
}
