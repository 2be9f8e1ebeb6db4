//! How a launch ends when a rank fails or exceeds a time limit.

use std::time::Duration;

use record::{launch_end::RankEnd, rows::ErrorKind};
use rustix::process::Signal;
use schema::{units::Nanos, wire::Event};

use super::{
    Ending, Launch, Timeouts,
    life::Life,
    listener::{Fault, Listener},
    verdict,
};
use crate::leash::LeashHandle;

impl Launch {
    /// Whether a rank ended because the harness ended it.
    pub(super) fn is_our_doing(&self, end: &RankEnd) -> bool {
        match self.ending {
            Ending::No => false,
            // Programs react to SIGTERM in different ways, but none of them reacts with SIGKILL.
            Ending::Terminated { .. } => end.signal != Some(Signal::KILL.as_raw()),
            Ending::Killed => true,
        }
    }

    /// Records why the launch failed, and ends the remaining ranks.
    pub(super) fn fail(&mut self, rank: u32, fault: Fault) {
        if self.dismissed && fault.0 != ErrorKind::Stuck {
            return;
        }
        let fault = verdict::of_disk(&self.run, self.spec.program.speaks(), fault);
        if self.fault.as_ref().is_none_or(|(_, known)| verdict::explains(&fault, known)) {
            self.fault = Some((rank, fault));
        }
        self.terminate();
    }

    /// Requests every rank to leave, and gives it the grace period to do so.
    pub(super) fn terminate(&mut self) {
        if self.ending != Ending::No {
            return;
        }
        self.ending = Ending::Terminated { kill_at: Nanos::monotonic_now() + self.timeouts.grace.into() };
        let speaks = self.spec.program.speaks();
        for rank in &self.ranks {
            // A worker that has sent its last event is leaving already; a script may go on much longer.
            if let Some(leash) = rank.leash.as_ref().filter(|_| !(speaks && rank.said_last_word())) {
                leash.terminate();
            }
        }
    }

    /// Lets a program of the user's take steps again, when SIGTERM has reached it. Its handler often sets a flag that the loop of
    /// its training reads after the next step. Without a handler the program ends at rest. The grace period counts from now.
    pub(super) fn release(&mut self) {
        let Ending::Terminated { kill_at } = &mut self.ending else { return };
        *kill_at = Nanos::monotonic_now() + self.timeouts.grace.into();
        if let Some(grant) = self.grant.as_ref().filter(|_| !self.spec.program.speaks()) {
            self.released_at.get_or_insert(grant.get());
            grant.extend_to(u64::MAX);
        }
    }

    /// Ends the launch, which counts as good in any case from now on.
    pub(super) fn dismiss(&mut self) {
        self.dismissed = true;
        self.terminate();
    }

    /// Ends ranks that exceed a time limit: first by SIGTERM, and by SIGKILL after the grace period.
    pub(super) fn urge(&mut self) {
        let Timeouts { heartbeat, startup, .. } = self.timeouts;
        match self.ending {
            // Its time limits start anew when it goes on, and a checkpoint has a limit of its own.
            Ending::No if self.is_frozen || self.is_saving() => self.hear_all(),
            Ending::No => {
                let granted = self.granted();
                let mut left = self.ranks.iter().enumerate().filter(|(_, rank)| rank.end.is_none());
                let hung = left.find_map(|(index, rank)| {
                    let overdue = rank.listeners.iter().find_map(|l| l.overdue(granted, heartbeat, startup));
                    Some((index as u32, overdue.or_else(|| rank.unstarted(startup))?))
                });
                match hung {
                    // Work between two steps may take long, and there are enough steps.
                    Some(_) if self.leaving => self.dismiss(),
                    Some(_) if self.is_at_work() => {}
                    Some((rank, fault)) => self.fail(rank, fault),
                    None => {
                        self.life = None;
                        if self.all_linger(heartbeat) {
                            self.terminate();
                        }
                    }
                }
            }
            Ending::Terminated { kill_at } if Nanos::monotonic_now() >= kill_at => {
                self.ending = Ending::Killed;
                let some_are_left = self.ranks.iter().any(|rank| rank.end.is_none());
                self.killed_after = some_are_left.then(|| self.timeouts.grace.into());
                for rank in &mut self.ranks {
                    rank.leash.iter().for_each(LeashHandle::kill);
                    rank.dying_since.get_or_insert_with(Nanos::monotonic_now);
                }
            }
            Ending::Terminated { .. } | Ending::Killed => {}
        }
    }

    /// Whether a silent program of the user's computes, or may compute: then its time limit starts anew.
    fn is_at_work(&mut self) -> bool {
        let Some(pid) = self.pid.filter(|_| !self.spec.program.speaks()) else { return false };
        let Some(computes) = self.life.get_or_insert_with(|| Life::look_at(pid)).sign() else { return true };
        self.life = None;
        if computes {
            self.hear_all();
        }
        computes
    }

    /// Starts the time limits of silent ranks anew.
    fn hear_all(&mut self) {
        self.ranks.iter_mut().flat_map(|rank| &mut rank.listeners).for_each(|listener| listener.told(None));
    }

    /// Stops waiting for ranks that SIGKILL does not end: the launch ends without them.
    pub(super) fn give_up(&mut self) {
        let death = self.timeouts.death;
        let last = Nanos::monotonic_now().saturating_sub(death.into());
        for index in 0..self.ranks.len() {
            let rank = &mut self.ranks[index];
            if rank.end.is_some() || rank.dying_since.is_none_or(|since| since > last) {
                continue;
            }
            rank.abandon();
            let before = match &self.fault {
                Some((rank, (_, what))) => format!(", after rank {rank} {what}"),
                None => String::new(),
            };
            let what = format!("did not end within {} of SIGKILL{before}", Nanos::from(death));
            self.fail(index as u32, (ErrorKind::Stuck, what));
        }
    }

    /// Whether all remaining ranks have long sent their last event and do not exit, as happens when a library hangs at exit.
    /// All of their steps are on file.
    fn all_linger(&self, limit: Duration) -> bool {
        let lingers = |listener: &Listener| listener.lingering().is_some_and(|since| since > limit);
        let mut left = self.ranks.iter().filter(|rank| rank.end.is_none());
        left.all(|rank| rank.said_last_word() && rank.listeners.iter().all(lingers))
    }
}

/// The part of an event that counts for the owner of the launch: of a program that was released at its end, only the steps before that.
pub(super) fn counted(event: Event, released_at: Option<u64>) -> Option<Event> {
    let Some(released_at) = released_at else { return Some(event) };
    match event {
        Event::Step(step) if step.index >= released_at => None,
        Event::Held { index } if index > released_at => None,
        Event::Finished { steps, samples, loss } => {
            Some(Event::Finished { steps: steps.min(released_at), samples, loss })
        }
        event => Some(event),
    }
}
