//! Members that take turns: one runs, and all others are held at a step boundary.

use rig::{POLL_TRAINING, StopCheck};
use schema::{
    group::Turn,
    sharing::{Quantum, Weights},
    units::Nanos,
};

use super::{Group, Stop, seat::SHORTEST_LOOK};

/// The share of a turn in its first part: long enough to measure the pace, and short enough that the rest can correct an error.
const FIRST_PART: f64 = 0.75;

impl Group<'_> {
    /// Runs rounds in which each member has a turn of the length that its weight requires. The visit ends with a complete
    /// round, so that no member has an additional turn.
    pub(super) fn in_turns(
        &mut self,
        barrier: Nanos,
        quantum: Quantum,
        weights: &Weights,
    ) -> Result<(), Stop> {
        let mut accounts = vec![Account::default(); self.seats.len()];
        let mut stop = StopCheck::new(self.rule);
        loop {
            for (seat, account) in accounts.iter_mut().enumerate() {
                // A member that was started again takes part as soon as it is ready.
                let Some(launched) = self.seats[seat].alive().filter(|launched| launched.is_ready()) else {
                    continue;
                };
                let steps = account.next_turn(quantum, weights.of(seat), launched.pace.step_ns());
                if steps > 0 {
                    self.turn(seat, quantum, steps, account)?;
                }
            }
            if self.has_enough(&mut stop, 0..self.seats.len(), barrier, &self.visit.turns) {
                return Ok(());
            }
            if !self.seats.iter().any(|seat| seat.is_ready()) {
                self.next(None)?;
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

    /// Lets a member take about `steps` steps. The turn ends early if the member does.
    ///
    /// The number of steps is based on the pace of the member's last turn, and the speed of the host or a clock may have
    /// changed since. A turn with a length in time therefore has two parts, and the second is computed from the pace of the
    /// first.
    fn turn(&mut self, seat: usize, quantum: Quantum, steps: u64, account: &mut Account) -> Result<(), Stop> {
        let launches = self.seats[seat].launches.len();
        let start_mono_ns = Nanos::monotonic_now();
        let first = match quantum {
            Quantum::Steps(_) => steps,
            Quantum::Time(_) => (FIRST_PART * steps as f64).ceil() as u64,
        };
        let took_ns = self.part_of_turn(seat, first)?;
        account.spend(took_ns);
        let rest = if first < steps { account.steps_at(took_ns as f64 / first as f64) } else { 0 };
        if rest > 0 && self.seats[seat].alive().is_some() && self.seats[seat].launches.len() == launches {
            account.spend(self.part_of_turn(seat, rest)?);
        }
        let end_mono_ns = Nanos::monotonic_now();
        self.visit.turns.push(Turn { seat: seat as u32, start_mono_ns, end_mono_ns });
        Ok(())
    }

    /// Lets a member take `steps` steps, and returns the time that they took.
    fn part_of_turn(&mut self, seat: usize, steps: u64) -> Result<u64, Stop> {
        let launch = self.seats[seat].launches.len() - 1;
        let worked_ns = self.seats[seat].launches[launch].worked_ns;
        self.grant(seat, steps);
        self.until_rest(seat)?;
        Ok(self.seats[seat].launches[launch].worked_ns - worked_ns)
    }

    pub(super) fn grant(&mut self, seat: usize, steps: u64) {
        if let Some(launched) = self.seats[seat].launched_mut() {
            let granted = launched.grant(steps);
            self.watch.rig.extend(launched.member, granted);
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
                    self.watch.rig.look_every(launched.member, next);
                    pause = next;
                }
                look_at = now + next.into();
            }
            // At the shortest interval the rig reads often enough, and wakes this thread when there is an event.
            self.next((pause > SHORTEST_LOOK).then_some(look_at))?;
        }
        if let Some(launched) = self.seats[seat].alive().filter(|_| is_same(self)) {
            self.watch.rig.look_every(launched.member, POLL_TRAINING);
        }
        Ok(())
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
    /// The number of steps of the next turn at this pace. It is 1 before the first step, when the pace is not known.
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
mod tests {
    use std::time::Duration;

    use super::*;

    const MS: f64 = 1e6;

    /// The shares of time that members with steps of these lengths get over some rounds.
    fn shares(mode: &str, step_ms: &[f64], rounds: usize) -> Vec<f64> {
        let schema::sharing::Sharing::StepGate { quantum, weights } = mode.parse().unwrap() else {
            panic!("{mode}")
        };
        let mut accounts = vec![Account::default(); step_ms.len()];
        let mut got_ms = vec![0.0; step_ms.len()];
        for _ in 0..rounds {
            for (seat, account) in accounts.iter_mut().enumerate() {
                let steps = account.next_turn(quantum, weights.of(seat), Some(step_ms[seat] * MS));
                let took_ms = steps as f64 * step_ms[seat];
                account.spend((took_ms * MS) as u64);
                got_ms[seat] += took_ms;
            }
        }
        let all: f64 = got_ms.iter().sum();
        got_ms.iter().map(|ms| ms / all).collect()
    }

    #[test]
    fn time_is_in_the_ratio_of_weights_however_long_the_steps() {
        for (mode, step_ms, expected) in [
            ("step-gate:2/1", &[10.0, 10.0][..], &[2.0 / 3.0, 1.0 / 3.0][..]),
            // 3 steps of 300 ms are 0.9 s of 1 s, and then there are 4 now and then.
            ("step-gate", &[300.0, 7.0], &[0.5, 0.5]),
            ("step-gate:2/1", &[300.0, 700.0], &[2.0 / 3.0, 1.0 / 3.0]),
            // A step that is longer than the turn sits some turns out.
            ("step-gate", &[5_000.0, 10.0], &[0.5, 0.5]),
            ("step-gate:100ms:1/2/1", &[999.0, 3.0, 70.0], &[0.25, 0.5, 0.25]),
            // Steps are steps.
            ("step-gate:8:2/1", &[10.0, 10.0], &[2.0 / 3.0, 1.0 / 3.0]),
            ("step-gate:8:2/1", &[10.0, 20.0], &[0.5, 0.5]),
        ] {
            let found = shares(mode, step_ms, 400);
            let far = found.iter().zip(expected).any(|(found, expected)| (found - expected).abs() > 0.01);
            assert!(!far, "{mode} {step_ms:?}: {found:?}");
        }
    }

    #[test]
    fn what_a_first_part_took_decides_how_long_the_second_is() {
        let mut account = Account::default();
        assert_eq!(account.next_turn(Quantum::Time(Duration::from_secs(1)), 1, Some(10.0 * MS)), 100);
        // 75 of the 100 steps took a fifth more than was expected.
        account.spend(900_000_000);
        assert_eq!(account.steps_at(12.0 * MS), 8);
        account.spend(300_000_000);
        assert_eq!(account.steps_at(12.0 * MS), 0, "it has had more than it was owed");
    }

    #[test]
    fn a_first_turn_of_unknown_length_is_one_step() {
        let mut account = Account::default();
        assert_eq!(account.next_turn(Quantum::Time(Duration::from_secs(1)), 2, None), 1);
        account.spend(500_000_000);
        assert_eq!(
            account.next_turn(Quantum::Time(Duration::from_secs(1)), 2, Some(500.0 * MS)),
            7,
            "and 3 are owed"
        );
    }
}
