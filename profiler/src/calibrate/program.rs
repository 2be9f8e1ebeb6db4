//! Measures the cost of holding a program of the user's, and of ending it and starting it again from its beginning.

use std::time::Duration;

use record::{calibration::Switch, manifest::Cell, suspension::Suspension};
use rig::FIRST_STEP;
use schema::{units::Nanos, wire::Event};

use super::{
    restart::{Parts, Restarted, Restarts, STEPS, longest},
    running::{Running, Trouble, step},
    suspend::{Suspended, Ways},
};

/// The parts that are measured of a program, in the order of [`Switch::ALL`].
pub(super) const PARTS: [Switch; 6] =
    [Switch::Release, Switch::Hold, Switch::Stop, Switch::Start, Switch::Step, Switch::Total];

/// The ways of suspending a program that are measured.
pub(super) const WAYS: [Suspension; 1] = [Suspension::StepGate];

/// The interval between looks whether a program has begun.
const LOOK_AT_START: Duration = Duration::from_secs(1);

impl Restarts<'_> {
    /// Starts a program, lets it take a few steps, holds it, lets it take some more, ends it, and starts it again.
    pub(super) fn restart_program(&mut self, cell: &Cell, block: u32) -> Result<Restarted, Trouble> {
        let mut parts = Parts::new();
        let mut job = self.launch(cell, block, None)?;
        job.begin()?;
        job.all_say(|event| matches!(event, Event::Held { index: STEPS }).then_some(()))?;
        let last = job.all_say(|event| step(event, STEPS - 1))?;
        parts.insert(Switch::Step, (longest(&last), None));
        let (release, hold) = job.release_and_hold()?;
        parts.extend([(Switch::Release, (release, None)), (Switch::Hold, (hold, None))]);
        let ordered = Nanos::monotonic_now();
        let end = job.leave()?;
        parts.insert(Switch::Stop, (end.mono_ns.saturating_sub(ordered), None));
        drop(job);

        let told = Nanos::monotonic_now();
        let mut job = self.launch(cell, block, None)?;
        let ready = job.begin()?;
        parts.insert(Switch::Start, (ready.saturating_sub(told), None));
        parts.insert(Switch::Total, (ready.saturating_sub(ordered), None));
        job.leave()?;
        let held = Suspended { suspend: hold, resume: release, bytes: None };
        Ok(Restarted { parts, ways: Ways::from([(Suspension::StepGate, held)]), move_failure: None })
    }
}

impl Running<'_> {
    /// Grants a program its first steps, and waits until its step hook is ready. Returns when this was.
    fn begin(&mut self) -> Result<Nanos, Trouble> {
        self.event_loop.rig.extend(self.member, STEPS);
        let limit = Nanos::monotonic_now() + FIRST_STEP.into();
        loop {
            if let Some(ready) = self.all_have(|event| matches!(event, Event::Ready(_)).then_some(())) {
                return Ok(ready.iter().map(|(at, ())| *at).max().unwrap_or_default());
            }
            let now = Nanos::monotonic_now();
            if now > limit {
                let waited = Nanos::from_secs_f64(FIRST_STEP.as_secs_f64());
                return Err(Trouble::Failed(format!("its step hook was not ready after {waited}")));
            }
            self.go_on_until(Some(now + LOOK_AT_START.into()))?;
        }
    }
}
