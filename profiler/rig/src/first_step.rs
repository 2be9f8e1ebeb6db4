//! The time limit for the first step of a program of the user's.

use schema::{spec::Program, units::Nanos};

use crate::{launch::LaunchRequest, output, stop::StopRule};

/// The wait from the start of a program to its first step, if an amount of steps is to be measured.
///
/// A program may unpack data, import PyTorch and compile its model before it trains. This time is no part of the measured time,
/// so the wait has a limit of its own.
pub(crate) struct FirstStep {
    /// The time after which a note reports the wait: the requested steady time, or a minute.
    tell_after: Nanos,
    limit: Nanos,
    launch: String,
    was_told: bool,
    began: Option<Nanos>,
}

impl FirstStep {
    /// `None` for a worker, and for a program that runs to its end.
    pub(crate) fn new(request: &LaunchRequest, rule: StopRule) -> Option<FirstStep> {
        let Program::Command(_) = &request.spec.program else { return None };
        let tell_after = match rule {
            StopRule::Seconds(seconds) => Nanos::from_secs_f64(seconds),
            StopRule::Steps(_) | StopRule::First(_) => Nanos(60 * Nanos::SECOND.0),
            StopRule::End => return None,
        };
        Some(FirstStep {
            tell_after,
            limit: request.timeouts.first_step.into(),
            launch: request.spec.launch.clone(),
            was_told: false,
            began: None,
        })
    }

    pub(crate) fn started(&mut self) {
        self.began.get_or_insert_with(Nanos::monotonic_now);
    }

    /// Whether the wait is over.
    pub(crate) fn is_given_up(&mut self) -> bool {
        let Some(began) = self.began else { return false };
        let waited = Nanos::monotonic_now().saturating_sub(began);
        let gives_up = waited >= self.limit;
        if waited >= self.tell_after && !gives_up && !std::mem::replace(&mut self.was_told, true) {
            let (launch, time, limit) = (&self.launch, self.tell_after, self.limit);
            output::note(format_args!(
                "{launch}: no step in {time}; its first is waited for, up to {limit} in all \
                 (--first-step-timeout); if its output shows steps, match its lines with --steps-regex"
            ));
        }
        gives_up
    }
}
