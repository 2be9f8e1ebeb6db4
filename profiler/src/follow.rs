//! Keeps a job training for as long as something else is measured, and notes its steps.

use std::time::Duration;

use anyhow::bail;
use rig::{Exit, LaunchRequest, Leave, Member, Rig, RigEvent, interrupt::Interrupt};
use schema::{units::Nanos, wire::Event};

/// The first steps of a job are not like those to come.
pub const WARM_UP: Duration = Duration::from_secs(5);
/// Granted beyond the steps that are known: longer than two looks of a harness that looks away.
const AHEAD_NS: u64 = 3_000_000_000;
/// A look at the interrupt flag, at least so often.
const LOOK: Nanos = Nanos(100_000_000);

/// A job that trains, alone on its rig.
pub struct Follower {
    pub member: Member,
    /// When each step ended and how long it took, ns.
    pub steps: Vec<(Nanos, u64)>,
}

impl Follower {
    /// Starts a launch and waits until it trains. `started` hears of each of its ranks and pids.
    ///
    /// # Errors
    /// Where it ends before that, and where the user interrupts.
    pub fn start(
        rig: &mut Rig,
        request: LaunchRequest,
        interrupt: &Interrupt,
        mut started: impl FnMut(u32, u32),
    ) -> anyhow::Result<Follower> {
        let member = rig.add(request);
        loop {
            if interrupt.asked() {
                return Err(Exit::Interrupted.because("interrupted"));
            }
            match rig.next(Some(Nanos::monotonic_now() + LOOK)) {
                Some(RigEvent::Started { rank, pid, .. }) => started(rank, pid),
                Some(RigEvent::Said { event: Event::Ready(_), .. }) => {
                    rig.extend(member, 2);
                    return Ok(Follower { member, steps: Vec::new() });
                }
                Some(RigEvent::Ended { end, .. }) => bail!("{}", end.err_detail.unwrap_or_default()),
                Some(RigEvent::Said { .. }) | None => {}
            }
        }
    }

    /// Follows the job for so long, and keeps it supplied well beyond the next look.
    ///
    /// # Errors
    /// Where the job ends.
    pub fn follow(&mut self, rig: &mut Rig, time: Duration) -> anyhow::Result<()> {
        let until = Nanos::monotonic_now() + Nanos::from(time);
        while Nanos::monotonic_now() < until {
            match rig.next(Some(until)) {
                Some(RigEvent::Said { at, event: Event::Step(step), .. }) => {
                    self.steps.push((at, step.dur_ns.0));
                    rig.extend(self.member, step.index + 1 + AHEAD_NS / step.dur_ns.0.max(1) + 2);
                }
                Some(RigEvent::Ended { end, .. }) => {
                    bail!("the job ended early: {}", end.err_detail.unwrap_or_default())
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Lets the job go at a step boundary and returns all its steps.
    pub fn dismiss(mut self, rig: &mut Rig) -> Vec<(Nanos, u64)> {
        rig.remove(self.member, Leave::AtBoundary);
        loop {
            match rig.next(None) {
                Some(RigEvent::Said { at, event: Event::Step(step), .. }) => {
                    self.steps.push((at, step.dur_ns.0));
                }
                Some(RigEvent::Ended { .. }) | None => return self.steps,
                Some(_) => {}
            }
        }
    }
}
