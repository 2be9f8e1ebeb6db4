//! The processes of a rank that are frozen: stopped by SIGSTOP, which no program can catch, until they are to go on.

use rustix::process::Signal;

use crate::processes::{ProcessId, descendants};

#[derive(Default)]
pub(super) struct Frozen(Vec<ProcessId>);

impl Frozen {
    /// Stops all processes below `root`. Only processes that were started within a round are left for the next one, and a stopped process
    /// starts none. A process that stood still before is not ours to continue.
    pub(super) fn freeze_below(&mut self, root: i32) {
        loop {
            let running: Vec<ProcessId> = descendants(root)
                .into_iter()
                .filter(|process| !self.0.contains(process) && !process.is_stopped())
                .collect();
            if running.is_empty() {
                return;
            }
            // All of them at once: a rank that is left waits for the others.
            running.iter().for_each(|process| process.signal(Signal::STOP));
            for process in &running {
                let _ = process.stop();
            }
            self.0.extend(running);
        }
    }

    /// Lets them go on, children before their parents, which may wait for children that stop.
    pub(super) fn thaw(&mut self) {
        self.0.drain(..).rev().for_each(|process| process.signal(Signal::CONT));
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use front_door::wait_until;

    use super::*;

    #[test]
    fn all_processes_are_frozen_and_those_that_stood_still_before_do_not_go_on() {
        let script = "sh -c 'kill -STOP $$; :' & (sleep 1000; :) & wait";
        let mut parent = Command::new("sh").args(["-c", script]).spawn().unwrap();
        let root = parent.id() as i32;
        let stopped = || descendants(root).into_iter().filter(|process| process.is_stopped()).count();
        wait_until("one stands still", || descendants(root).len() == 3 && stopped() == 1);
        let mut frozen = Frozen::default();
        for _ in 0..2 {
            frozen.freeze_below(root);
            wait_until("all stand still", || stopped() == 3);
            frozen.thaw();
            wait_until("two go on", || stopped() == 1);
        }
        for process in descendants(root) {
            process.signal(Signal::KILL);
        }
        parent.wait().unwrap();
    }
}
