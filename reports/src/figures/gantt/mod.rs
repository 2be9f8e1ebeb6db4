//! What ran where and when in a run of `sched`: a Gantt chart with a lane for each device.

mod joined;
mod parts;
#[cfg(test)]
mod tests;

use std::{
    cmp::Reverse,
    collections::{BTreeMap, HashMap, HashSet},
};

use formats::decision::{DeviceId, JobId};

use self::{joined::joined, parts::parts};
use crate::{
    activity::{Activity, Stay, StayEnd},
    chart::{Axis, Chart, Lanes, Span, SpanKind},
    colours::{Colour, Colours},
    figure::Figure,
    run::Run,
    scheduled::place,
    table::Unit,
};

/// The largest number of lanes.
const MOST_LANES: usize = 64;
/// The largest number of spans of all runs of a report, which share the size of a page.
const MOST_SPANS: usize = 10_000;

pub(super) fn make(run: &Run, colours: &Colours) -> Vec<Figure> {
    let Some(activity) = run.activity().filter(|activity| !activity.stays.is_empty()) else {
        return Vec::new();
    };
    let names = run.device_names();
    let devices = shown(activity, names.len());
    let spans = spans(activity, &devices, &Jobs::of(run, colours));
    let count = spans.len();
    let spans = joined(spans, activity.until_ns as f64, MOST_SPANS / run.among.max(1));
    let mut missing: Vec<String> = activity.problem.iter().cloned().collect();
    if names.len() > devices.len() {
        missing.push(format!(
            "{} of {} devices, which were busy for less time",
            names.len() - devices.len(),
            names.len()
        ));
    }
    let of = if spans.len() < count {
        format!(
            " {} spans are drawn for {count}: those too narrow to see are joined with their neighbours.",
            spans.len()
        )
    } else {
        String::new()
    };
    let caption = format!(
        "What each job did on {}, from the journal: it runs, switches (starts, pauses, resumes or stops) or is paused on its devices. \
         Jobs on one device at a time are below each other. A job that goes on under another plan has that plan beside its name. \
         A cross is a launch that failed.{of}",
        place(run)
    );
    let name = |device: &DeviceId| names.get(device.0 as usize).cloned().unwrap_or_default();
    let chart = Chart::Lanes(Lanes {
        time: Axis::new("time from the start of the run", "at_ns", Unit::Ns),
        column: "device".into(),
        lanes: devices.iter().map(name).collect(),
        decimated_from: (spans.len() < count).then_some(count),
        spans,
    });
    vec![Figure { missing, ..Figure::new("Schedule", caption, chart) }]
}

/// The devices that are drawn, in order: all of them, or those that were busy for the longest time.
fn shown(activity: &Activity, count: usize) -> Vec<DeviceId> {
    let mut devices: Vec<DeviceId> = (0..count as u32).map(DeviceId).collect();
    if count > MOST_LANES {
        let busy: HashMap<DeviceId, u64> = activity
            .busy()
            .into_iter()
            .map(|(device, intervals)| (device, intervals.iter().map(|(from, until)| until - from).sum()))
            .collect();
        devices.sort_by_key(|device| Reverse(busy.get(device).copied().unwrap_or(0)));
        devices.truncate(MOST_LANES);
        devices.sort_unstable();
    }
    devices
}

/// The names and the workloads of jobs: of their rows, or of the cells of a run that goes on.
struct Jobs<'a> {
    known: HashMap<JobId, (&'a str, &'a str)>,
    colours: &'a Colours,
}

impl<'a> Jobs<'a> {
    fn of(run: &'a Run, colours: &'a Colours) -> Jobs<'a> {
        let cells = (0..).map(JobId).zip(&run.manifest.cells);
        let cells = cells.map(|(job, cell)| (job, (cell.name.as_str(), cell.workload.as_str())));
        let rows = run.outcomes.iter().map(|row| (row.job, (row.name.as_str(), row.workload.as_str())));
        Jobs { known: cells.chain(rows).collect(), colours }
    }

    fn name(&self, job: JobId) -> String {
        self.known.get(&job).map_or_else(|| format!("job {}", job.0), |(name, _)| (*name).to_owned())
    }

    fn workload(&self, job: JobId) -> Option<&'a str> {
        self.known.get(&job).map(|(_, workload)| *workload)
    }

    fn colour(&self, job: JobId) -> Colour {
        self.workload(job).map_or(Colour::Muted, |workload| self.colours.of(workload))
    }
}

/// The spans of these devices, in order of lanes and then of their begins.
fn spans(activity: &Activity, devices: &[DeviceId], jobs: &Jobs) -> Vec<Span> {
    let lanes: HashMap<DeviceId, usize> =
        devices.iter().enumerate().map(|(lane, device)| (*device, lane)).collect();
    let mut of_lanes: Vec<Vec<&Stay>> = vec![Vec::new(); devices.len()];
    for stay in &activity.stays {
        let there: HashSet<usize> =
            stay.devices.iter().filter_map(|device| lanes.get(device).copied()).collect();
        for lane in there {
            of_lanes[lane].push(stay);
        }
    }
    let mut spans = Vec::new();
    for (lane, stays) in of_lanes.iter().enumerate() {
        spans.extend(of_lane(lane, stays, jobs));
        let lost = activity.losses.iter().filter(|loss| lanes.get(&loss.device) == Some(&lane));
        spans.extend(lost.map(|loss| Span {
            lane,
            from: loss.from_ns as f64,
            to: loss.until_ns as f64,
            part: (0, 1),
            name: "lost".into(),
            label: "lost".into(),
            group: String::new(),
            kind: SpanKind::Lost,
            colour: Colour::Bad,
            detail: "nothing can run on the device".into(),
        }));
    }
    spans.sort_by(|a, b| a.lane.cmp(&b.lane).then(a.from.total_cmp(&b.from)));
    spans
}

fn of_lane(lane: usize, stays: &[&Stay], jobs: &Jobs) -> Vec<Span> {
    let mut launches: BTreeMap<(JobId, u32), (u64, u64)> = BTreeMap::new();
    for stay in stays {
        let launch = launches.entry((stay.job, stay.launch)).or_insert((stay.from_ns, stay.until_ns));
        *launch = (launch.0.min(stay.from_ns), launch.1.max(stay.until_ns));
    }
    let of_launch: HashMap<(JobId, u32), (u16, u16)> =
        launches.keys().copied().zip(parts(&launches.values().copied().collect::<Vec<_>>())).collect();
    let mut spans = Vec::new();
    for stay in stays {
        let span = Span {
            lane,
            from: stay.from_ns as f64,
            to: stay.until_ns as f64,
            part: of_launch.get(&(stay.job, stay.launch)).copied().unwrap_or((0, 1)),
            name: jobs.name(stay.job),
            label: label(stay, jobs),
            group: jobs.workload(stay.job).unwrap_or_default().to_owned(),
            kind: stay.phase.into(),
            colour: jobs.colour(stay.job),
            detail: detail(stay),
        };
        if matches!(stay.end, StayEnd::Failed(..)) {
            let colour = Colour::Bad;
            spans.push(Span { from: span.to, kind: SpanKind::Failed, colour, ..span.clone() });
        }
        spans.push(span);
    }
    spans
}

/// The name of the job, and its plan if that has changed.
fn label(stay: &Stay, jobs: &Jobs) -> String {
    match stay.plan.filter(|_| stay.plan_before.is_some()) {
        Some(plan) => format!("{} now {plan}", jobs.name(stay.job)),
        None => jobs.name(stay.job),
    }
}

/// The phase, the plan and what followed, for a reader who points at the span.
fn detail(stay: &Stay) -> String {
    let mut parts = vec![format!("{:?}", stay.phase).to_lowercase()];
    parts.extend(stay.plan.map(|plan| plan.to_string()));
    parts.push(match stay.devices.len() {
        1 => "1 device".into(),
        count => format!("{count} devices"),
    });
    parts.extend((stay.launch > 0).then(|| format!("start {}", stay.launch + 1)));
    parts.extend(stay.plan_before.map(|before| format!("before under {before}")));
    parts.extend(match &stay.end {
        StayEnd::NextPhase => None,
        StayEnd::Finished => Some("then finished".to_owned()),
        StayEnd::Stopped => Some("then stopped".to_owned()),
        StayEnd::EndedByPolicy => Some("then ended by the policy".to_owned()),
        StayEnd::Failed(kind, why) if why.is_empty() => Some(format!("then failed: {kind}")),
        StayEnd::Failed(kind, why) => Some(format!("then failed: {kind}: {why}")),
        StayEnd::Open => Some("at the end of the journal".to_owned()),
    });
    parts.join("; ")
}
