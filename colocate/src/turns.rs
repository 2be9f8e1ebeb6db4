//! The turns of members that share devices, and that come and go.
//!
//! Of the members that share a device, one runs at a time. A member runs when it has its turn on all of its devices, and two that
//! share none may run at once. All turns are in one order, by the number of turns that members have had and then by their own
//! numbers, and a member does not pass another that shares a device with it. Of the members that wait, the first one in this order
//! therefore waits only for members that run, and no two wait for each other.
//!
//! [`Turns`] only decides. Its owner grants steps, and reports when a member rests.

use std::{collections::BTreeMap, time::Duration};

use rig::pace::Pace;
use schema::sharing::Quantum;

/// The share of a turn in its first part: long enough to measure the pace, and short enough that the rest can correct an error.
const FIRST_PART: f64 = 0.75;

/// The turns of members, by their numbers.
#[derive(Clone, Debug)]
pub struct Turns<M> {
    quantum: Quantum,
    /// The longest part of a turn.
    part: Duration,
    seats: BTreeMap<M, Seat>,
}

/// A member, which may be away for a while.
#[derive(Clone, Debug)]
struct Seat {
    devices: Vec<u32>,
    weight: u32,
    account: Account,
    /// The number of its turns.
    round: u64,
    takes_part: bool,
    /// What it runs. `None` while it rests.
    runs: Option<Run>,
}

#[derive(Clone, Copy, Debug)]
enum Run {
    /// Steps outside of a turn, because no other member shared its devices.
    Freely,
    /// Part of a turn.
    Part {
        steps: u64,
        /// Steps that are left after this part, in a turn with a number of steps.
        left: u64,
        is_last: bool,
        /// The time of its steps before this part.
        worked_ns: u64,
    },
}

impl<M: Copy + Ord> Turns<M> {
    /// Turns of this length, of which a member is granted at most `part` at a time. It can leave between two parts.
    pub fn new(quantum: Quantum, part: Duration) -> Turns<M> {
        Turns { quantum, part, seats: BTreeMap::new() }
    }

    /// A member takes part from now on, if it did not already. If it does not rest, others wait until it does.
    pub fn join(&mut self, member: M, devices: &[u32], weight: u32, rests: bool) {
        let seat = self.seats.entry(member).or_insert_with(|| Seat {
            devices: devices.to_vec(),
            weight,
            account: Account::default(),
            round: 0,
            takes_part: false,
            runs: None,
        });
        if !seat.takes_part {
            seat.takes_part = true;
            if !rests {
                seat.runs.get_or_insert(Run::Freely);
            }
            self.align(member);
        }
    }

    /// A member has no turns for a while. If it does not rest, others still wait until it does.
    pub fn leave(&mut self, member: M) {
        if let Some(seat) = self.seats.get_mut(&member) {
            seat.takes_part = false;
        }
    }

    /// A member has ended.
    pub fn remove(&mut self, member: M) {
        self.seats.remove(&member);
    }

    /// Whether another member takes part, or still runs, on a device of this one.
    pub fn contends(&self, member: M) -> bool {
        let Some(seat) = self.seats.get(&member) else { return false };
        let others = self.seats.iter().filter(|(other, _)| **other != member);
        others.map(|(_, other)| other).any(|other| other.is_there() && seat.shares_with(other))
    }

    /// A member that contends with no other is granted steps outside of a turn.
    pub fn run_freely(&mut self, member: M) {
        if let Some(seat) = self.seats.get_mut(&member) {
            (seat.runs, seat.account) = (Some(Run::Freely), Account::default());
        }
    }

    /// The next turn that can begin, and the number of its steps.
    pub fn begin<'a>(&mut self, pace: impl Fn(M) -> &'a Pace) -> Option<(M, u64)> {
        loop {
            let member = self.first()?;
            let seat = self.seats.get_mut(&member)?;
            let pace = pace(member);
            let steps = seat.account.next_turn(self.quantum, seat.weight, pace.step_ns());
            if steps == 0 {
                seat.round += 1;
                continue;
            }
            // The number of steps is based on the pace of the member's last turn, and the speed of the host or a clock may have
            // changed since. A turn with a length in time therefore has several parts, and each is computed from the pace of the one
            // before.
            let first = match self.quantum {
                Quantum::Steps(_) => steps,
                Quantum::Time(_) => (FIRST_PART * steps as f64).ceil() as u64,
            };
            let first = first.min(steps_in(self.part, pace.step_ns()));
            let (left, worked_ns) = (steps - first, pace.worked_ns());
            let is_last = left == 0 && pace.step_ns().is_some();
            seat.runs = Some(Run::Part { steps: first, left, is_last, worked_ns });
            return Some((member, first));
        }
    }

    /// A member has done the steps that it was granted. Returns how many it has left in its turn; `None` if the turn is over.
    pub fn rested(&mut self, member: M, pace: &Pace) -> Option<u64> {
        let seat = self.seats.get_mut(&member)?;
        if let Run::Part { steps, left, is_last, worked_ns } = seat.runs.take()? {
            let took_ns = pace.worked_ns() - worked_ns;
            seat.account.spend(took_ns);
            let step_ns = took_ns as f64 / steps as f64;
            let left = match self.quantum {
                Quantum::Steps(_) => left,
                Quantum::Time(_) if is_last || took_ns == 0 => 0,
                Quantum::Time(_) => seat.account.steps_at(step_ns),
            };
            if seat.takes_part && left > 0 {
                let next = left.min(steps_in(self.part, Some(step_ns)));
                let (left, worked_ns) = (left - next, pace.worked_ns());
                seat.runs = Some(Run::Part { steps: next, left, is_last: left == 0, worked_ns });
                return Some(next);
            }
        }
        seat.round += 1;
        None
    }

    /// Whether all members that take part rest and have had the same number of turns.
    pub fn round_is_over(&self) -> bool {
        let mut there = self.seats.values().filter(|seat| seat.is_there());
        let first = there.next().map(|seat| seat.round);
        self.seats.values().all(|seat| seat.runs.is_none()) && there.all(|seat| Some(seat.round) == first)
    }

    /// The first member in the order of turns that can begin one.
    fn first(&self) -> Option<M> {
        let place = |member: M, seat: &Seat| (seat.round, member);
        let can_begin = |&(&member, seat): &(&M, &Seat)| {
            let holds_up = |(&other, of): (&M, &Seat)| {
                let is_before = of.takes_part && place(other, of) < place(member, seat);
                other != member && seat.shares_with(of) && (is_before || of.runs.is_some())
            };
            seat.takes_part && seat.runs.is_none() && !self.seats.iter().any(holds_up)
        };
        let found = self.seats.iter().filter(can_begin).min_by_key(|(member, seat)| place(**member, seat));
        found.map(|(member, _)| *member)
    }

    /// Counts the turns of a member that joins, and of those with which it shares devices, from one number: otherwise those with
    /// fewer turns would have the devices for themselves until they had caught up.
    fn align(&mut self, member: M) {
        let mut circles = vec![vec![member]];
        let mut left: Vec<M> =
            self.seats.iter().filter(|(_, seat)| seat.is_there()).map(|(id, _)| *id).collect();
        left.retain(|other| *other != member);
        while let Some(at) = left.iter().position(|other| self.share(member, *other)) {
            let mut circle = vec![left.swap_remove(at)];
            let mut met = 0;
            while let Some(&of) = circle.get(met) {
                circle.extend(left.extract_if(.., |other| self.share(of, *other)));
                met += 1;
            }
            circles.push(circle);
        }
        let furthest = |circle: &[M]| circle.iter().map(|id| self.seats[id].round).max().unwrap_or(0);
        let rounds: Vec<u64> = circles.iter().map(|circle| furthest(circle)).collect();
        let last = rounds.iter().copied().max().unwrap_or(0);
        for (circle, round) in circles.into_iter().zip(rounds) {
            // A difference of one is that between members that have had their turn in this round and those that have not.
            let behind = if last - round > 1 { last - round } else { 0 };
            for id in circle {
                if let Some(seat) = self.seats.get_mut(&id) {
                    seat.round += behind;
                }
            }
        }
    }

    fn share(&self, one: M, other: M) -> bool {
        self.seats[&one].shares_with(&self.seats[&other])
    }
}

/// The number of steps that take this time: at least one, and one before the first step, when the pace is not known.
fn steps_in(time: Duration, step_ns: Option<f64>) -> u64 {
    step_ns.map_or(1, |step_ns| (time.as_nanos() as f64 / step_ns) as u64).max(1)
}

impl Seat {
    fn shares_with(&self, other: &Seat) -> bool {
        self.devices.iter().any(|device| other.devices.contains(device))
    }

    fn is_there(&self) -> bool {
        self.takes_part || self.runs.is_some()
    }
}

/// The time that a member is owed, or owes if it is negative.
///
/// Turns are whole steps, so a turn with a length in time is never exact. The difference is added to later turns, and a member
/// with a step that was longer than several turns skips some: this is deficit round robin (M. Shreedhar and G. Varghese,
/// SIGCOMM 1995). Members therefore get time in the ratio of their weights, whatever the length of their steps.
#[derive(Clone, Copy, Debug, Default)]
struct Account {
    owed_ns: f64,
}

impl Account {
    /// The number of steps of the next turn at this pace. It is 1 before the first step, when the pace is not known; the turn then
    /// goes on at the pace of that step.
    fn next_turn(&mut self, quantum: Quantum, weight: u32, step_ns: Option<f64>) -> u64 {
        match quantum {
            Quantum::Steps(steps) => u64::from(steps) * u64::from(weight),
            Quantum::Time(time) => {
                self.owed_ns += time.as_nanos() as f64 * f64::from(weight);
                step_ns.map_or(1, |step_ns| self.steps_at(step_ns))
            }
        }
    }

    /// The number of steps that take the owed time at this pace.
    fn steps_at(&self, step_ns: f64) -> u64 {
        (self.owed_ns / step_ns).round().max(0.0) as u64
    }

    fn spend(&mut self, ns: u64) {
        self.owed_ns -= ns as f64;
    }
}

#[cfg(test)]
mod tests;
