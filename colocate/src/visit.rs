//! One visit of a group: its members are started and warmed up one after another, released together, and measured while they
//! share.
//!
//! In its first steps a job chooses kernels, allocates memory and reads files. A choice that is made beside other jobs may be a
//! bad one, so each member warms up alone and is then held. A member that ends by itself is started again, so that no member is
//! measured beside an empty seat. A member that fails contaminates the visit, and all others leave. The part of the visit that
//! counts is found later, from its raw files; here the visit only has to be long enough.

mod seat;
mod turns;
mod warm_up;

use std::ops::Range;

use anyhow::ensure;
use record::{
    group::{Turn, Visit},
    launch_end::LaunchEnd,
};
use rig::{
    Amount, EventLoop, LaunchRequest, Member, Rig, RigEvent, StopCheck, StopMode, StopRule,
    interrupt::Interrupt, output, sampler::Sampler,
};
use schema::{
    FORMAT,
    sharing::Sharing,
    units::{Nanos, Window},
};

use self::seat::{Launched, Seat};
use crate::{
    sharing::{Backend, backend},
    window,
};

/// The members of a visit, their sharing mode, and when the visit ends.
pub struct VisitRequest<'a> {
    pub sharing: &'a Sharing,
    pub seats: Vec<SeatRequest>,
    /// Makes the request of another launch for a seat whose member has ended. Its name must be new: a launch that was just
    /// requested may have no file yet.
    pub again: &'a mut dyn FnMut(u32) -> anyhow::Result<LaunchRequest>,
    /// When the visit is long enough. It applies to the time that all members share, or to each member's turn if they run one
    /// after another. With [`StopRule::End`], and with a number of steps if no member has steps, the visit is over when each
    /// member has ended by itself.
    pub rule: StopRule,
}

/// The first launch of a seat.
pub struct SeatRequest {
    pub request: LaunchRequest,
    /// Whether the launch alone showed that the member obeys no grant. Such a member cannot be held, so it starts when the
    /// others are released.
    pub outside: bool,
}

/// Measures a group once. Returns `None` if the user interrupted it. No process of a member is left when it returns.
///
/// # Errors
/// `again` fails. An error of the sharing mode is recorded in the visit instead.
pub fn visit_group(
    rig: &mut Rig,
    sampler: &Sampler,
    request: VisitRequest<'_>,
    interrupt: &Interrupt,
) -> anyhow::Result<Option<Visit>> {
    let VisitRequest { sharing, seats: requests, again, rule } = request;
    let all_obey = requests.iter().all(|seat| !seat.outside);
    ensure!(
        all_obey || !sharing.needs_steps(),
        "{sharing} needs steps of each member, and one of them shows none"
    );
    let devices: Vec<_> = requests.iter().flat_map(|seat| seat.request.spec.devices.clone()).collect();
    let mut backend = backend(sharing, &devices);
    let seats = requests.iter().map(|seat| Seat::new(seat.outside)).collect();
    let spec = requests.first().map(|seat| &seat.request.spec);
    let mut visit = Visit {
        format: FORMAT,
        group: spec.and_then(|spec| spec.seat.as_ref()).map(|seat| seat.group.clone()).unwrap_or_default(),
        sharing: sharing.clone(),
        block: spec.map_or(0, |spec| spec.block),
        part: spec.map_or(0, |spec| spec.part),
        barrier_mono_ns: None,
        end_mono_ns: None,
        launches: vec![Vec::new(); requests.len()],
        turns: Vec::new(),
        not_shared: None,
    };
    if let Err(error) = backend.set_up(requests.len()) {
        visit.not_shared = Some(format!("{sharing} could not be set up: {error:#}"));
        return Ok(Some(visit));
    }
    let event_loop = EventLoop::new(rig, Some(sampler), interrupt);
    let mut group = Group { event_loop, backend, again, rule, seats, visit };
    let outcome = group.run(sharing, requests);
    let outcome = group.dismiss(outcome);
    if let Err(error) = group.backend.tear_down() {
        // The group was measured nevertheless, and the next process removes what is left.
        output::note(format_args!("warning: {error:#}"));
    }
    match outcome {
        Ok(()) | Err(Stop::Failed { .. }) => Ok(Some(group.visit)),
        Err(Stop::NotShared(why)) => Ok(Some(Visit { not_shared: Some(why), ..group.visit })),
        Err(Stop::Interrupted) => Ok(None),
        Err(Stop::Error(error)) => Err(error),
    }
}

/// The reason that a visit ends early.
enum Stop {
    Interrupted,
    /// This launch failed or never came to its first step, and contaminates the others.
    Failed {
        launch: String,
    },
    /// Members were found not to share as requested.
    NotShared(String),
    Error(anyhow::Error),
}

impl From<anyhow::Error> for Stop {
    fn from(error: anyhow::Error) -> Stop {
        Stop::Error(error)
    }
}

/// The members of a group on the rig.
struct Group<'a> {
    event_loop: EventLoop<'a>,
    backend: Box<dyn Backend>,
    again: &'a mut dyn FnMut(u32) -> anyhow::Result<LaunchRequest>,
    rule: StopRule,
    seats: Vec<Seat>,
    visit: Visit,
}

impl Group<'_> {
    fn run(&mut self, sharing: &Sharing, requests: Vec<SeatRequest>) -> Result<(), Stop> {
        let mut outside = Vec::new();
        for (seat, SeatRequest { request, outside: is_outside }) in requests.into_iter().enumerate() {
            if is_outside {
                outside.push((seat, request));
            } else {
                self.start(seat, request);
                self.warm_up(seat)?;
            }
        }
        self.verify()?;
        let barrier = Nanos::monotonic_now();
        self.visit.barrier_mono_ns = Some(barrier);
        outside.into_iter().for_each(|(seat, request)| self.start(seat, request));
        match sharing {
            Sharing::Alone | Sharing::TimeSlice { .. } | Sharing::CpuShares { .. } | Sharing::Mps { .. } => {
                self.at_once(barrier)?
            }
            Sharing::StepGate { quantum, weights } => self.in_turns(barrier, *quantum, weights)?,
            Sharing::Sequential => self.one_after_another()?,
        }
        self.verify()
    }

    /// Runs all members without restrictions.
    fn at_once(&mut self, barrier: Nanos) -> Result<(), Stop> {
        let all = 0..self.seats.len();
        let mut stop = StopCheck::new(self.rule);
        self.supply(all.clone());
        while !self.has_enough(&mut stop, all.clone(), barrier, &[]) {
            self.next(None)?;
            self.supply(all.clone());
        }
        Ok(())
    }

    /// Grants members enough steps that they do not wait for the harness.
    fn supply(&mut self, seats: Range<usize>) {
        for launched in self.seats[seats].iter_mut().filter_map(Seat::launched_mut) {
            if launched.is_ready()
                && let Some(steps) = launched.pace.due()
            {
                self.event_loop.rig.extend(launched.member, steps);
            }
        }
    }

    /// Whether these seats have shared long enough since `since`, or the time limit is over.
    fn has_enough(&self, stop: &mut StopCheck, seats: Range<usize>, since: Nanos, turns: &[Turn]) -> bool {
        let seats = &self.seats[seats];
        let now = Nanos::monotonic_now();
        let steps = seats.iter().filter_map(|seat| seat.steps_since(since)).min().unwrap_or(0);
        let seen = Amount { seconds: (now - since).as_secs_f64(), steps };
        // The cost of sharing to a program without steps is known only when it has ended.
        let ended = |seat: &Seat| seat.has_steps() || seat.came_to_its_end_since(since);
        self.is_over_by_itself(seats, since)
            || ((seats.iter().all(ended) || stop.is_out_of_patience(seen))
                && stop.is_reached(seen, || common(seats, Window { start: since, end: now }, turns)))
    }

    /// Waits for an event until `deadline`, but returns early enough to handle an interrupt.
    fn next(&mut self, deadline: Option<Nanos>) -> Result<(), Stop> {
        match self.event_loop.next(deadline) {
            Some(RigEvent::Started { member, pid, .. }) => {
                if let Some(launched) = self.launched(member) {
                    launched.started(pid);
                }
            }
            Some(RigEvent::Said { member, rank, at, event }) => {
                if let Some(launched) = self.launched(member) {
                    let was_seen = launched.is_seen();
                    launched.on_event(rank, at, &event);
                    if !was_seen && launched.is_seen() {
                        self.verify_member(member)?;
                    }
                }
            }
            Some(RigEvent::Ended { member, end, .. }) => self.replace(member, &end)?,
            // A checkpoint says nothing of the times of a group.
            Some(RigEvent::Saved { .. } | RigEvent::NotSaved { .. }) | None => {}
        }
        if self.event_loop.is_interrupted() { Err(Stop::Interrupted) } else { Ok(()) }
    }

    /// Starts a member again that has ended by itself.
    fn replace(&mut self, member: Member, end: &LaunchEnd) -> Result<(), Stop> {
        let Some(seat) = self.seats.iter().position(|seat| seat.has(member)) else { return Ok(()) };
        let failed = self.note_end(member, end);
        if let Some(launch) = failed {
            return Err(Stop::Failed { launch });
        }
        if self.visit.barrier_mono_ns.is_none_or(|since| !self.is_over_by_itself(&self.seats, since)) {
            let request = (self.again)(seat as u32)?;
            self.start(seat, request);
        }
        Ok(())
    }

    /// Whether the visit only waits for members to end by themselves, and all have.
    fn is_over_by_itself(&self, seats: &[Seat], since: Nanos) -> bool {
        let without_steps = seats.iter().all(|seat| !seat.has_steps());
        (self.rule == StopRule::End || (matches!(self.rule, StopRule::Steps(_)) && without_steps))
            && seats.iter().all(|seat| seat.came_to_its_end_since(since))
    }

    /// Records that a launch has ended, and returns its name if it failed. A launch with steps that ended before its first one
    /// counts as failed, because it would only do so again.
    fn note_end(&mut self, member: Member, end: &LaunchEnd) -> Option<String> {
        let seat = self.seats.iter_mut().find(|seat| seat.has(member))?;
        let outside = seat.outside;
        let launched = seat.launched_mut()?;
        launched.ended = Some(end.mono_ns);
        let failed = end.err.is_some() || (!outside && launched.steps.is_empty());
        failed.then(|| launched.name.clone())
    }

    fn start(&mut self, seat: usize, mut request: LaunchRequest) {
        request.isolation = self.backend.isolation(seat);
        let (spec, timeouts) = (request.spec.clone(), request.timeouts);
        self.visit.launches[seat].push(spec.launch.clone());
        let member = self.event_loop.rig.add(request);
        self.seats[seat].launches.push(Launched::new(member, &spec, timeouts));
    }

    fn launched(&mut self, member: Member) -> Option<&mut Launched> {
        self.seats.iter_mut().find(|seat| seat.has(member))?.launched_mut()
    }

    /// Checks the current launch of each seat, before members share and after it. One that was just started again is checked at its
    /// first step: until then it has done nothing that counts, and may not have opened the device.
    fn verify(&mut self) -> Result<(), Stop> {
        (0..self.seats.len()).try_for_each(|seat| self.verify_seat(seat))
    }

    fn verify_member(&mut self, member: Member) -> Result<(), Stop> {
        let seat = self.seats.iter().position(|seat| seat.has(member));
        seat.map_or(Ok(()), |seat| self.verify_seat(seat))
    }

    fn verify_seat(&mut self, number: usize) -> Result<(), Stop> {
        let seat = &self.seats[number];
        let Some(launched) = seat.launches.last().filter(|launched| seat.outside || launched.is_seen())
        else {
            return Ok(());
        };
        self.backend
            .verify(number, &launched.pids)
            .map_err(|why| Stop::NotShared(format!("{} does not share as requested: {why}", launched.name)))
    }

    /// Makes all members leave as the outcome requires, and waits until they have ended.
    fn dismiss(&mut self, mut outcome: Result<(), Stop>) -> Result<(), Stop> {
        self.visit.end_mono_ns = Some(Nanos::monotonic_now());
        self.tell_to_leave(&outcome);
        while self.seats.iter().any(|seat| seat.alive().is_some()) {
            if let Some(RigEvent::Ended { member, end, .. }) = self.event_loop.next(None) {
                self.note_end(member, &end);
            }
            if self.event_loop.is_interrupted() && !matches!(outcome, Err(Stop::Interrupted)) {
                outcome = Err(Stop::Interrupted);
                self.tell_to_leave(&outcome);
            }
        }
        outcome
    }

    fn tell_to_leave(&self, outcome: &Result<(), Stop>) {
        for launched in self.seats.iter().filter_map(Seat::alive) {
            match outcome {
                Ok(()) => self.event_loop.rig.remove(launched.member, StopMode::AtStepBoundary),
                // A member that failed and is alive has done nothing yet.
                Err(Stop::Failed { launch }) if *launch == launched.name => {
                    self.event_loop.rig.remove(launched.member, StopMode::AtStepBoundary);
                }
                Err(Stop::Failed { launch }) => self.event_loop.rig.contaminate(launched.member, launch),
                Err(Stop::Interrupted | Stop::NotShared(_) | Stop::Error(_)) => {
                    self.event_loop.rig.remove(launched.member, StopMode::Immediately)
                }
            }
        }
    }
}

/// The amount of a visit that counts so far, for the member with the least.
fn common(seats: &[Seat], visit: Window, turns: &[Turn]) -> Amount {
    let lanes: Vec<Vec<window::LaunchActivity>> = seats.iter().map(|seat| seat.lanes(visit.end)).collect();
    let Some(parts) = window::common(&lanes, visit, turns) else { return Amount::default() };
    if parts.iter().any(|part| !part.class.is_steady()) {
        return Amount::default();
    }
    let steps =
        parts.iter().zip(seats).filter(|(_, seat)| seat.has_steps()).map(|(part, _)| part.steps.len());
    Amount {
        seconds: parts.iter().map(|part| Nanos(part.window_ns).as_secs_f64()).fold(f64::INFINITY, f64::min),
        // Programs without steps do not limit the amount.
        steps: steps.min().unwrap_or(usize::MAX),
    }
}
