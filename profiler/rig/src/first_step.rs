//! The time limit for the first step of a program of the user's.

use std::time::Duration;

use schema::{spec::Program, units::Nanos};

use crate::{
    launch::{LaunchRequest, PYTORCH},
    output,
    processes::loads,
    stop::StopRule,
};

/// The interval between checks of the libraries that a program has loaded. A check takes about a millisecond.
const LOOK: Duration = Duration::from_secs(1);

/// The wait from the start of a program to its first step, if the program is measured for a limited time.
///
/// After that time the program is measured from outside. To import PyTorch and to load data may take longer than the measured
/// time. If steps are expected, the harness therefore waits for the first one as long as for a worker of Tandem.
pub(crate) struct FirstStep {
    time: Nanos,
    startup: Nanos,
    /// Whether steps are expected because the user gave a pattern for them.
    are_promised: bool,
    launch: String,
    was_told: bool,
    /// The start of its process, and the process id.
    began: Option<(Nanos, u32)>,
    look_at: Nanos,
}

impl FirstStep {
    /// `None` for a worker, and if steps are counted or the program runs to its end.
    pub(crate) fn of(request: &LaunchRequest, rule: StopRule) -> Option<FirstStep> {
        let (Program::Command(_), StopRule::Seconds(seconds)) = (&request.spec.program, rule) else {
            return None;
        };
        Some(FirstStep {
            time: Nanos::from_secs_f64(seconds),
            startup: request.timeouts.startup.into(),
            are_promised: request.spec.steps_regex.is_some(),
            launch: request.spec.launch.clone(),
            was_told: false,
            began: None,
            look_at: Nanos::ZERO,
        })
    }

    pub(crate) fn started(&mut self, pid: u32) {
        self.began.get_or_insert((Nanos::monotonic_now(), pid));
    }

    /// Whether the wait is over.
    pub(crate) fn is_given_up(&mut self) -> bool {
        let Some((began, pid)) = self.began else { return false };
        let now = Nanos::monotonic_now();
        let waited = now.saturating_sub(began);
        if waited < self.time || now < self.look_at {
            return false;
        }
        self.look_at = now + LOOK.into();
        let gives_up = waited >= self.startup || !(self.are_promised || loads(pid as i32, PYTORCH));
        if !gives_up && !std::mem::replace(&mut self.was_told, true) {
            let (launch, time, startup) = (&self.launch, self.time, self.startup);
            output::note(format_args!(
                "{launch}: no step in {time}; its first is waited for, up to {startup} in all, as {}",
                if self.are_promised { "--steps-regex promises some" } else { "it has loaded PyTorch" }
            ));
        }
        gives_up
    }
}
