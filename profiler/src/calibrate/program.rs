//! Measures the cost of holding a program of the user's, and of ending it and starting it again: from its checkpoint if it is a program of
//! the catalog that saves, and else from its beginning. A program whose steps are lines of its output obeys no grant, and is frozen in
//! place of being held.

use std::time::Duration;

use record::{calibration::Switch, manifest::Cell, suspension::Suspension};
use rig::{
    FIRST_STEP,
    processes::{self, ProcessId},
};
use schema::{units::Nanos, wire::Event};

use super::{
    restart::{Parts, Restarted, Restarts, STEPS, longest},
    suspend::{Suspended, Ways},
};
use crate::running::{Begins, Running, Trouble, step};

/// The longest wait until processes stand still. A process that waits in the kernel for a disk does not stop before.
const LONGEST_FREEZE: Duration = Duration::from_secs(30);

/// The interval between looks whether processes stand still.
const LOOK_AT_PROCESSES: Duration = Duration::from_micros(200);

/// The parts that are measured of a program, in the order of [`Switch::ALL`].
pub(super) const PARTS: [Switch; 7] = [
    Switch::Release,
    Switch::Hold,
    Switch::CheckpointAnswer,
    Switch::Stop,
    Switch::Start,
    Switch::Step,
    Switch::Total,
];

/// The part that only programs have which train on after they have saved.
pub(super) const PART_OF_CHECKPOINTS: Switch = Switch::CheckpointAnswer;

/// The ways of suspending a program that are measured.
pub(super) const WAYS: [Suspension; 1] = [Suspension::StepGate];

impl Restarts<'_> {
    /// Starts a program, lets it take a few steps, holds it, lets it take some more and save, ends it, and starts it again.
    pub(super) fn restart_program(&mut self, cell: &Cell, block: u32) -> Result<Restarted, Trouble> {
        let checkpoint = self.catalog.program(&cell.workload).and_then(|program| program.checkpoint.as_ref());
        let saves = checkpoint.filter(|checkpoint| checkpoint.save.is_some());
        let mut parts = Parts::new();
        let begins = self.begins();
        let mut job = self.launch(cell, block, None)?;
        let folder = job.checkpoint.clone();
        job.begin(begins, STEPS, FIRST_STEP)?;
        let (step_ns, (release, hold)) = match begins {
            Begins::Ready => {
                job.all_say(|event| matches!(event, Event::Held { index: STEPS }).then_some(()))?;
                let last = job.all_say(|event| step(event, STEPS - 1))?;
                (longest(&last), job.release_and_hold()?)
            }
            Begins::Heard => {
                let last = job.all_say(|event| step_from(event, STEPS - 1))?;
                (longest(&last), job.freeze_and_thaw()?)
            }
        };
        parts.insert(Switch::Step, (step_ns, None));
        parts.extend([(Switch::Release, (release, None)), (Switch::Hold, (hold, None))]);
        let ordered = Nanos::monotonic_now();
        if saves.is_some_and(|saves| !saves.saves_at_its_end()) {
            let saved = job.save()?;
            parts.insert(Switch::CheckpointAnswer, (saved.saturating_sub(ordered), None));
        }
        let stop_ordered = Nanos::monotonic_now();
        let end = job.leave()?;
        parts.insert(Switch::Stop, (end.mono_ns.saturating_sub(stop_ordered), None));
        if saves.is_some() && job.saved.is_empty() {
            return Err(Trouble::Failed("it ended, and its output shows no checkpoint".into()));
        }
        drop(job);

        let launched = Nanos::monotonic_now();
        let mut job = self.launch(cell, block, saves.map(|_| folder.as_path()))?;
        let ready = job.begin(begins, STEPS, FIRST_STEP)?;
        let start = ready.saturating_sub(launched);
        parts.insert(Switch::Total, (ready.saturating_sub(ordered), None));
        job.leave()?;
        parts.insert(Switch::Start, (start, None));
        let held = Suspended { suspend: hold, resume: release, bytes: None };
        Ok(Restarted { parts, ways: Ways::from([(Suspension::StepGate, held)]), move_failure: None })
    }

    /// The event that shows that a program trains.
    fn begins(&self) -> Begins {
        if self.manifest.settings.steps_regex.is_some() { Begins::Heard } else { Begins::Ready }
    }
}

impl Running<'_> {
    /// Freezes a program, and lets it go on. Returns the times until all of its processes go on, and until all stand still.
    fn freeze_and_thaw(&mut self) -> Result<(Nanos, Nanos), Trouble> {
        let pid = self.pid.ok_or_else(|| Trouble::Failed("its process is not known".into()))?;
        // Each look lists the processes anew: one that was about to end may end before it stands still.
        let family = || processes::family(pid.cast_signed());
        let stood_before: Vec<ProcessId> =
            family().into_iter().filter(|process| process.is_stopped()).collect();
        let ordered = Nanos::monotonic_now();
        self.event_loop.rig.freeze(self.member);
        self.wait_until_all("stand still", family, ProcessId::is_stopped)?;
        let frozen = Nanos::monotonic_now();
        self.event_loop.rig.thaw(self.member);
        self.wait_until_all("go on", family, |process| {
            !process.is_stopped() || stood_before.contains(&process)
        })?;
        let hold = frozen.saturating_sub(ordered);
        Ok((Nanos::monotonic_now().saturating_sub(frozen), hold))
    }

    /// Waits until all processes of a family, which has not ended, are as they should be.
    fn wait_until_all(
        &mut self,
        what: &str,
        family: impl Fn() -> Vec<ProcessId>,
        condition: impl Fn(ProcessId) -> bool,
    ) -> Result<(), Trouble> {
        let until = Nanos::monotonic_now() + LONGEST_FREEZE.into();
        loop {
            let family = family();
            if !family.is_empty() && family.into_iter().all(&condition) {
                return Ok(());
            }
            let now = Nanos::monotonic_now();
            if now > until {
                let waited = Nanos::from(LONGEST_FREEZE);
                return Err(Trouble::Failed(format!("not all of its processes {what} after {waited}")));
            }
            self.go_on_until(Some(now + LOOK_AT_PROCESSES.into()))?;
        }
    }
}

/// The duration of a step, if the event is one with this number or a later one. A line may end several steps.
fn step_from(event: &Event, index: u64) -> Option<Nanos> {
    match event {
        Event::Step(step) if step.index >= index => Some(step.dur_ns),
        _ => None,
    }
}
