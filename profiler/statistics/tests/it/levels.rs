//! How often a series of runs is given a change that it does not have, and how often one that it has is found.

use statistics::levels;

use crate::trace::normal;

const SERIES: usize = 2_000;
const NOISE: f64 = 0.01;

/// The share of series with a change, of runs that vary by 1 % around `level`.
fn with_change(count: usize, level: impl Fn(usize) -> f64) -> f64 {
    let mut random = fastrand::Rng::with_seed(count as u64);
    let changed = (0..SERIES).filter(|_| {
        let runs: Vec<f64> = (0..count).map(|run| level(run) * (NOISE * normal(&mut random)).exp()).collect();
        !levels::of_runs(&runs, 1).expect("enough runs").changes.is_empty()
    });
    changed.count() as f64 / SERIES as f64
}

#[test]
fn runs_that_do_not_change_rarely_have_a_change() {
    for count in [4, 6, 8, 12, 20, 50] {
        let share = with_change(count, |_| 10e6);
        println!("{count} runs: {share}");
        assert!(share <= 0.06, "{count} runs: {share}");
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
    assert!(share > 0.5, "{share}");
}
