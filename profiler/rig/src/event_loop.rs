//! The loop that follows launches: every wait for an event of a rig uses it.

use std::time::Duration;

use schema::units::Nanos;

use crate::{event::RigEvent, interrupt::Interrupt, rig::Rig, sampler::Sampler};

/// The longest wait, so that an interrupt is noticed soon.
const LONGEST_WAIT: Duration = Duration::from_millis(200);

/// Launches on a rig, the sampler that reads their processes, and the interrupt of the user.
pub struct EventLoop<'a> {
    pub rig: &'a mut Rig,
    /// `None` if the processes of launches are not sampled.
    sampler: Option<&'a Sampler>,
    interrupt: &'a Interrupt,
}

impl<'a> EventLoop<'a> {
    pub fn new(rig: &'a mut Rig, sampler: Option<&'a Sampler>, interrupt: &'a Interrupt) -> EventLoop<'a> {
        EventLoop { rig, sampler, interrupt }
    }

    /// Waits for the next event until `deadline`, but at most 200 ms. The sampler reads a process from its start to the end of
    /// its launch.
    pub fn next(&mut self, deadline: Option<Nanos>) -> Option<RigEvent> {
        let longest = Nanos::monotonic_now() + LONGEST_WAIT.into();
        let event = self.rig.next(Some(deadline.map_or(longest, |deadline| deadline.min(longest))))?;
        match (self.sampler, &event) {
            (Some(sampler), RigEvent::Started { launch, rank, pid, .. }) => {
                sampler.watch(launch, *rank, *pid)
            }
            (Some(sampler), RigEvent::Ended { launch, end, .. }) => sampler.unwatch(launch, &end.ranks),
            (Some(_), RigEvent::Said { .. } | RigEvent::Saved { .. } | RigEvent::NotSaved { .. })
            | (None, _) => {}
        }
        Some(event)
    }

    /// Whether the user has requested an end.
    pub fn is_interrupted(&self) -> bool {
        self.interrupt.asked()
    }
}
