//! How long a program of the user's is waited for that has taken no step.

use std::time::Duration;

use schema::{spec::Program, units::Nanos};

use crate::{launch::LaunchRequest, output, processes::loads, stop::StopRule};

/// A file that every process has mapped which has imported PyTorch, by a part of its name.
const PYTORCH: &str = "/libtorch";

/// Between two looks at what a program has loaded, which take a millisecond or so.
const LOOK: Duration = Duration::from_secs(1);

/// From the start of a program to its first step, where it is measured for a time.
///
/// When that time is over it was measured from outside. But to import PyTorch and to load data may take longer than anybody
/// wants to measure: where steps are to be expected, the first is waited for as patiently as for a worker of ours.
pub(crate) struct FirstStep {
    time: Nanos,
    startup: Nanos,
    /// Because the user told how to see them.
    are_promised: bool,
    launch: String,
    was_told: bool,
    /// When its process was started, and its number.
    began: Option<(Nanos, u32)>,
    look_at: Nanos,
}

impl FirstStep {
    /// Absent for a worker, and where steps are counted or the program runs to its end.
    pub(crate) fn of(request: &LaunchRequest, rule: StopRule) -> Option<FirstStep> {
        let (Program::Command(_), StopRule::Seconds(seconds)) = (&request.spec.program, rule) else {
            return None;
        };
        Some(FirstStep {
            time: Nanos::from_secs_f64(seconds),
            startup: request.patience.startup.into(),
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

    /// Whether it is waited for no longer.
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
