//! Estimates that are drawn to the duration of the last job of a series.
//!
//! Users submit a job again, as it was or changed, so that the ratio of a duration to the last one of its series has a spike at 1 and a
//! broad part, which other features tell of. The estimate is the last duration within a band about the estimate by features, and else the
//! nearer end of the band. How broad the band is depends on how alike the last two durations of the series were, and is chosen on jobs
//! that the features were not fitted to.

use super::walk::quantiles;

/// A band is chosen for a class of series with this many jobs, and for all together if they have.
const LEAST_JOBS: usize = 20;

/// Logarithms of the factors from the middle of a band to its ends: from no band to one without ends.
const HALF_WIDTHS: [f64; 9] = [0.0, 0.1, 0.2, 0.4, 0.7, 1.1, 1.6, 2.3, f64::INFINITY];

/// Ratios of the last two durations of a series, up to which they are alike, and close.
const ALIKE: f64 = 1.05;
const CLOSE: f64 = 2.0;

/// How alike the last two durations of a series were.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Steadiness {
    Unknown,
    Alike,
    Close,
    Wide,
}

const CLASSES: [Steadiness; 4] =
    [Steadiness::Unknown, Steadiness::Alike, Steadiness::Close, Steadiness::Wide];

/// The last durations of a series.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct LastOnes {
    /// Logarithm of the last one, in seconds.
    pub(super) log: f64,
    steadiness: Steadiness,
}

impl LastOnes {
    pub(super) fn first(log: f64) -> LastOnes {
        LastOnes { log, steadiness: Steadiness::Unknown }
    }

    /// The last ones after one more.
    pub(super) fn then(self, log: f64) -> LastOnes {
        let steadiness = match (log - self.log).abs() {
            change if change <= ALIKE.ln() => Steadiness::Alike,
            change if change <= CLOSE.ln() => Steadiness::Close,
            _ => Steadiness::Wide,
        };
        LastOnes { log, steadiness }
    }
}

/// A job that was kept aside: logarithms of its estimate by features and of its duration, and the last ones of its series.
#[derive(Clone, Copy, Debug)]
pub(super) struct KeptAside {
    pub(super) by_features: f64,
    pub(super) last: LastOnes,
    pub(super) log: f64,
}

/// The half widths of bands, by [`CLASSES`].
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Bands([f64; CLASSES.len()]);

impl Bands {
    /// Of a class, the band with the least mean of the sizes of logarithmic errors, of those that are as good as the last duration alone at
    /// the upper three quarters of errors in seconds and at each of factors.
    pub(super) fn fitted(jobs: &[KeptAside]) -> Bands {
        let for_all = half_width(jobs).unwrap_or(0.0);
        Bands(CLASSES.map(|class| {
            let own: Vec<KeptAside> =
                jobs.iter().filter(|job| job.last.steadiness == class).copied().collect();
            half_width(&own).unwrap_or(for_all)
        }))
    }

    /// The logarithm of the estimate of a job.
    pub(super) fn draw(&self, by_features: f64, last: LastOnes) -> f64 {
        drawn(by_features, last, self.0[last.steadiness as usize])
    }
}

fn drawn(by_features: f64, last: LastOnes, half_width: f64) -> f64 {
    last.log.clamp(by_features - half_width, by_features + half_width)
}

fn half_width(jobs: &[KeptAside]) -> Option<f64> {
    if jobs.len() < LEAST_JOBS {
        return None;
    }
    let errors = |half_width: f64| {
        let estimate = |job: &KeptAside| drawn(job.by_features, job.last, half_width);
        let factors: Vec<f64> = jobs.iter().map(|job| (estimate(job) - job.log).abs()).collect();
        let seconds: Vec<f64> = jobs.iter().map(|job| (estimate(job).exp() - job.log.exp()).abs()).collect();
        let mean = factors.iter().sum::<f64>() / jobs.len() as f64;
        Some((quantiles(&factors)?, quantiles(&seconds)?, mean))
    };
    let (last_factors, last_seconds, _) = errors(f64::INFINITY)?;
    let as_good = |own: &[f64], other: &[f64]| own.iter().zip(other).all(|(own, other)| own <= other);
    let candidates = HALF_WIDTHS.into_iter().filter_map(|half_width| Some((half_width, errors(half_width)?)));
    let good = candidates.filter(|(_, (factors, seconds, _))| {
        as_good(factors, &last_factors) && as_good(&seconds[1..], &last_seconds[1..])
    });
    good.min_by(|(_, (.., a)), (_, (.., b))| a.total_cmp(b)).map(|(half_width, _)| half_width)
}

#[cfg(test)]
mod tests {
    use fastrand::Rng;

    use super::*;

    /// Jobs of a series whose logarithms have the given share of exact repeats; the others are drawn about an estimate that is right.
    fn kept_aside(repeats: f64) -> Vec<KeptAside> {
        let mut rng = Rng::with_seed(5);
        let mut last = LastOnes::first(5.0);
        let mut jobs = Vec::new();
        for _ in 0..2000 {
            let by_features = 5.0;
            let log = if rng.f64() < repeats { last.log } else { by_features + 2.0 * (rng.f64() - 0.5) };
            jobs.push(KeptAside { by_features, last, log });
            last = last.then(log);
        }
        jobs
    }

    #[test]
    fn the_last_duration_counts_as_far_as_jobs_repeat() {
        let none = Bands::fitted(&kept_aside(0.0));
        assert!(none.0.iter().all(|half_width| *half_width <= 0.2), "{none:?}");
        let most = Bands::fitted(&kept_aside(0.9));
        // All durations lie within a factor of e of the estimate.
        assert!(most.0[Steadiness::Alike as usize] > 1.0, "{most:?}");
        // By hand: 6 is within 1.1 of 5 and 7 is not.
        let bands = Bands([1.1; 4]);
        assert_eq!(bands.draw(5.0, LastOnes::first(6.0)), 6.0);
        assert_eq!(bands.draw(5.0, LastOnes::first(7.0)), 6.1);
        assert_eq!(Bands::fitted(&kept_aside(0.9)[..10]), Bands::default(), "too few");
    }

    #[test]
    fn steadiness_is_the_ratio_of_the_last_two() {
        let first = LastOnes::first(0.0);
        for (ratio, steadiness) in [
            (1.04, Steadiness::Alike),
            (0.97, Steadiness::Alike),
            (1.9, Steadiness::Close),
            (0.4, Steadiness::Wide),
        ] {
            assert_eq!(first.then(f64::ln(ratio)).steadiness, steadiness, "{ratio}");
        }
        assert_eq!(first.steadiness, Steadiness::Unknown);
    }
}
