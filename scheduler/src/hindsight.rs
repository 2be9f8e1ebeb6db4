//! The simulation of a run with what was measured in it.

use schema::{
    decision::{JobId, Settled},
    units::Nanos,
};

use crate::{
    recorded::Recorded,
    sim::{Exact, ProgressModel, Stretch},
};

/// A course along which each launch gets on as the launch of the run did, step by step, and each switch takes as long as it took.
///
/// A launch that the run did not have gets on like the other launches of its job, and that of a job without any as the model says.
/// Steps beyond the last of a launch take as long as those before.
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
                let trained = on_line(points, of.steps, |point| (point.1, point.0));
                on_line(points, trained + (at - of.since).0 as f64, |point| point)
            }
        }
    }

    fn time_of(&mut self, job: JobId, of: &Stretch, steps: f64) -> Nanos {
        match self.points(job, of.launch) {
            None => Exact.time_of(job, &self.otherwise(job, of), steps),
            Some(points) => {
                let [from, to] =
                    [of.steps, steps].map(|steps| on_line(points, steps, |point| (point.1, point.0)));
                of.since + Nanos((to - from).max(0.0).ceil() as u64)
            }
        }
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

/// The value at `x` of the line through two points or more, whose first and last parts go on beyond its ends.
fn on_line(points: &[(f64, f64)], x: f64, axes: impl Fn((f64, f64)) -> (f64, f64)) -> f64 {
    let after = points.partition_point(|point| axes(*point).0 <= x).clamp(1, points.len() - 1);
    let ((x0, y0), (x1, y1)) = (axes(points[after - 1]), axes(points[after]));
    y0 + (x - x0) / (x1 - x0) * (y1 - y0)
}
