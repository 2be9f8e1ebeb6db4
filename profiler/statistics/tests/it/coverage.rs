//! Do 95 % intervals contain the truth 95 times in 100?
//!
//! The test uses the two functions behind the tables of a run, so that it includes warm-up detection: every
//! second launch begins with a warm-up that must be found and left out.

use statistics::launches::between_launches;
use statistics::stop::{MIN_REPEATS, Verdict, verdict};
use statistics::{Interval, LaunchSummary};

use crate::trace::{Noise, normal, steps};

const RUNS: u64 = 2_000;
const LAUNCHES: usize = 5;
const STEPS: usize = 400;
const LEVEL_NS: f64 = 10e6;
const BETWEEN_LAUNCHES: f64 = 0.01;

/// The shares of intervals that contain the truth.
#[derive(Debug)]
struct Coverage {
    /// Of the launches' intervals, that launch's own true median.
    within_launch: f64,
    /// Of the runs' intervals, the true median over launches.
    between_launches: f64,
    /// Of launches, those with a steady state.
    steady: f64,
}

fn simulate(phi: f64) -> Coverage {
    let noise = Noise { deviation: 0.02, phi };
    // A step time is log-normal around its launch's level: the level is its median.
    let warm_up = |index: usize| 1.0 + 0.5 * (-(index as f64) / 5.0).exp();
    let [mut within, mut between, mut steady] = [0_u64; 3];
    for run in 0..RUNS {
        let mut random = fastrand::Rng::with_seed(run);
        let levels_ns: Vec<f64> =
            (0..LAUNCHES).map(|_| LEVEL_NS * (BETWEEN_LAUNCHES * normal(&mut random)).exp()).collect();
        let launches: Vec<Vec<u64>> = levels_ns
            .iter()
            .enumerate()
            .map(|(launch, &level_ns)| {
                let is_cold = launch % 2 == 1;
                let shape = |index| if is_cold { warm_up(index) } else { 1.0 };
                steps(&mut random, STEPS, level_ns, noise, shape)
            })
            .collect();

        let launches: Vec<LaunchSummary> =
            launches.iter().map(|steps| LaunchSummary::of(steps).expect("it has steps")).collect();
        let medians: Vec<f64> = launches.iter().map(|launch| launch.step_ns_median).collect();
        let interval = between_launches(&medians).expect("five launches have an interval");
        between += u64::from(interval.contains(LEVEL_NS));
        for (launch, level_ns) in launches.iter().zip(levels_ns) {
            let contains = |interval: Option<Interval>, truth| {
                u64::from(interval.is_some_and(|interval| interval.contains(truth)))
            };
            within += contains(launch.median_interval, level_ns);
            steady += u64::from(launch.steady.is_steady());
        }
    }
    let launches = (RUNS * LAUNCHES as u64) as f64;
    let coverage = Coverage {
        within_launch: within as f64 / launches,
        between_launches: between as f64 / RUNS as f64,
        steady: steady as f64 / launches,
    };
    println!("AR(1) {phi}: {coverage:?}");
    coverage
}

fn assert_covers(phi: f64, within_launch_from: f64) {
    let coverage = simulate(phi);
    let fair = 0.92..=0.98;
    assert!(fair.contains(&coverage.between_launches), "{coverage:?}");
    assert!((within_launch_from..=0.98).contains(&coverage.within_launch), "{coverage:?}");
    assert!(coverage.steady > 0.98, "{coverage:?}");
}

#[test]
fn intervals_cover_the_truth_of_independent_steps() {
    assert_covers(0.0, 0.92);
}

#[test]
fn intervals_cover_the_truth_of_correlated_steps() {
    assert_covers(0.6, 0.92);
}

/// Four hundred steps with a coefficient of 0.9 have the information of twenty-one independent ones, and
/// their correlation must be estimated from the same steps.
#[test]
fn intervals_nearly_cover_the_truth_of_strongly_correlated_steps() {
    assert_covers(0.9, 0.85);
}

/// The cost of a check after every launch, as the documentation of the stop rule states it.
#[test]
fn intervals_at_the_stop_nearly_cover_the_truth() {
    for (target_percent, fair) in [(1.0, 0.90..0.95), (2.0, 0.93..0.97)] {
        let covered = (0..RUNS).filter(|&run| {
            let mut random = fastrand::Rng::with_seed(run);
            let mut medians_ns = Vec::new();
            while verdict(&medians_ns, target_percent, MIN_REPEATS) != Verdict::Reached {
                medians_ns.push(LEVEL_NS * (BETWEEN_LAUNCHES * normal(&mut random)).exp());
            }
            between_launches(&medians_ns).is_some_and(|interval| interval.contains(LEVEL_NS))
        });
        let coverage = covered.count() as f64 / RUNS as f64;
        assert!(fair.contains(&coverage), "{coverage} at a target of {target_percent} %");
    }
}
