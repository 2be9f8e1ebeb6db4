//! A launch that is driven step by step: each order is given when the last one is answered.

use std::{path::PathBuf, time::Duration};

use record::launch_end::LaunchEnd;
use rig::{EventLoop, LaunchRequest, Member, RigEvent, SavedSteps, StopMode};
use schema::{units::Nanos, wire::Event};

/// The interval between looks whether a program has begun.
const LOOK_AT_START: Duration = Duration::from_secs(1);

/// The longest wait for the ranks of a program after its first one.
const LAST_RANK: Duration = Duration::from_secs(10);

/// Why a launch could not be driven to its end.
pub(crate) enum Trouble {
    Failed(String),
    /// The user interrupts the program.
    Interrupted,
}

/// The event that shows that a program trains.
#[derive(Clone, Copy)]
pub(crate) enum Begins {
    /// Its step hook is ready.
    Ready,
    /// A line of its output shows a step.
    Heard,
}

impl Begins {
    fn shows(self, event: &Event) -> bool {
        match self {
            Begins::Ready => matches!(event, Event::Ready(_)),
            Begins::Heard => matches!(event, Event::Hello(_)),
        }
    }

    /// What is said of a program that does not train.
    fn missing(self) -> &'static str {
        match self {
            Begins::Ready => "its step hook was not ready",
            Begins::Heard => "no line of its output showed a step",
        }
    }
}

/// A launch that has not ended.
pub(crate) struct Running<'a> {
    pub(crate) event_loop: EventLoop<'a>,
    pub(crate) member: Member,
    pub(crate) ranks: u32,
    /// The path that a checkpoint may be written to.
    pub(crate) checkpoint: PathBuf,
    pub(crate) said: Vec<(u32, Nanos, Event)>,
    /// What a program has saved, and when this was seen.
    pub(crate) saved: Vec<(Nanos, SavedSteps)>,
    /// Whether the program has saved since the last order to save.
    has_answered: bool,
    /// The process of its first rank.
    pub(crate) pid: Option<u32>,
    pub(crate) is_over: bool,
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

impl<'a> Running<'a> {
    /// Starts a launch, which may write a checkpoint to this path.
    pub(crate) fn start(event_loop: EventLoop<'a>, request: LaunchRequest) -> Running<'a> {
        let checkpoint = request.run.checkpoint_path(&request.spec.launch);
        let ranks = request.spec.processes();
        let member = event_loop.rig.add(request);
        let (said, saved, pid) = (Vec::new(), Vec::new(), None);
        let (has_answered, is_over) = (false, false);
        Running { event_loop, member, ranks, checkpoint, said, saved, has_answered, pid, is_over }
    }

    /// Grants a program its first steps, and waits until it trains, at most for `limit`. Returns when this was.
    pub(crate) fn begin(&mut self, begins: Begins, steps: u64, limit: Duration) -> Result<Nanos, Trouble> {
        self.event_loop.rig.extend(self.member, steps);
        let until = Nanos::monotonic_now() + limit.into();
        loop {
            if let Some(trains) = self.all_have(|event| begins.shows(event).then_some(())) {
                return Ok(trains.iter().map(|(at, ())| *at).max().unwrap_or_default());
            }
            let now = Nanos::monotonic_now();
            if now > until {
                let (missing, waited) = (begins.missing(), Nanos::from(limit));
                return Err(Trouble::Failed(format!("{missing} after {waited}")));
            }
            self.go_on_until(Some(now + LOOK_AT_START.into()))?;
        }
    }

    /// Orders a program that rests to save. Returns when its checkpoint was seen.
    pub(crate) fn save(&mut self) -> Result<Nanos, Trouble> {
        self.event_loop.rig.save(self.member);
        loop {
            if let Some((at, _)) = self.saved.last().filter(|_| self.has_answered) {
                return Ok(*at);
            }
            self.go_on_until(None)?;
        }
    }

    /// Waits until every rank has sent an event that `wanted` accepts. Returns the first of each rank with its time, in the
    /// order of ranks.
    pub(crate) fn all_say<T>(
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

    /// Waits until so many ranks of a program rest, at most for [`LAST_RANK`]. The ranks of a program need not wait for each other, and a
    /// rank that the step hook does not see never rests.
    pub(crate) fn wait_for_ranks(&mut self, ranks: u32) -> Result<(), Trouble> {
        let until = Nanos::monotonic_now() + LAST_RANK.into();
        let rests = |said: &[(u32, Nanos, Event)], rank| {
            said.iter().any(|(of, _, event)| *of == rank && matches!(event, Event::Held { .. }))
        };
        while !(0..ranks).all(|rank| rests(&self.said, rank)) && Nanos::monotonic_now() < until {
            self.go_on_until(Some(until))?;
        }
        Ok(())
    }

    /// See [`Running::all_say`]; `None` if a rank has not sent such an event.
    pub(crate) fn all_have<T>(&self, wanted: impl Fn(&Event) -> Option<T>) -> Option<Vec<(Nanos, T)>> {
        let of_rank = |rank| {
            let mut said = self.said.iter().filter(|(of, ..)| *of == rank);
            said.find_map(|(_, at, event)| Some((*at, wanted(event)?)))
        };
        (0..self.ranks).map(of_rank).collect()
    }

    /// Waits for an event of a job that is not to end, at most until `deadline` and briefly.
    pub(crate) fn go_on_until(&mut self, deadline: Option<Nanos>) -> Result<(), Trouble> {
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
    pub(crate) fn leave(&mut self) -> Result<LaunchEnd, Trouble> {
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
            Some(RigEvent::Saved { steps, was_ordered, .. }) => {
                self.saved.push((Nanos::monotonic_now(), steps));
                self.has_answered |= was_ordered;
            }
            Some(RigEvent::NotSaved { why, .. }) => return Err(Trouble::Failed(why)),
            None => {}
        }
        Ok(None)
    }
}

/// The duration of step number `index`, if the event is that step.
pub(crate) fn step(event: &Event, index: u64) -> Option<Nanos> {
    match event {
        Event::Step(step) if step.index == index => Some(step.dur_ns),
        _ => None,
    }
}
