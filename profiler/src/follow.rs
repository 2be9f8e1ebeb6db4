//! Keeps a job training while something else is measured, and records its steps.

use std::time::Duration;

use anyhow::bail;
use rig::{
    EventLoop, Exit, LaunchRequest, Member, Rig, RigEvent, StopMode, interrupt::Interrupt, sampler::Sampler,
};
use schema::{units::Nanos, wire::Event};

/// The time at the start of a job whose steps are not measured.
pub const WARM_UP: Duration = Duration::from_secs(5);
/// The granted time beyond the known steps: more than two intervals between reads of events while the harness does not watch.
const AHEAD_NS: u64 = 3_000_000_000;

/// A job that trains alone on its rig.
pub struct Follower<'a> {
    event_loop: EventLoop<'a>,
    member: Member,
    /// The end and the duration of each step, ns.
    steps: Vec<(Nanos, u64)>,
}

impl<'a> Follower<'a> {
    /// Starts a launch and waits until it trains. Its processes are sampled if there is a sampler.
    ///
    /// # Errors
    /// The launch ends before that, or the user interrupts.
    pub fn start(
        rig: &'a mut Rig,
        sampler: Option<&'a Sampler>,
        request: LaunchRequest,
        interrupt: &'a Interrupt,
    ) -> anyhow::Result<Follower<'a>> {
        let mut event_loop = EventLoop::new(rig, sampler, interrupt);
        let member = event_loop.rig.add(request);
        loop {
            if event_loop.is_interrupted() {
                return Err(Exit::Interrupted.because("interrupted"));
            }
            match event_loop.next(None) {
                Some(RigEvent::Said { event: Event::Ready(_), .. }) => {
                    event_loop.rig.extend(member, 2);
                    return Ok(Follower { event_loop, member, steps: Vec::new() });
                }
                Some(RigEvent::Ended { end, .. }) => bail!("{}", end.err_detail.unwrap_or_default()),
                Some(_) | None => {}
            }
        }
    }

    /// Sets the interval between reads of the job's events.
    pub fn look_every(&self, interval: Duration) {
        self.event_loop.rig.look_every(self.member, interval);
    }

    /// Follows the job for this time, and keeps its grant well ahead of the next read.
    ///
    /// # Errors
    /// The job ends.
    pub fn follow(&mut self, time: Duration) -> anyhow::Result<()> {
        let until = Nanos::monotonic_now() + Nanos::from(time);
        while Nanos::monotonic_now() < until {
            match self.event_loop.next(Some(until)) {
                Some(RigEvent::Said { at, event: Event::Step(step), .. }) => {
                    self.steps.push((at, step.dur_ns.0));
                    let steps = step.index + 1 + AHEAD_NS / step.dur_ns.0.max(1) + 2;
                    self.event_loop.rig.extend(self.member, steps);
                }
                Some(RigEvent::Ended { end, .. }) => {
                    bail!("the job ended early: {}", end.err_detail.unwrap_or_default())
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Ends the job at a step boundary and returns all its steps.
    pub fn dismiss(mut self) -> Vec<(Nanos, u64)> {
        self.event_loop.rig.remove(self.member, StopMode::AtStepBoundary);
        loop {
            match self.event_loop.next(None) {
                Some(RigEvent::Said { at, event: Event::Step(step), .. }) => {
                    self.steps.push((at, step.dur_ns.0));
                }
                Some(RigEvent::Ended { .. }) => return self.steps,
                Some(_) | None => {}
            }
        }
    }
}
