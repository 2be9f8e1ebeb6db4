//! The simulation of a run with what was measured in it.

use std::collections::BTreeMap;

use formats::decision::{JobId, Settled};
use launches::{
    recorded::{Recorded, RecordedJob, RecordedLaunch},
    simulated::{Exact, ProgressModel, Stretch},
};
use schema::units::Nanos;

/// The largest distance of a recorded report from its due time, as a fraction of the time since the report before.
const AWAY: f64 = 0.1;

/// A course along which each launch gets on as the launch of the run did, step by step, and each switch takes as long as it took.
///
/// A launch that the run did not have gets on like the other launches of its job, and that of a job without any as the model says.
/// Steps beyond the last of a launch take as long as those of its job on average: the last ones before an order to leave were granted
/// before and seem to be faster.
pub struct Hindsight {
    recorded: Recorded,
    /// The mean time of a step of each job, in nanoseconds, over all of its launches.
    mean_step_ns: BTreeMap<JobId, f64>,
}

impl Hindsight {
    pub fn new(recorded: Recorded) -> Hindsight {
        let mean_step_ns = recorded.jobs().filter_map(|(id, job)| Some((id, mean_step_ns(job)?))).collect();
        Hindsight { recorded, mean_step_ns }
    }

    fn launch(&self, job: JobId, launch: u32) -> Option<&RecordedLaunch> {
        self.recorded.job(job)?.launches.get(launch as usize)
    }

    /// Steps by the time for which the launch has trained, at two points or more, and the time of a step beyond the last.
    fn line(&self, job: JobId, of: &Stretch) -> Option<Line<'_>> {
        let points = &self.launch(job, of.launch)?.points;
        let beyond_ns = self.mean_step_ns.get(&job).copied().unwrap_or(of.step_ns);
        (points.len() > 1).then_some(Line { points, beyond_ns })
    }

    /// The steps of the recorded report that was due after this training time. Both the report and the beginning of the launch were
    /// recorded a little late, so that the training time of the report may lie on either side.
    fn report(&self, job: JobId, launch: u32, trained_ns: f64) -> Option<u64> {
        let reports = &self.launch(job, launch)?.reports;
        let next = reports.partition_point(|(ns, _)| *ns < trained_ns);
        let near = (next.saturating_sub(1)..=next).filter(|nth| {
            let Some((ns, _)) = reports.get(*nth) else { return false };
            let before = nth.checked_sub(1).map_or(0.0, |before| reports[before].0);
            (ns - trained_ns).abs() <= AWAY * (ns - before)
        });
        let distance = |nth: &usize| (reports[*nth].0 - trained_ns).abs();
        near.min_by(|one, other| distance(one).total_cmp(&distance(other))).map(|nth| reports[nth].1)
    }

    /// The duration of the `nth` switch of a launch to a state, and the steps at its end.
    fn switched(&self, job: JobId, launch: u32, to: Settled, nth: u32) -> Option<(Nanos, u64)> {
        let switches = &self.launch(job, launch)?.switches;
        switches.iter().filter(|switch| switch.to == to).nth(nth as usize)?.ended
    }

    /// The stretch of a launch that the run did not have.
    fn otherwise(&self, job: JobId, of: &Stretch) -> Stretch {
        Stretch { step_ns: self.mean_step_ns.get(&job).copied().unwrap_or(of.step_ns), ..*of }
    }
}

impl ProgressModel for Hindsight {
    fn steps_at(&mut self, job: JobId, of: &Stretch, at: Nanos) -> f64 {
        match self.line(job, of) {
            None => Exact.steps_at(job, &self.otherwise(job, of), at),
            Some(line) => line.steps_after(line.trained_at(of, at)),
        }
    }

    fn time_of(&mut self, job: JobId, of: &Stretch, steps: f64) -> Nanos {
        match self.line(job, of) {
            None => Exact.time_of(job, &self.otherwise(job, of), steps),
            Some(line) => {
                let [from, to] = [of.steps, steps].map(|steps| line.trained_ns(steps));
                of.since + Nanos((to - from).max(0.0).ceil() as u64)
            }
        }
    }

    fn reported_at(&mut self, job: JobId, of: &Stretch, at: Nanos) -> u64 {
        let report = self.line(job, of).and_then(|line| self.report(job, of.launch, line.trained_at(of, at)));
        report.unwrap_or_else(|| self.steps_at(job, of, at).round() as u64)
    }

    fn leaves_at(&mut self, job: JobId, launch: u32, to: Settled, nth: u32) -> Option<u64> {
        self.switched(job, launch, to, nth).map(|(_, steps)| steps)
    }

    fn switch(&mut self, job: JobId, launch: u32, to: Settled, nth: u32) -> Option<Nanos> {
        self.switched(job, launch, to, nth).map(|(took, _)| took)
    }

    /// A run does not record when a job did its last step, so that the time of its exit is part of the time of its steps.
    fn exit(&mut self, _job: JobId, _launch: u32) -> Option<Nanos> {
        Some(Nanos::ZERO)
    }
}

fn mean_step_ns(job: &RecordedJob) -> Option<f64> {
    let of_launch = |points: &Vec<(f64, f64)>| Some((points.first().copied()?, points.last().copied()?));
    let ends = job.launches.iter().filter_map(|launch| of_launch(&launch.points));
    let (ns, steps) =
        ends.fold((0.0, 0.0), |(ns, steps), (first, last)| (ns + last.0 - first.0, steps + last.1 - first.1));
    (steps > 0.0).then(|| ns / steps)
}

/// The steps of a launch by the time in nanoseconds for which it has trained.
struct Line<'a> {
    /// Two or more, both coordinates ascending.
    points: &'a [(f64, f64)],
    /// The time of a step beyond the last point.
    beyond_ns: f64,
}

impl Line<'_> {
    fn steps_after(&self, trained_ns: f64) -> f64 {
        match self.points.last() {
            Some((ns, steps)) if trained_ns > *ns => steps + (trained_ns - ns) / self.beyond_ns,
            _ => on_line(self.points, trained_ns, |point| point),
        }
    }

    /// The inverse of [`Line::steps_after`].
    fn trained_ns(&self, steps: f64) -> f64 {
        match self.points.last() {
            Some((ns, last)) if steps > *last => ns + (steps - last) * self.beyond_ns,
            _ => on_line(self.points, steps, |(ns, steps)| (steps, ns)),
        }
    }

    /// The time for which a launch has trained at a time of a stretch.
    fn trained_at(&self, of: &Stretch, at: Nanos) -> f64 {
        self.trained_ns(of.steps) + (at - of.since).0 as f64
    }
}

/// The value at `x` of the line through two points or more, whose first part goes on before its beginning.
fn on_line(points: &[(f64, f64)], x: f64, axes: impl Fn((f64, f64)) -> (f64, f64)) -> f64 {
    let after = points.partition_point(|point| axes(*point).0 <= x).clamp(1, points.len() - 1);
    let ((x0, y0), (x1, y1)) = (axes(points[after - 1]), axes(points[after]));
    y0 + (x - x0) / (x1 - x0) * (y1 - y0)
}
