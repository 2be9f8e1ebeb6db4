//! The text of the panel: the state of the run, of each device and of the queue.

use engine::{
    cluster::Share,
    job::{Ending, Phase, Placed, State},
    topology::DeviceId,
    view::View,
};
use schema::units::Nanos;

/// The maximum number of waiting jobs that are named. Further ones are only counted.
const NAMED_IN_QUEUE: usize = 6;

/// The lines of the panel: one for the run, one for each device, and one for the queue.
pub(super) fn panel(view: &View<'_>) -> Vec<String> {
    let mut ended: Vec<Nanos> = Vec::new();
    let (mut failed, mut ended_by_policy, mut queue) = (0, 0, Vec::new());
    for (asked, job) in view.asked.iter().zip(view.jobs) {
        match &job.state {
            State::Ended { at, how: Ending::Finished } => ended.push(at.saturating_sub(asked.arrival)),
            State::Ended { how: Ending::ByPolicy, .. } => ended_by_policy += 1,
            State::Ended { how: Ending::Failed(..), .. } => failed += 1,
            State::Waiting { .. } if asked.arrival <= view.now => queue.push(asked.name.as_str()),
            State::Waiting { .. } | State::Placed(_) => {}
        }
    }
    let mean = || Nanos(ended.iter().map(|jct| jct.0).sum::<u64>() / ended.len() as u64);
    let so_far = if ended.is_empty() { String::new() } else { format!(", mean JCT {}", mean()) };
    let counts = [(failed, "failed"), (ended_by_policy, "ended by the policy")];
    let some = counts.into_iter().filter(|(count, _)| *count > 0);
    let others: String = some.map(|(count, what)| format!(", {count} {what}")).collect();
    let mut lines = vec![format!("{} of {} jobs done{others}{so_far}", ended.len(), view.asked.len())];
    let devices = (0..view.topology.devices()).map(DeviceId);
    lines.extend(
        devices.map(|device| format!("{:12} {}", view.topology.name_of(device), on_device(view, device))),
    );
    let more = queue.len().saturating_sub(NAMED_IN_QUEUE);
    let rest = if more == 0 { String::new() } else { format!(" and {more} more") };
    queue.truncate(NAMED_IN_QUEUE);
    lines.push(format!(
        "{:12} {}{rest}",
        "waiting",
        if queue.is_empty() { "none".into() } else { queue.join(", ") }
    ));
    lines
}

/// The jobs on a device, paused ones included.
fn on_device(view: &View<'_>, device: DeviceId) -> String {
    if view.occupancy.is_lost(device) {
        return "lost".into();
    }
    let there = view.asked.iter().zip(view.jobs).filter_map(|(asked, job)| match &job.state {
        State::Placed(placed) if placed.devices.contains(&device) => {
            let Placed { phase, share, .. } = &**placed;
            let mut doing = match phase {
                Phase::Running => String::new(),
                other => format!(" {other}"),
            };
            if *share < Share::FULL {
                doing += &format!(" throttled to {share}");
            }
            let percent = asked.steps.filter(|steps| *steps > 0).map(|steps| 100 * job.steps / steps);
            let of = asked.steps.map(|steps| format!("/{steps}")).unwrap_or_default();
            let share = percent.map(|percent| format!(" ({percent} %)")).unwrap_or_default();
            Some(format!("{}{doing} {}{of}{share}", asked.name, job.steps))
        }
        _ => None,
    });
    let there: Vec<String> = there.collect();
    if there.is_empty() { "free".into() } else { there.join(" + ") }
}
