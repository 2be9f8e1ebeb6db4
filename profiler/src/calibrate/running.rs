//! A launch of a calibration, to which each command is given when the last one is answered.

use std::path::PathBuf;

use record::launch_end::LaunchEnd;
use rig::{EventLoop, Member, RigEvent, StopMode};
use schema::{units::Nanos, wire::Event};

/// Why a restart has no numbers.
pub(super) enum Trouble {
    Failed(String),
    /// The user interrupts the calibration.
    Interrupted,
}

/// A launch that has not ended.
pub(super) struct Running<'a> {
    pub(super) event_loop: EventLoop<'a>,
    pub(super) member: Member,
    pub(super) ranks: u32,
    /// The path that a checkpoint may be written to.
    pub(super) checkpoint: PathBuf,
    pub(super) said: Vec<(u32, Nanos, Event)>,
    /// The process of its first rank.
    pub(super) pid: Option<u32>,
    pub(super) is_over: bool,
}

impl Drop for Running<'_> {
    /// Ends a launch after an error, so that it does not run beside the next job.
    fn drop(&mut self) {
        if !self.is_over {
            self.event_loop.rig.remove(self.member, StopMode::Immediately);
            while !matches!(self.event_loop.next(None), Some(RigEvent::Ended { .. })) {}
        }
    }
}

impl Running<'_> {
    /// Waits until every rank has sent an event that `wanted` accepts. Returns the first of each rank with its time, in the
    /// order of ranks.
    pub(super) fn all_say<T>(
        &mut self,
        wanted: impl Fn(&Event) -> Option<T>,
    ) -> Result<Vec<(Nanos, T)>, Trouble> {
        loop {
            if let Some(all) = self.all_have(&wanted) {
                return Ok(all);
            }
            self.go_on_until(None)?;
        }
    }

    /// See [`Running::all_say`]; `None` if a rank has not sent such an event.
    pub(super) fn all_have<T>(&self, wanted: impl Fn(&Event) -> Option<T>) -> Option<Vec<(Nanos, T)>> {
        let of_rank = |rank| {
            let mut said = self.said.iter().filter(|(of, ..)| *of == rank);
            said.find_map(|(_, at, event)| Some((*at, wanted(event)?)))
        };
        (0..self.ranks).map(of_rank).collect()
    }

    /// Waits for an event of a job that is not to end, at most until `deadline` and briefly.
    pub(super) fn go_on_until(&mut self, deadline: Option<Nanos>) -> Result<(), Trouble> {
        let refused = |(_, _, event): &(u32, Nanos, Event)| match event {
            Event::Refused { error } => Some(Trouble::Failed(format!("refused: {error}"))),
            _ => None,
        };
        if let Some(trouble) = self.said.iter().find_map(refused) {
            return Err(trouble);
        }
        match self.wait(deadline)? {
            Some(end) => Err(Trouble::Failed(end.err_detail.unwrap_or_else(|| "ended by itself".into()))),
            None => Ok(()),
        }
    }

    /// Lets the job leave at a step boundary, and waits until all of its processes have ended.
    pub(super) fn leave(&mut self) -> Result<LaunchEnd, Trouble> {
        self.event_loop.rig.remove(self.member, StopMode::AtStepBoundary);
        loop {
            match self.wait(None)? {
                Some(LaunchEnd { err: Some(_), err_detail, .. }) => {
                    return Err(Trouble::Failed(err_detail.unwrap_or_default()));
                }
                Some(end) => return Ok(end),
                None => {}
            }
        }
    }

    /// Waits briefly for an event, at most until `deadline`, and stores it. Returns the launch's end if it has ended.
    fn wait(&mut self, deadline: Option<Nanos>) -> Result<Option<LaunchEnd>, Trouble> {
        if self.event_loop.is_interrupted() {
            return Err(Trouble::Interrupted);
        }
        match self.event_loop.next(deadline) {
            Some(RigEvent::Said { rank, at, event, .. }) => self.said.push((rank, at, event)),
            Some(RigEvent::Ended { end, .. }) => {
                self.is_over = true;
                return Ok(Some(end));
            }
            Some(RigEvent::Started { pid, .. }) => drop(self.pid.get_or_insert(pid)),
            None => {}
        }
        Ok(None)
    }
}

/// The duration of step number `index`, if the event is that step.
pub(super) fn step(event: &Event, index: u64) -> Option<Nanos> {
    match event {
        Event::Step(step) if step.index == index => Some(step.dur_ns),
        _ => None,
    }
}
