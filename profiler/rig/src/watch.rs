//! The loop that watches launches: every wait for an event of a rig goes through it.

use std::{collections::HashMap, time::Duration};

use schema::units::Nanos;

use crate::{
    event::{Member, RigEvent},
    interrupt::Interrupt,
    launch::LaunchRequest,
    rig::Rig,
    sampler::Sampler,
};

/// The longest wait, so that an interrupt is seen soon.
const LONGEST_WAIT: Duration = Duration::from_millis(200);

/// Launches on a rig, the sampler that reads their processes, and the user who may interrupt them.
pub struct Watch<'a> {
    pub rig: &'a mut Rig,
    interrupt: &'a Interrupt,
    /// Absent where the processes of launches are not sampled.
    sampler: Option<&'a Sampler>,
    /// The names of the launches that have not ended.
    names: HashMap<Member, String>,
}

impl<'a> Watch<'a> {
    pub fn new(rig: &'a mut Rig, sampler: Option<&'a Sampler>, interrupt: &'a Interrupt) -> Watch<'a> {
        Watch { rig, interrupt, sampler, names: HashMap::new() }
    }

    /// Starts a launch with nothing granted, as [`Rig::add`] does.
    pub fn add(&mut self, request: LaunchRequest) -> Member {
        let name = request.spec.launch.clone();
        let member = self.rig.add(request);
        self.names.insert(member, name);
        member
    }

    /// Waits for the next event, at most to `deadline` and at most 200 ms. The sampler reads a process from its start to the end of
    /// its launch.
    pub fn next(&mut self, deadline: Option<Nanos>) -> Option<RigEvent> {
        let longest = Nanos::monotonic_now() + LONGEST_WAIT.into();
        let event = self.rig.next(Some(deadline.map_or(longest, |deadline| deadline.min(longest))))?;
        match &event {
            RigEvent::Started { member, rank, pid } => {
                if let (Some(sampler), Some(name)) = (self.sampler, self.names.get(member)) {
                    sampler.watch(name, *rank, *pid);
                }
            }
            RigEvent::Ended { member, .. } => {
                if let (Some(name), Some(sampler)) = (self.names.remove(member), self.sampler) {
                    sampler.unwatch(&name);
                }
            }
            RigEvent::Said { .. } => {}
        }
        Some(event)
    }

    /// Whether the user has asked for an end.
    pub fn is_interrupted(&self) -> bool {
        self.interrupt.asked()
    }
}
