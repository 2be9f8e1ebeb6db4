//! The text of a turn.

use engine::{
    cluster::JobId,
    job::{Ending, State},
    topology::DeviceId,
    view::View,
};
use formats::decision::{Action, ClusterEvent, Settled, Turn};

/// The lines of a turn: one for each event and one for each action. Progress and deadlines have no line.
pub(super) fn turn_lines(turn: &Turn, view: &View<'_>) -> Vec<String> {
    let name = |job: JobId| &view.asked[job.0 as usize].name;
    let has_been_ended =
        |job: JobId| matches!(view.jobs[job.0 as usize].state, State::Ended { how: Ending::ByPolicy, .. });
    let event = |happened: &ClusterEvent| match happened {
        ClusterEvent::Settled { job, now: Settled::Stopped, .. } | ClusterEvent::Failed { job, .. }
            if has_been_ended(*job) =>
        {
            let steps = view.jobs[job.0 as usize].steps;
            Some(format!("{} was ended by the policy after {steps} steps", name(*job)))
        }
        ClusterEvent::Arrived { job } => Some(format!("{} arrived", name(*job))),
        ClusterEvent::Settled { job, now: Settled::Running, steps } => {
            Some(format!("{} runs from step {steps}", name(*job)))
        }
        ClusterEvent::Settled { job, now: Settled::Paused, steps } => {
            Some(format!("{} paused at step {steps}", name(*job)))
        }
        ClusterEvent::Settled { job, now: Settled::Stopped, steps } => {
            Some(format!("{} stopped at step {steps}", name(*job)))
        }
        ClusterEvent::Finished { job, .. } => {
            let arrival = view.asked[job.0 as usize].arrival;
            let ended = view.jobs.iter().filter(|job| matches!(job.state, State::Ended { .. })).count();
            let after = turn.at_ns.saturating_sub(arrival);
            Some(format!("{} finished after {after}; {ended} of {} have ended", name(*job), view.asked.len()))
        }
        ClusterEvent::Failed { job, detail, .. } => Some(match &view.jobs[job.0 as usize].state {
            State::Ended { .. } => format!("{} failed: {detail}", name(*job)),
            _ => format!("{} failed and is tried again: {detail}", name(*job)),
        }),
        ClusterEvent::DeviceLost { device } => Some(format!("{} is lost", view.topology.name_of(*device))),
        ClusterEvent::DeviceBack { device } => Some(format!("{} is back", view.topology.name_of(*device))),
        ClusterEvent::Progress { .. } | ClusterEvent::Deadline => None,
    };
    let action = |action: &Action| match action {
        Action::Start { job, devices, plan, .. } => {
            let plan = plan.map(|plan| format!(" under {plan}")).unwrap_or_default();
            format!("start {} on {}{plan}", name(*job), devices_named(view, devices))
        }
        Action::Pause { job } => format!("pause {}", name(*job)),
        Action::Resume { job } => format!("resume {}", name(*job)),
        Action::Stop { job, checkpoint: true } => format!("save and stop {}", name(*job)),
        Action::Stop { job, checkpoint: false } => format!("stop {}", name(*job)),
        Action::End { job } => format!("end {}", name(*job)),
        Action::Throttle { job, share } => format!("throttle {} to {share}", name(*job)),
    };
    let because = if turn.reason.is_empty() { String::new() } else { format!(" ({})", turn.reason) };
    let actions = turn.actions.iter().map(|done| format!("{}{because}", action(done)));
    let at = turn.at_ns;
    turn.events.iter().filter_map(event).chain(actions).map(|line| format!("[{at}] {line}")).collect()
}

fn devices_named(view: &View<'_>, devices: &[DeviceId]) -> String {
    devices.iter().map(|device| view.topology.name_of(*device)).collect::<Vec<_>>().join(",")
}
