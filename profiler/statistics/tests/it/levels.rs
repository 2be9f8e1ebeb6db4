//! How often a series of runs is given a change that it does not have, and how often one that it has is found.

use statistics::levels;

use crate::trace::normal;

const SERIES: usize = 2_000;
const NOISE: f64 = 0.01;

/// The share of families of `tests` series in which any series has a change, of runs that vary by 1 % around `level`.
fn families_with_change(count: usize, tests: usize, level: impl Fn(usize) -> f64) -> f64 {
    let mut random = fastrand::Rng::with_seed(count as u64);
    let mut has_change = || {
        let runs: Vec<f64> = (0..count).map(|run| level(run) * (NOISE * normal(&mut random)).exp()).collect();
        !levels::of_runs(&runs, tests).expect("enough runs").changes.is_empty()
    };
    let families = SERIES / tests;
    let changed = (0..families).filter(|_| (0..tests).any(|_| has_change())).count();
    changed as f64 / families as f64
}

/// The share of series with a change.
fn with_change(count: usize, level: impl Fn(usize) -> f64) -> f64 {
    families_with_change(count, 1, level)
}

#[test]
fn runs_that_do_not_change_rarely_have_a_change() {
    for count in [4, 6, 8, 12, 20, 50, 100, 200] {
        let share = with_change(count, |_| 10e6);
        println!("{count} runs: {share}");
        assert!(share <= 0.06, "{count} runs: {share}");
    }
}

/// The correction is for the whole family, so that a page of many jobs is as strict as one of a single job.
#[test]
fn families_that_do_not_change_rarely_have_a_change() {
    for (count, tests) in [(8, 5), (8, 20), (20, 10), (100, 5)] {
        let share = families_with_change(count, tests, |_| 10e6);
        println!("{count} runs of {tests} series: {share}");
        // Five in a hundred, and three standard errors of the simulation.
        let families = (SERIES / tests) as f64;
        assert!(share <= 0.05 + 3.0 * (0.05 * 0.95 / families).sqrt(), "{count} runs of {tests}: {share}");
    }
}

/// Runs that alternate around one level have exactly the noise of the simulation.
fn detectable_ratio(count: usize, tests: usize) -> f64 {
    let deviation = NOISE * ((count - 1) as f64 / count as f64).sqrt();
    let log = |run: usize| if run.is_multiple_of(2) { deviation } else { -deviation };
    let runs: Vec<f64> = (0..count).map(|run| log(run).exp()).collect();
    levels::of_runs(&runs, tests).expect("enough runs").detectable_ratio
}

/// The ratio is for a change exactly between both halves. PELT may also put the change beside the half, or propose it for worse noise
/// than the true one, so that the share is not exactly four in five. Of a hundred runs or more, the penalty of PELT decides.
#[test]
fn a_change_by_the_detectable_ratio_is_found_in_four_of_five_series() {
    for count in [8, 12, 20, 50, 100, 200] {
        let ratio = detectable_ratio(count, 1);
        let share = with_change(count, |run| if run < count / 2 { 10e6 } else { 10e6 * ratio });
        println!("{count} runs: {share} at {ratio}");
        assert!((0.7..0.9).contains(&share), "{count} runs: {share} at {ratio}");
    }
}

#[test]
fn a_change_by_five_times_the_noise_is_found() {
    for (count, least) in [(8, 0.9), (12, 0.99), (20, 0.99)] {
        let share = with_change(count, |run| if run < count / 2 { 10e6 } else { 10.5e6 });
        println!("{count} runs: {share}");
        assert!(share >= least, "{count} runs: {share}");
    }
}

/// Runs of a machine whose speed wanders: nothing here can tell this from changes of the program.
#[test]
fn a_machine_that_wanders_looks_like_changes() {
    let mut random = fastrand::Rng::with_seed(7);
    let changed = (0..SERIES).filter(|_| {
        let mut log = 0.0;
        let mut next = || {
            log += NOISE * normal(&mut random);
            f64::exp(log)
        };
        let runs: Vec<f64> = (0..20).map(|_| next()).collect();
        !levels::of_runs(&runs, 1).expect("enough runs").changes.is_empty()
    });
    let share = changed.count() as f64 / SERIES as f64;
    println!("random walk: {share}");
    // "Ninety of a hundred" in docs/report.md.
    assert!((0.85..0.95).contains(&share), "{share}");
}
