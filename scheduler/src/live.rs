//! What a user sees while jobs run on a testbed, on stderr: a view that stays in its place on a terminal, plain lines elsewhere.

use std::{io::IsTerminal as _, time::Duration};

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use schema::{
    decision::{Action, Happened, Settled, Turn},
    units::Nanos,
};

use crate::{
    cluster::JobId,
    job::{Phase, Placed, State},
    journal::Journal,
    topology::{DeviceId, Topology},
    view::View,
};

/// Names of jobs that wait, before the rest are only counted.
const NAMED_IN_QUEUE: usize = 6;

/// Shows every turn, and hands it on.
pub struct Live<J> {
    journal: J,
    screen: Option<Screen>,
}

/// One line for the whole run, one a device, one for the queue.
struct Screen {
    all: MultiProgress,
    lines: Vec<ProgressBar>,
}

impl<J: Journal> Live<J> {
    /// In front of the journal of a run on these devices.
    pub fn new(journal: J, topology: &Topology) -> Live<J> {
        let screen = std::io::stderr().is_terminal().then(|| Screen::new(topology.devices() as usize + 2));
        Live { journal, screen }
    }
}

impl<J> Drop for Live<J> {
    fn drop(&mut self) {
        if let Some(screen) = &self.screen {
            screen.lines.iter().for_each(ProgressBar::finish_and_clear);
        }
    }
}

impl<J: Journal> Journal for Live<J> {
    fn record(&mut self, turn: Turn, view: &View<'_>) -> anyhow::Result<()> {
        match &self.screen {
            Some(screen) => screen.show(&turn, view),
            None => news(&turn, view).iter().for_each(|line| eprintln!("{line}")),
        }
        self.journal.record(turn, view)
    }
}

impl Screen {
    fn new(lines: usize) -> Screen {
        let all = MultiProgress::new();
        let line = |index| {
            let template = if index == 0 { "{elapsed} {msg}" } else { "{msg}" };
            let style = ProgressStyle::with_template(template).expect("the template is well formed");
            all.add(ProgressBar::new_spinner().with_style(style))
        };
        let lines: Vec<ProgressBar> = (0..lines).map(line).collect();
        if let Some(first) = lines.first() {
            first.enable_steady_tick(Duration::from_millis(500));
        }
        Screen { all, lines }
    }

    fn show(&self, turn: &Turn, view: &View<'_>) {
        for line in news(turn, view).into_iter().filter(|_| is_end(&turn.happened)) {
            // What keeps a line from being shown is no reason to end a run.
            let _ = self.all.println(line);
        }
        for (line, text) in self.lines.iter().zip(panel(view)) {
            line.set_message(text);
        }
    }
}

fn is_end(happened: &Happened) -> bool {
    matches!(happened, Happened::Finished { .. } | Happened::Failed { .. } | Happened::DeviceLost { .. })
}

/// What a turn brought, a line for the event and one for each action. Progress and deadlines alone are no news.
fn news(turn: &Turn, view: &View<'_>) -> Vec<String> {
    let name = |job: JobId| &view.asked[job.0 as usize].name;
    let event = match &turn.happened {
        Happened::Arrived { job } => Some(format!("{} arrived", name(*job))),
        Happened::Settled { job, now: Settled::Running, steps } => {
            Some(format!("{} runs from step {steps}", name(*job)))
        }
        Happened::Settled { job, now: Settled::Paused, steps } => {
            Some(format!("{} paused at step {steps}", name(*job)))
        }
        Happened::Settled { job, now: Settled::Stopped, steps } => {
            Some(format!("{} stopped at step {steps}", name(*job)))
        }
        Happened::Finished { job, .. } => {
            let arrival = view.asked[job.0 as usize].arrival;
            let ended = view.jobs.iter().filter(|job| matches!(job.state, State::Ended { .. })).count();
            let after = turn.at_ns.saturating_sub(arrival);
            Some(format!("{} finished after {after}; {ended} of {} have ended", name(*job), view.asked.len()))
        }
        Happened::Failed { job, detail, .. } => Some(match &view.jobs[job.0 as usize].state {
            State::Ended { .. } => format!("{} failed: {detail}", name(*job)),
            _ => format!("{} failed and is tried again: {detail}", name(*job)),
        }),
        Happened::DeviceLost { device } => Some(format!("{} is lost", view.topology.name_of(*device))),
        Happened::DeviceBack { device } => Some(format!("{} is back", view.topology.name_of(*device))),
        Happened::Progress { .. } | Happened::Deadline => None,
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
    };
    let because = if turn.reason.is_empty() { String::new() } else { format!(" ({})", turn.reason) };
    let actions = turn.actions.iter().map(|done| format!("{}{because}", action(done)));
    let at = turn.at_ns;
    event.into_iter().chain(actions).map(|line| format!("[{at}] {line}")).collect()
}

/// The run in a line, each device in one, and the queue.
fn panel(view: &View<'_>) -> Vec<String> {
    let mut ended: Vec<Nanos> = Vec::new();
    let (mut failed, mut queue) = (0, Vec::new());
    for (asked, job) in view.asked.iter().zip(view.jobs) {
        match &job.state {
            State::Ended { at, failed: None } => ended.push(at.saturating_sub(asked.arrival)),
            State::Ended { failed: Some(_), .. } => failed += 1,
            State::Waiting { .. } if asked.arrival <= view.now => queue.push(asked.name.as_str()),
            State::Waiting { .. } | State::Placed(_) => {}
        }
    }
    let mean = || Nanos(ended.iter().map(|jct| jct.0).sum::<u64>() / ended.len() as u64);
    let so_far = if ended.is_empty() { String::new() } else { format!(", mean JCT {}", mean()) };
    let failures = if failed == 0 { String::new() } else { format!(", {failed} failed") };
    let mut lines = vec![format!("{} of {} jobs done{failures}{so_far}", ended.len(), view.asked.len())];
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

/// The jobs on a device, paused ones too.
fn on_device(view: &View<'_>, device: DeviceId) -> String {
    if view.occupancy.is_lost(device) {
        return "lost".into();
    }
    let there = view.asked.iter().zip(view.jobs).filter_map(|(asked, job)| match &job.state {
        State::Placed(Placed { devices, phase, .. }) if devices.contains(&device) => {
            let doing = match phase {
                Phase::Running => String::new(),
                other => format!(" {other}"),
            };
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

fn devices_named(view: &View<'_>, devices: &[DeviceId]) -> String {
    devices.iter().map(|device| view.topology.name_of(*device)).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use model::{Prediction, Question, Throughput};
    use schema::{rows::ErrorKind, sharing::Sharing, trace::Class};

    use super::*;
    use crate::{
        job::{Asked, Job, What},
        occupancy::Occupancy,
    };

    struct Unknown;

    impl Throughput for Unknown {
        fn predict(&self, _question: &Question<'_>) -> Option<Prediction> {
            None
        }
    }

    fn asked(id: u32, steps: Option<u64>) -> Asked {
        Asked {
            id: JobId(id),
            name: format!("j{id}"),
            arrival: Nanos(u64::from(id) * Nanos::SECOND.0),
            what: What::Command(vec!["true".into()]),
            plan: None,
            devices: 1,
            elastic: false,
            steps,
            user: String::new(),
            virtual_cluster: String::new(),
            class: Class::Guaranteed,
            step_ns: None,
        }
    }

    fn job(state: State, steps: u64) -> Job {
        Job { state, steps, ..Job::new(Nanos::ZERO) }
    }

    fn placed(device: u32, phase: Phase) -> State {
        State::Placed(Placed { devices: vec![DeviceId(device)], plan: None, phase, since: Nanos::ZERO })
    }

    fn turn(happened: Happened, actions: Vec<Action>, reason: &str) -> Turn {
        Turn {
            turn: 3,
            at_ns: Nanos(5 * Nanos::SECOND.0),
            happened,
            actions,
            refused: Vec::new(),
            wake_at_ns: None,
            reason: reason.into(),
            view_hash: String::new(),
        }
    }

    #[test]
    fn a_view_says_where_all_jobs_are_and_a_turn_what_changed() {
        let topology = Topology::uniform(3, 3, "GPU");
        let all: Vec<Asked> = (0..7).map(|id| asked(id, (id != 1).then_some(200))).collect();
        let ended = |failed| State::Ended { at: Nanos(4 * Nanos::SECOND.0), failed };
        let waiting = || State::Waiting { since: Nanos::ZERO };
        let jobs = [
            job(placed(0, Phase::Running), 50),
            job(placed(0, Phase::Paused), 7),
            job(ended(None), 200),
            job(ended(Some((ErrorKind::Hung, "said nothing".into()))), 0),
            job(waiting(), 0),
            job(waiting(), 0),
            job(waiting(), 0),
        ];
        let mut occupancy = Occupancy::new(&topology);
        occupancy.set_lost(DeviceId(2), true);
        let view = View {
            now: Nanos(5 * Nanos::SECOND.0),
            topology: &topology,
            sharing: &Sharing::TIME_SLICE,
            asked: &all,
            jobs: &jobs,
            occupancy: &occupancy,
            changes: &[],
            model: &Unknown,
        };
        let expected = [
            "1 of 7 jobs done, 1 failed, mean JCT 2.00 s",
            "n0/cuda:0    j0 50/200 (25 %) + j1 paused 7",
            "n0/cuda:1    free",
            "n0/cuda:2    lost",
            // The last one has not arrived.
            "waiting      j4, j5",
        ];
        assert_eq!(panel(&view), expected);

        let start = Action::Start { job: JobId(4), devices: vec![DeviceId(1)], cpus: None, plan: None };
        for (turn, lines) in [
            (
                turn(Happened::Finished { job: JobId(2), steps: 200 }, vec![start], "j4 is next"),
                vec![
                    "[5.00 s] j2 finished after 3.00 s; 2 of 7 have ended",
                    "[5.00 s] start j4 on n0/cuda:1 (j4 is next)",
                ],
            ),
            (
                turn(
                    Happened::Progress { job: JobId(0), steps: 50 },
                    vec![Action::Pause { job: JobId(0) }],
                    "",
                ),
                vec!["[5.00 s] pause j0"],
            ),
            (turn(Happened::Deadline, Vec::new(), ""), Vec::new()),
            (
                turn(
                    Happened::Failed {
                        job: JobId(3),
                        steps: 0,
                        kind: ErrorKind::Hung,
                        detail: "said nothing".into(),
                    },
                    Vec::new(),
                    "",
                ),
                vec!["[5.00 s] j3 failed: said nothing"],
            ),
        ] {
            assert_eq!(news(&turn, &view), lines);
        }
    }
}
