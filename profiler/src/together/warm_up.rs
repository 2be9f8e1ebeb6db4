//! How a member warms up before the barrier: alone, and then it is held.

use super::{Group, Stop, seat::Seat};

/// What a member does alone before it shares: at least so many steps, and at least for so long.
const WARM_UP_STEPS: u64 = 3;
const WARM_UP_NS: u64 = 1_000_000_000;

impl Group<'_> {
    /// Returns when the member of a seat has warmed up and rests.
    pub(super) fn warm_up(&mut self, seat: usize) -> Result<(), Stop> {
        loop {
            self.until_ready(seat)?;
            self.until_rest(seat)?;
            if !self.seats[seat].rests() {
                // It has come to its end and was started again.
                continue;
            }
            let Some(steps) = steps_left(&self.seats[seat]) else { return Ok(()) };
            self.grant(seat, steps);
        }
    }

    fn until_ready(&mut self, seat: usize) -> Result<(), Stop> {
        while !self.seats[seat].is_ready() {
            self.next(None)?;
            // Alone it took steps and obeyed; nobody knows why it does not now.
            if let Some(late) = self.seats[seat].alive().filter(|launched| launched.keeps_us_waiting()) {
                return Err(Stop::Failed { launch: late.name.clone() });
            }
        }
        Ok(())
    }
}

/// Steps to grant next; `None` where the member is warm. One that came to its end by then and was started again
/// is as warm as it can be.
fn steps_left(seat: &Seat) -> Option<u64> {
    let [launched] = &seat.launches[..] else { return None };
    let (done, left_ns) = (launched.pace.done(), WARM_UP_NS.saturating_sub(launched.worked_ns));
    match launched.pace.step_ns() {
        Some(step_ns) if done >= WARM_UP_STEPS => {
            (left_ns > 0).then(|| (left_ns as f64 / step_ns).ceil().max(1.0) as u64)
        }
        _ => Some(WARM_UP_STEPS - done),
    }
}
