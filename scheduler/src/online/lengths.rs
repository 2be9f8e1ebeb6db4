//! The lengths of commands without steps: their durations in the tables of a run.

use engine::job::Payload;
use schema::units::Nanos;

use super::RunInputs;

/// The longest part of a program's duration that counts as one of its steps.
const LONGEST_PART: Nanos = Nanos::SECOND;

impl RunInputs {
    /// Makes the known duration of a command its length, if the trace gives no steps. Equal parts of it count as steps.
    pub(super) fn take_durations(&mut self) {
        for job in 0..self.asked.len() {
            let request = &self.asked[job];
            let is_command = matches!(request.what, Payload::Command(_)) && request.steps_regex.is_none();
            let has_steps = request.steps.or(request.step_ns).is_some();
            let is_known = || self.models.programs_without_steps.contains(&*request.what.workload());
            if !is_command || has_steps || !is_known() {
                continue;
            }
            let (Some(duration_ns), _) = self.alone(request) else { continue };
            // A whole number of seconds is that of its parts, whatever the last digits of the mean.
            let duration = Nanos(duration_ns.round() as u64);
            let parts = duration.0.div_ceil(LONGEST_PART.0).max(1);
            let part = Nanos((duration.0 / parts).max(1));
            let request = &mut self.asked[job];
            (request.steps, request.part_ns) = (Some(parts), Some(part));
        }
    }
}
