//! The simulation of a run with what was measured in it.

use schema::{
    decision::{JobId, Settled},
    units::Nanos,
};

use crate::{
    recorded::Recorded,
    sim::{Exact, ProgressModel, Stretch},
};

/// A report of a run is at most this part of the time since the report before away from when it was due.
const AWAY: f64 = 0.1;

/// A course along which each launch gets on as the launch of the run did, step by step, and each switch takes as long as it took.
///
/// A launch that the run did not have gets on like the other launches of its job, and that of a job without any as the model says.
/// Steps beyond the last of a launch take as long as those of its job on average: the last ones before an order to leave were granted
/// before and seem to be faster.
pub struct Hindsight(pub Recorded);

impl Hindsight {
    /// Steps by the time for which the launch has trained, at two points or more.
    fn points(&self, job: JobId, launch: u32) -> Option<&[(f64, f64)]> {
        let launch = self.0.job(job)?.launches.get(launch as usize)?;
        (launch.points.len() > 1).then_some(&launch.points)
    }

    fn mean_step_ns(&self, job: JobId) -> Option<f64> {
        let of_launch = |points: &Vec<(f64, f64)>| Some((points.first().copied()?, points.last().copied()?));
        let launches = &self.0.job(job)?.launches;
        let ends = launches.iter().filter_map(|launch| of_launch(&launch.points));
        let (ns, steps) = ends
            .fold((0.0, 0.0), |(ns, steps), (first, last)| (ns + last.0 - first.0, steps + last.1 - first.1));
        (steps > 0.0).then(|| ns / steps)
    }

    /// The steps of the report that was due when a launch had trained for a time in nanoseconds. The report came a little later, and the
    /// run may have seen the beginning of the launch later still.
    fn report(&self, job: JobId, launch: u32, trained_ns: f64) -> Option<u64> {
        let reports = &self.0.job(job)?.launches.get(launch as usize)?.reports;
        let next = reports.partition_point(|(ns, _)| *ns < trained_ns);
        let near = (next.saturating_sub(1)..=next).filter(|nth| {
            let Some((ns, _)) = reports.get(*nth) else { return false };
            let before = nth.checked_sub(1).map_or(0.0, |before| reports[before].0);
            (ns - trained_ns).abs() <= AWAY * (ns - before)
        });
        let distance = |nth: &usize| (reports[*nth].0 - trained_ns).abs();
        near.min_by(|one, other| distance(one).total_cmp(&distance(other))).map(|nth| reports[nth].1)
    }

    /// The stretch of a launch that the run did not have.
    fn otherwise(&self, job: JobId, of: &Stretch) -> Stretch {
        Stretch { step_ns: self.mean_step_ns(job).unwrap_or(of.step_ns), ..*of }
    }
}

impl ProgressModel for Hindsight {
    fn steps_at(&mut self, job: JobId, of: &Stretch, at: Nanos) -> f64 {
        match self.points(job, of.launch) {
            None => Exact.steps_at(job, &self.otherwise(job, of), at),
            Some(points) => {
                let step_ns = self.mean_step_ns(job).unwrap_or(of.step_ns);
                let trained = trained_ns(points, of.steps, step_ns);
                steps_after(points, trained + (at - of.since).0 as f64, step_ns)
            }
        }
    }

    fn time_of(&mut self, job: JobId, of: &Stretch, steps: f64) -> Nanos {
        match self.points(job, of.launch) {
            None => Exact.time_of(job, &self.otherwise(job, of), steps),
            Some(points) => {
                let step_ns = self.mean_step_ns(job).unwrap_or(of.step_ns);
                let [from, to] = [of.steps, steps].map(|steps| trained_ns(points, steps, step_ns));
                of.since + Nanos((to - from).max(0.0).ceil() as u64)
            }
        }
    }

    fn reported_at(&mut self, job: JobId, of: &Stretch, at: Nanos) -> u64 {
        let steps = self.steps_at(job, of, at).round() as u64;
        let Some(points) = self.points(job, of.launch) else { return steps };
        let step_ns = self.mean_step_ns(job).unwrap_or(of.step_ns);
        let trained = trained_ns(points, of.steps, step_ns) + (at - of.since).0 as f64;
        self.report(job, of.launch, trained).unwrap_or(steps)
    }

    fn leaves_at(&mut self, job: JobId, launch: u32, to: Settled, nth: u32) -> Option<u64> {
        self.switched(job, launch, to, nth).map(|(_, steps)| steps)
    }

    fn switch(&mut self, job: JobId, launch: u32, to: Settled, nth: u32) -> Option<Nanos> {
        self.switched(job, launch, to, nth).map(|(took, _)| took)
    }
}

impl Hindsight {
    fn switched(&self, job: JobId, launch: u32, to: Settled, nth: u32) -> Option<(Nanos, u64)> {
        let switches = &self.0.job(job)?.launches.get(launch as usize)?.switches;
        switches.iter().filter(|switch| switch.to == to).nth(nth as usize)?.ended
    }
}

/// The steps of a launch after it has trained for a time in nanoseconds. Steps beyond the last point take `step_ns`.
fn steps_after(points: &[(f64, f64)], trained_ns: f64, step_ns: f64) -> f64 {
    match points.last() {
        Some((last_ns, last)) if trained_ns > *last_ns => last + (trained_ns - last_ns) / step_ns,
        _ => on_line(points, trained_ns, |point| point),
    }
}

/// The time for which a launch has trained after this number of steps, in nanoseconds. The inverse of [`steps_after`].
fn trained_ns(points: &[(f64, f64)], steps: f64, step_ns: f64) -> f64 {
    match points.last() {
        Some((last_ns, last)) if steps > *last => last_ns + (steps - last) * step_ns,
        _ => on_line(points, steps, |(ns, steps)| (steps, ns)),
    }
}

/// The value at `x` of the line through two points or more, whose first part goes on before its beginning.
fn on_line(points: &[(f64, f64)], x: f64, axes: impl Fn((f64, f64)) -> (f64, f64)) -> f64 {
    let after = points.partition_point(|point| axes(*point).0 <= x).clamp(1, points.len() - 1);
    let ((x0, y0), (x1, y1)) = (axes(points[after - 1]), axes(points[after]));
    y0 + (x - x0) / (x1 - x0) * (y1 - y0)
}
