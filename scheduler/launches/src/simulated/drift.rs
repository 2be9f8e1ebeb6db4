//! The drift of a host: a change of its speed that all of its jobs have in common.

use fastrand::Rng;
use formats::decision::JobId;
use model::HostDrift;
use schema::units::Nanos;

use super::{
    chance::{Draw, chi_squared, normal, numbers},
    course::{ProgressModel, Stretch, duration},
};

/// A course on a host whose speed is drawn. Steps take `exp(level + wander(t))` times as long as the model says.
///
/// `level` is the error of the tables, whose rows are of the speeds that the host happened to have: its variance is that of the
/// speed, divided by the number of runs in the mean. `wander` is what the host does while the jobs run: a stationary Gaussian
/// process whose correlation falls to 1/e within [`HostDrift::MEMORY`] (Ornstein and Uhlenbeck, Phys. Rev. 36, 1930). The variance of
/// the speed is drawn, too, because it is estimated from few runs, so that few runs make wide intervals.
pub struct Drifting {
    /// The factor of step times in the next interval without `level`, on the log scale.
    wander: f64,
    level: f64,
    sigma: f64,
    rng: Rng,
    /// The time that jobs on a host of the model's speed would have needed for what was done by each multiple of [`EVERY`].
    done_ns: Vec<f64>,
}

/// The interval in which the speed is constant.
const EVERY: Nanos = Nanos(HostDrift::MEMORY.0 / 8);

impl Drifting {
    /// Draws the drift of one run.
    pub fn new(drift: &HostDrift, seed: u64) -> Drifting {
        let mut rng = numbers(seed, Draw::Drift, 0, 0);
        // The posterior of a variance is a scaled inverse chi-squared distribution.
        let freedom = drift.degrees_of_freedom;
        let sigma = drift.sigma * (freedom / chi_squared(&mut rng, freedom)).sqrt();
        let level = sigma / f64::from(drift.runs.max(1)).sqrt() * normal(&mut rng);
        let wander = sigma * normal(&mut rng);
        Drifting { wander, level, sigma, rng, done_ns: vec![0.0] }
    }

    /// Continues the process until `is_enough` holds for `done_ns`.
    fn grow(&mut self, is_enough: impl Fn(&[f64]) -> bool) {
        let kept = (-(EVERY.0 as f64) / HostDrift::MEMORY.0 as f64).exp();
        while !is_enough(&self.done_ns) {
            let done = self.done_ns[self.done_ns.len() - 1];
            self.done_ns.push(done + EVERY.0 as f64 / (self.level + self.wander).exp());
            let new = self.sigma * (1.0 - kept * kept).sqrt();
            self.wander = kept * self.wander + new * normal(&mut self.rng);
        }
    }

    fn done(&mut self, at: Nanos) -> f64 {
        let place = (at.0 / EVERY.0) as usize;
        self.grow(|done| done.len() > place + 1);
        let (before, after) = (self.done_ns[place], self.done_ns[place + 1]);
        before + (after - before) * (at.0 % EVERY.0) as f64 / EVERY.0 as f64
    }

    fn time(&mut self, done_ns: f64) -> Nanos {
        self.grow(|done| done[done.len() - 1] > done_ns);
        let place = self.done_ns.partition_point(|done| *done <= done_ns) - 1;
        let (before, after) = (self.done_ns[place], self.done_ns[place + 1]);
        let part = (done_ns - before) / (after - before);
        Nanos(place as u64 * EVERY.0) + duration(part * EVERY.0 as f64)
    }
}

impl ProgressModel for Drifting {
    fn steps_at(&mut self, _: JobId, of: &Stretch, at: Nanos) -> f64 {
        of.steps + (self.done(at) - self.done(of.since)) / of.step_ns
    }

    fn time_of(&mut self, _: JobId, of: &Stretch, steps: f64) -> Nanos {
        let done = self.done(of.since) + ((steps - of.steps) * of.step_ns).max(0.0);
        self.time(done).max(of.since)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DRIFT: HostDrift = HostDrift { sigma: 0.2, degrees_of_freedom: 1e6, runs: 4, range: 0.0 };

    #[test]
    fn time_and_steps_are_inverse() {
        let mut drifting = Drifting::new(&DRIFT, 3);
        let stretch = Stretch { launch: 0, steps: 7.0, since: Nanos(31_000_000_000), step_ns: 1e8 };
        let mut last = stretch.since;
        for steps in (8..20_000).step_by(1999) {
            let at = drifting.time_of(JobId(0), &stretch, f64::from(steps));
            assert!(at > last, "time goes on");
            last = at;
            let found = drifting.steps_at(JobId(0), &stretch, at);
            assert!((found - f64::from(steps)).abs() < 1e-6, "{found} is not {steps}");
        }
        assert_eq!(drifting.time_of(JobId(0), &stretch, 7.0), stretch.since);
    }

    /// The factor of one interval is that of the level and of the wander, and two intervals that are the memory apart share 1/e of
    /// the latter.
    #[test]
    fn the_speed_has_the_deviation_and_the_memory_of_the_drift() {
        let log = |drifting: &mut Drifting, interval: u64| {
            let done =
                drifting.done(Nanos((interval + 1) * EVERY.0)) - drifting.done(Nanos(interval * EVERY.0));
            (EVERY.0 as f64 / done).ln()
        };
        let pairs: Vec<(f64, f64)> = (0..4_000)
            .map(|seed| {
                let mut drifting = Drifting::new(&DRIFT, seed);
                (log(&mut drifting, 0), log(&mut drifting, 8))
            })
            .collect();
        let mean = |of: &dyn Fn(&(f64, f64)) -> f64| pairs.iter().map(of).sum::<f64>() / pairs.len() as f64;
        let deviation = mean(&|(first, _)| first * first).sqrt();
        assert!((deviation / (0.2 * 1.25f64.sqrt()) - 1.0).abs() < 0.04, "{deviation}");
        let covariance = mean(&|(first, later)| first * later);
        let expected = 0.04 * (0.25 + (-1f64).exp());
        assert!((covariance / expected - 1.0).abs() < 0.08, "{covariance} is not {expected}");
    }
}
