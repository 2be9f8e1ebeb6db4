//! `trace.json` of a run: where each job was and what the policy decided, on one time line, for Perfetto.
//!
//! It is made from the journal and the outcomes when the run has ended. The times are those of the run, skipped steps included.

use std::{collections::BTreeMap, io};

use formats::{
    activity::{Activity, Phase, Stay, StayEnd},
    decision::{self, Action, DeviceId, JobId, Turn},
    rows::Outcome,
};
use record::{run_dir::RunDir, trace_events::TraceWriter};
use schema::units::Nanos;

/// The groups of tracks.
const DEVICES: u64 = 1;
const JOBS: u64 = 2;
const DECISIONS: u64 = 3;

/// Each device has this number of tracks, because the spans of jobs that share it would cross on one.
const TRACKS_OF_DEVICE: u64 = 1 << 16;

/// The names of what is drawn, by number.
pub(super) struct DrawnNames {
    pub(super) jobs: Vec<String>,
    pub(super) devices: Vec<String>,
}

/// The stays of one launch, which follow each other.
struct DrawnLaunch<'a> {
    stays: Vec<&'a Stay>,
    from: u64,
    until: u64,
}

/// Writes the file, and replaces an older one.
///
/// # Errors
/// The journal cannot be read whole, or the file cannot be written.
pub(super) fn write(run: &RunDir, names: &DrawnNames, outcomes: &[Outcome]) -> anyhow::Result<()> {
    let path = run.decisions_path();
    let activity = Activity::read(&path);
    let mut trace = TraceWriter::create(&run.trace_path(), Nanos::ZERO)?;
    for (group, name) in [(DEVICES, "devices"), (JOBS, "jobs"), (DECISIONS, "decisions")] {
        trace.name_process(group, name)?;
    }
    let launches = launches(&activity);
    write_devices(&mut trace, names, &launches, &activity)?;
    write_jobs(&mut trace, names, &launches, activity.waiting(outcomes))?;
    trace.name_thread((DECISIONS, 0), "policy")?;
    let mut written = Ok(());
    decision::read_each(&path, |turn| {
        if written.is_ok() {
            written = write_decisions(&mut trace, names, &turn);
        }
    })?;
    written?;
    Ok(trace.finish()?)
}

/// The launches in order of their begins.
fn launches<'a>(activity: &'a Activity) -> Vec<DrawnLaunch<'a>> {
    let mut by_launch: BTreeMap<(JobId, u32), Vec<&Stay>> = BTreeMap::new();
    for stay in &activity.stays {
        by_launch.entry((stay.job, stay.launch)).or_default().push(stay);
    }
    let launch = |stays: Vec<&'a Stay>| {
        let from = stays.iter().map(|stay| stay.from_ns).min().unwrap_or(0);
        let until = stays.iter().map(|stay| stay.until_ns).max().unwrap_or(0);
        DrawnLaunch { stays, from, until }
    };
    let mut launches: Vec<DrawnLaunch> = by_launch.into_values().map(launch).collect();
    launches.sort_by_key(|launch| (launch.from, launch.until));
    launches
}

/// Each launch on each of its devices, in the first track that is free.
fn write_devices(
    trace: &mut TraceWriter,
    names: &DrawnNames,
    launches: &[DrawnLaunch],
    activity: &Activity,
) -> io::Result<()> {
    let mut free_from: Vec<Vec<u64>> = vec![Vec::new(); names.devices.len()];
    for launch in launches {
        for device in launch.stays[0].devices.iter() {
            let Some(tracks) = free_from.get_mut(device.0 as usize) else { continue };
            let nth = tracks.iter().position(|free| *free <= launch.from).unwrap_or(tracks.len());
            if nth == tracks.len() {
                tracks.push(0);
            }
            tracks[nth] = launch.until;
            write_launch(trace, names, track(*device, nth), launch)?;
        }
    }
    for (name, (device, tracks)) in names.devices.iter().zip((0..).map(DeviceId).zip(&free_from)) {
        for nth in 0..tracks.len().max(1) {
            let more = if nth == 0 { String::new() } else { format!(", job {} at once", nth + 1) };
            trace.name_thread(track(device, nth), &format!("{name}{more}"))?;
        }
    }
    for loss in &activity.losses {
        let span = (Nanos(loss.from_ns), Nanos(loss.until_ns - loss.from_ns));
        let name = names.devices.get(loss.device.0 as usize).cloned().unwrap_or_default();
        // Launches end some time after the loss of their device, so that the spans may cross.
        let own = track(loss.device, TRACKS_OF_DEVICE as usize - 1);
        trace.name_thread(own, &format!("{name}, lost"))?;
        trace.span(own, "lost".into(), span, NONE)?;
    }
    Ok(())
}

fn track(device: DeviceId, nth: usize) -> (u64, u64) {
    (DEVICES, u64::from(device.0) * TRACKS_OF_DEVICE + nth as u64)
}

const NONE: [(&str, Option<f64>); 0] = [];

/// The time of each job: its waits and its launches.
fn write_jobs(
    trace: &mut TraceWriter,
    names: &DrawnNames,
    launches: &[DrawnLaunch],
    waits: Vec<(JobId, (u64, u64))>,
) -> io::Result<()> {
    for (job, name) in (0..).zip(&names.jobs) {
        trace.name_thread((JOBS, job), name)?;
    }
    for (job, (from, until)) in waits.into_iter().filter(|(_, (from, until))| from < until) {
        let span = (Nanos(from), Nanos(until - from));
        trace.span((JOBS, u64::from(job.0)), "waits".into(), span, NONE)?;
    }
    launches
        .iter()
        .try_for_each(|launch| write_launch(trace, names, (JOBS, u64::from(launch.stays[0].job.0)), launch))
}

/// The whole launch, and its phases within it.
fn write_launch(
    trace: &mut TraceWriter,
    names: &DrawnNames,
    track: (u64, u64),
    launch: &DrawnLaunch,
) -> io::Result<()> {
    let last = launch.stays[launch.stays.len() - 1];
    let arguments = [
        ("devices", Some(names.devices_of(&last.devices))),
        ("plan", last.plan.map(|plan| plan.to_string())),
        ("end", how_it_ended(&last.end)),
    ];
    let name = format!("{}, launch {}", names.job(last.job), last.launch + 1);
    trace.span(track, name, (Nanos(launch.from), Nanos(launch.until - launch.from)), arguments)?;
    for stay in &launch.stays {
        let span = (Nanos(stay.from_ns), Nanos(stay.until_ns - stay.from_ns));
        if span.1 > Nanos::ZERO {
            trace.span(track, phase_name(stay.phase).into(), span, NONE)?;
        }
    }
    Ok(())
}

fn phase_name(phase: Phase) -> &'static str {
    match phase {
        Phase::Starting => "start",
        Phase::Running => "train",
        Phase::Pausing => "pause",
        Phase::Paused => "paused",
        Phase::Resuming => "resume",
        Phase::Stopping => "stop",
        Phase::Ending => "end",
    }
}

/// `None` if the journal ends before the launch does.
fn how_it_ended(end: &StayEnd) -> Option<String> {
    match end {
        StayEnd::Finished => Some("finished".into()),
        StayEnd::Stopped => Some("stopped".into()),
        StayEnd::EndedByPolicy => Some("ended by the policy".into()),
        StayEnd::Failed(kind, detail) => Some(format!("failed: {kind}: {detail}")),
        StayEnd::NextPhase | StayEnd::Open => None,
    }
}

/// An instant for each action that was done, and for each that was refused.
fn write_decisions(trace: &mut TraceWriter, names: &DrawnNames, turn: &Turn) -> io::Result<()> {
    let reason = Some(turn.reason.clone()).filter(|reason| !reason.is_empty());
    let mut instant = |action: &Action, refusal: Option<&String>| {
        let begin = if refusal.is_some() { "refused: " } else { "" };
        let name = format!("{begin}{}: {}", names.job(action.job()), names.action(action));
        let arguments = [
            ("reason", reason.clone()),
            ("refused_because", refusal.cloned()),
            ("explain", turn.explain.get(&action.job()).cloned()),
        ];
        trace.instant((DECISIONS, 0), name, turn.at_ns, arguments)
    };
    turn.actions.iter().try_for_each(|action| instant(action, None))?;
    turn.refused.iter().try_for_each(|refused| instant(&refused.action, Some(&refused.why)))
}

impl DrawnNames {
    fn job(&self, job: JobId) -> String {
        self.jobs.get(job.0 as usize).cloned().unwrap_or_else(|| format!("job {}", job.0))
    }

    fn devices_of(&self, devices: &[DeviceId]) -> String {
        let name = |device: &DeviceId| {
            self.devices.get(device.0 as usize).cloned().unwrap_or_else(|| format!("device {}", device.0))
        };
        devices.iter().map(name).collect::<Vec<_>>().join(",")
    }

    /// The action with the names of devices in the place of their numbers.
    fn action(&self, action: &Action) -> String {
        match action {
            Action::Start { devices, plan, .. } => {
                let under = plan.map(|plan| format!(" under {plan}")).unwrap_or_default();
                format!("start on {}{under}", self.devices_of(devices))
            }
            other => other.to_string(),
        }
    }
}
