//! Members that take turns: one runs, and all others are held at a step boundary.

use std::time::Duration;

use record::group::Turn;
use rig::{POLL_TRAINING, StopCheck, pace::SHORTEST_LOOK};
use schema::{
    sharing::{Quantum, Weights},
    units::Nanos,
};

use super::{Group, Stop};
use crate::turns::Turns;

impl Group<'_> {
    /// Runs rounds in which each member has a turn of the length that its weight requires. The visit ends with a complete
    /// round, so that no member has an additional turn.
    pub(super) fn in_turns(
        &mut self,
        barrier: Nanos,
        quantum: Quantum,
        weights: &Weights,
    ) -> Result<(), Stop> {
        let mut turns = Turns::new(quantum, Duration::MAX);
        let mut stop = StopCheck::new(self.rule);
        loop {
            for seat in 0..self.seats.len() {
                // A member that was started again takes part as soon as it is ready.
                match self.seats[seat].is_ready() {
                    true => turns.join(seat, &[0], weights.of(seat), true),
                    false => turns.remove(seat),
                }
            }
            let is_whole = turns.round_is_over();
            if is_whole && self.has_enough(&mut stop, 0..self.seats.len(), barrier, &self.visit.turns) {
                return Ok(());
            }
            let seats = &self.seats;
            match turns.begin(|seat| seats[seat].pace()) {
                Some((seat, steps)) => self.turn(seat, steps, &mut turns)?,
                None => self.next(None)?,
            }
        }
    }

    /// Gives each member one turn, which ends when it is long enough.
    pub(super) fn one_after_another(&mut self) -> Result<(), Stop> {
        for seat in 0..self.seats.len() {
            let only = seat..seat + 1;
            while !self.seats[seat].is_ready() {
                self.next(None)?;
            }
            let start_mono_ns = Nanos::monotonic_now();
            let mut stop = StopCheck::new(self.rule);
            while !self.has_enough(&mut stop, only.clone(), start_mono_ns, &[]) {
                self.supply(only.clone());
                self.next(None)?;
            }
            while self.seats[seat].alive().is_some_and(|launched| !launched.rests()) {
                self.until_rest(seat)?;
            }
            let end_mono_ns = Nanos::monotonic_now();
            self.visit.turns.push(Turn { seat: seat as u32, start_mono_ns, end_mono_ns });
        }
        Ok(())
    }

    /// Lets a member take its turn, which begins with `steps` steps. The turn ends early if the member does.
    fn turn(&mut self, seat: usize, steps: u64, turns: &mut Turns<usize>) -> Result<(), Stop> {
        let launches = self.seats[seat].launches.len();
        let start_mono_ns = Nanos::monotonic_now();
        let mut left = Some(steps);
        while let Some(steps) = left {
            self.grant(seat, steps);
            self.until_rest(seat)?;
            if self.seats[seat].alive().is_none() || self.seats[seat].launches.len() != launches {
                turns.remove(seat);
            }
            left = turns.rested(seat, self.seats[seat].pace());
        }
        let end_mono_ns = Nanos::monotonic_now();
        self.visit.turns.push(Turn { seat: seat as u32, start_mono_ns, end_mono_ns });
        Ok(())
    }

    pub(super) fn grant(&mut self, seat: usize, steps: u64) {
        if let Some(launched) = self.seats[seat].launched_mut() {
            let granted = launched.grant(steps);
            self.event_loop.rig.extend(launched.member, granted);
        }
    }

    /// Waits until a member rests or has ended. Its events are read at the usual interval at first, and more often towards the
    /// expected end of its grant, because a device that waits for the harness is lost time.
    pub(super) fn until_rest(&mut self, seat: usize) -> Result<(), Stop> {
        let launches = self.seats[seat].launches.len();
        let (mut pause, mut look_at) = (POLL_TRAINING, Nanos::ZERO);
        let is_same = |group: &Self| group.seats[seat].launches.len() == launches;
        while let Some(launched) =
            self.seats[seat].alive().filter(|launched| is_same(self) && !launched.rests())
        {
            let now = Nanos::monotonic_now();
            if now >= look_at {
                let next = launched.look_after(now);
                if next != pause {
                    self.event_loop.rig.look_every(launched.member, next);
                    pause = next;
                }
                look_at = now + next.into();
            }
            // At the shortest interval the rig reads often enough, and wakes this thread when there is an event.
            self.next((pause > SHORTEST_LOOK).then_some(look_at))?;
        }
        if let Some(launched) = self.seats[seat].alive().filter(|_| is_same(self)) {
            self.event_loop.rig.look_every(launched.member, POLL_TRAINING);
        }
        Ok(())
    }
}
