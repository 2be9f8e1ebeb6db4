//! `sched explain`: says why a job waits, or runs where it does.

use std::path::PathBuf;

use anyhow::Context as _;
use engine::{
    cluster::{JobId, Share},
    job::{Ending, State},
    replay,
    view::View,
};
use formats::{
    decision::{Action, ClusterEvent, DeviceId, Settled, Turn},
    rows::{Explained, JobChange},
};
use record::rows;
use rig::{Exit, output};
use schema::units::Nanos;

use super::{busy, not_repeated, recorded};
use crate::{online, policy};

/// Say why a job waits, or runs where it does.
///
/// The decisions of the run are made again up to a turn. Then the state of the job is printed, what the
/// policy says of it, and the turns that changed it, each with the reason of the policy. No job is started, and no policy that is a
/// program: what such a policy says of a job is what it said last in the recorded run.
///
/// Example: `sched explain runs/sim/srtf job-3`
///
/// Example: `sched explain runs/sim/srtf job-3 --turn 12`
#[derive(clap::Args)]
pub(super) struct Args {
    /// Directory of a run of `sched run`, or of `sched sim --out`.
    run: PathBuf,
    /// The name of the job in the trace.
    job: String,
    /// The turn after which the job is looked at [default: the last one].
    #[arg(long, value_name = "N")]
    turn: Option<u64>,
    /// Print the state of the job, the words of the policy and the turns as JSON.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &Args) -> anyhow::Result<Exit> {
    let (inputs, turns) = recorded(&args.run)?;
    let name = &online::scheduling(&inputs.manifest)?.policy;
    let last = turns.len() as u64 - 1;
    let turn = args.turn.unwrap_or(last);
    let turns = turns
        .get(..=turn as usize)
        .with_context(|| format!("{} has turns 0 to {last}; there is no turn {turn}", args.run.display()))?;
    let job = inputs.asked.iter().find(|asked| asked.name == args.job);
    let job = job
        .with_context(|| format!("{}: inputs/trace.csv has no job '{}'", args.run.display(), args.job))?
        .id;
    let mut engine = inputs.engine();
    let busy = busy(format!("deciding {} turns again", turns.len()));
    let mut own = None;
    let replayed = match policy::program(name) {
        Some(_) => replay::outcomes(&mut engine, turns).map(drop),
        None => {
            let policy = own.insert(policy::build(name, &policy::typed(std::iter::empty()))?);
            replay::replay(&mut engine, &mut **policy, turns)
        }
    };
    drop(busy);
    replayed.with_context(|| not_repeated(&args.run))?;
    let view = engine.view();
    let at = turns.last().map(|turn| turn.at_ns).unwrap_or_default();
    let state = state(&view, job, at);
    let policy = own.as_deref().filter(|_| has_arrived(turns, job));
    let says = policy.map(|policy| policy.explain(&view, job)).filter(|says| !says.is_empty());
    let says = says.unwrap_or_else(|| recorded_explanation(turns, job));
    let changes: Vec<JobChange> = turns.iter().flat_map(|turn| changes(&view, turn, job)).collect();
    if args.json {
        let (job, policy) = (args.job.clone(), name.clone());
        let explained = Explained { job, policy, turn, at_ns: at, state, explanation: says, changes };
        output::print(rows::to_json(&explained))?;
        return Ok(Exit::Ok);
    }
    output::print(format_args!("after turn {turn}, at {at}: {} {state}", args.job))?;
    if !says.is_empty() {
        output::print(format_args!("{name}: {says}"))?;
    }
    for JobChange { turn, at_ns, what } in changes {
        output::print(format_args!("  turn {turn} at {at_ns}: {what}"))?;
    }
    Ok(Exit::Ok)
}

fn has_arrived(turns: &[Turn], job: JobId) -> bool {
    let arrives = |turn: &Turn| turn.events.contains(&ClusterEvent::Arrived { job });
    turns.iter().any(arrives)
}

/// What a policy said last of a job for the journal, with the turn if that is not the last one. Empty if it said nothing.
fn recorded_explanation(turns: &[Turn], job: JobId) -> String {
    let last = turns.last().map(|turn| turn.turn);
    let said = turns.iter().rev().find_map(|turn| Some((turn.turn, turn.explain.get(&job)?)));
    match said.filter(|(_, text)| !text.is_empty()) {
        Some((turn, text)) if Some(turn) == last => text.clone(),
        Some((turn, text)) => format!("{text} (said in turn {turn})"),
        None => String::new(),
    }
}

/// What the job does, and since when.
fn state(view: &View<'_>, id: JobId, at: Nanos) -> String {
    let (asked, job) = (&view.asked[id.0 as usize], &view.jobs[id.0 as usize]);
    if asked.arrival > at {
        return format!("arrives at {}", asked.arrival);
    }
    let of = asked.steps.map(|steps| format!(" of {steps}")).unwrap_or_default();
    let steps = format!("{}{of} steps were reported", job.steps);
    match &job.state {
        State::Waiting { since } => {
            let several = if asked.devices == 1 { "" } else { "s" };
            format!("has waited since {since} for {} device{several}; {steps}", asked.devices)
        }
        State::Ended { at, how: Ending::Finished } => format!("ended at {at}"),
        State::Ended { at, how: Ending::ByPolicy } => format!("was ended by the policy, at {at}; {steps}"),
        State::Ended { at, how: Ending::Failed(kind, why) } => format!("failed at {at}: {kind}: {why}"),
        State::Placed(placed) => {
            let devices = devices_named(view, &placed.devices);
            let under = placed.plan.map(|plan| format!(" under {plan}")).unwrap_or_default();
            let (phase, since) = (placed.phase, placed.since);
            let share = placed.share;
            let throttled =
                if share < Share::FULL { format!(", throttled to {share}") } else { String::new() };
            format!("is {phase} on {devices}{under} since {since}{throttled}; {steps}")
        }
    }
}

/// The events, actions and refusals of a turn that are of this job. An action has the explanation of the job, or else the reason of the
/// decision.
fn changes(view: &View<'_>, turn: &Turn, job: JobId) -> Vec<JobChange> {
    let state = &view.jobs[job.0 as usize].state;
    let ends_here = matches!(state, State::Ended { at, how: Ending::ByPolicy } if *at == turn.at_ns);
    let events = turn.events.iter().filter(|happened| happened.job() == Some(job));
    let events = events.map(|happened| match happened {
        ClusterEvent::Settled { now: Settled::Stopped, .. } | ClusterEvent::Failed { .. } if ends_here => {
            "left its devices".into()
        }
        other => event(other),
    });
    let explanation = turn.explain.get(&job).filter(|text| !text.is_empty());
    let why = explanation.unwrap_or(&turn.reason);
    let because = if why.is_empty() { String::new() } else { format!(" ({why})") };
    let actions = turn.actions.iter().filter(|action| action.job() == job);
    let actions = actions.map(|action| format!("{}{because}", action_text(view, action)));
    let refused = turn.refused.iter().filter(|refused| refused.action.job() == job);
    let refused = refused.map(|refused| format!("refused to {}: {}", refused.action, refused.why));
    let all = events.chain(actions).chain(refused);
    all.map(|what| JobChange { turn: turn.turn, at_ns: turn.at_ns, what }).collect()
}

fn event(happened: &ClusterEvent) -> String {
    match happened {
        ClusterEvent::Arrived { .. } => "arrived".into(),
        ClusterEvent::Settled { now: Settled::Running, steps, .. } => format!("runs from step {steps}"),
        ClusterEvent::Settled { now: Settled::Paused, steps, .. } => format!("paused at step {steps}"),
        ClusterEvent::Settled { now: Settled::Stopped, steps, .. } => format!("stopped at step {steps}"),
        ClusterEvent::Progress { steps, loss: Some(loss), .. } => {
            format!("reported {steps} steps and a loss of {loss:.4}")
        }
        ClusterEvent::Progress { steps, .. } => format!("reported {steps} steps"),
        ClusterEvent::Finished { steps, .. } => format!("finished after {steps} steps"),
        ClusterEvent::Failed { steps, detail, .. } => format!("failed, {steps} steps are kept: {detail}"),
        other => other.to_string(),
    }
}

/// A policy may name devices in a recorded start that do not exist, but such a start is refused.
fn action_text(view: &View<'_>, action: &Action) -> String {
    match action {
        Action::Start { devices, plan, .. } => {
            let under = plan.map(|plan| format!(" under {plan}")).unwrap_or_default();
            format!("start on {}{under}", devices_named(view, devices))
        }
        other => other.to_string(),
    }
}

fn devices_named(view: &View<'_>, devices: &[DeviceId]) -> String {
    devices.iter().map(|device| view.topology.name_of(*device)).collect::<Vec<_>>().join(",")
}
