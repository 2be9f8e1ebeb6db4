//! Steady states in launches with a known one.

use std::ops::RangeInclusive;

use statistics::steady::{Class, Steady, detect, of_launch};

use crate::trace::{Noise, steps};

const STEPS: usize = 400;
const LAUNCHES: u64 = 100;
const QUIET: Noise = Noise { deviation: 0.002, phi: 0.3 };
const NOISES: [Noise; 3] = [
    Noise { deviation: 0.02, phi: 0.0 },
    Noise { deviation: 0.02, phi: 0.6 },
    Noise { deviation: 0.02, phi: 0.9 },
];

/// The expected result in at least 95 of 100 launches.
struct Expected {
    class: Class,
    start: RangeInclusive<usize>,
    end: RangeInclusive<usize>,
}

fn assert_found(noise: Noise, shape: impl Fn(usize) -> f64, expected: &Expected) {
    let mut misses = Vec::new();
    for seed in 0..LAUNCHES {
        let mut random = fastrand::Rng::with_seed(seed);
        let found = detect(&steps(&mut random, STEPS, 10e6, noise, &shape));
        let is_right = found.class == expected.class
            && expected.start.contains(&found.start)
            && expected.end.contains(&found.end);
        if !is_right {
            misses.push((seed, found));
        }
    }
    assert!(misses.len() <= LAUNCHES as usize / 20, "{noise:?}: {} {misses:#?}", misses.len());
}

fn flat() -> Expected {
    Expected { class: Class::Flat, start: 0..=0, end: STEPS..=STEPS }
}

fn warm_up(start: RangeInclusive<usize>) -> Expected {
    Expected { class: Class::WarmUp, start, end: STEPS..=STEPS }
}

fn from(at: usize, factor: f64) -> impl Fn(usize) -> f64 {
    move |index| if index < at { 1.0 } else { factor }
}

#[test]
fn flat_launches_are_flat_under_any_correlation() {
    for noise in NOISES {
        assert_found(noise, |_| 1.0, &flat());
    }
}

#[test]
fn a_slow_step_in_ten_is_part_of_the_steady_state() {
    for noise in NOISES {
        let shape = |index| if index % 10 == 9 { 2.0 } else { 1.0 };
        assert_found(noise, shape, &flat());
    }
}

#[test]
fn one_cold_first_step_is_left_out() {
    for noise in NOISES {
        assert_found(noise, |index| if index == 0 { 10.0 } else { 1.0 }, &warm_up(1..=1));
    }
}

#[test]
fn a_plateau_ends_where_it_ends() {
    for noise in NOISES {
        assert_found(noise, |index| if index < 60 { 1.3 } else { 1.0 }, &warm_up(58..=64));
    }
}

#[test]
fn a_decay_ends_when_it_is_lost_in_the_noise() {
    let decay = |index: usize| 1.0 + (-(index as f64) / 20.0).exp();
    // The decay reaches 1 % after 92 steps.
    assert_found(QUIET, decay, &warm_up(70..=115));
    for noise in NOISES {
        assert_found(noise, decay, &warm_up(30..=120));
    }
}

#[test]
fn a_decay_under_spikes_is_found_all_the_same() {
    let shape = |index: usize| {
        let spike = if index % 10 == 9 { 2.0 } else { 1.0 };
        spike * (1.0 + (-(index as f64) / 20.0).exp())
    };
    assert_found(NOISES[1], shape, &warm_up(30..=120));
}

#[test]
fn a_launch_that_becomes_slower_early_is_a_slowdown() {
    let expected = Expected { class: Class::Slowdown, start: 118..=124, end: STEPS..=STEPS };
    for noise in NOISES {
        assert_found(noise, from(120, 1.15), &expected);
    }
}

#[test]
fn a_late_change_leaves_no_steady_state_but_a_window() {
    let expected = Expected { class: Class::NoSteadyState, start: 200..=200, end: STEPS..=STEPS };
    for noise in NOISES {
        assert_found(noise, from(300, 1.15), &expected);
        assert_found(noise, from(300, 0.87), &expected);
    }
}

#[test]
fn a_slow_drift_is_no_steady_state() {
    let drift = |index: usize| 1.0 + 0.2 * index as f64 / STEPS as f64;
    let expected = Expected { class: Class::NoSteadyState, start: 200..=200, end: 400..=400 };
    assert_found(QUIET, drift, &expected);
}

#[test]
fn an_interruption_is_not_a_change_of_level() {
    let evaluation = |index| if (250..262).contains(&index) { 3.0 } else { 1.0 };
    for noise in NOISES {
        assert_found(noise, evaluation, &flat());
    }
}

#[test]
fn what_happens_just_before_the_end_is_cut_off() {
    let expected = Expected { class: Class::Flat, start: 0..=0, end: 386..=394 };
    for noise in NOISES {
        assert_found(noise, from(390, 1.5), &expected);
    }
}

#[test]
fn a_change_below_one_percent_is_no_change_even_without_noise() {
    let silent = Noise { deviation: 0.0, phi: 0.0 };
    assert_found(silent, from(200, 1.009), &flat());
    let expected = Expected { class: Class::Slowdown, start: 200..=200, end: STEPS..=STEPS };
    assert_found(silent, from(200, 1.011), &expected);
}

#[test]
fn a_short_launch_has_its_warm_up_found_too() {
    let is_found = |&seed: &u64| {
        let mut random = fastrand::Rng::with_seed(seed);
        let shape = |index| if index < 6 { 1.3 } else { 1.0 };
        let found = detect(&steps(&mut random, 30, 10e6, NOISES[0], shape));
        found.class == Class::WarmUp && (6..=8).contains(&found.start) && found.end == 30
    };
    let found = (0..LAUNCHES).filter(is_found).count();
    assert!(found >= 95, "in {found} of 100 launches");
}

#[test]
fn a_long_launch_is_searched_on_block_medians() {
    let mut random = fastrand::Rng::with_seed(1);
    let shape = |index: usize| 1.0 + 0.5 * (-(index as f64) / 500.0).exp();
    let found = detect(&steps(&mut random, 100_000, 10e6, NOISES[1], shape));
    assert_eq!((found.class, found.end), (Class::WarmUp, 100_000));
    assert!((1_000..3_000).contains(&found.start), "{found:?}");
}

#[test]
fn twenty_steps_are_judged_and_nineteen_are_not() {
    assert_eq!(detect(&[5; 19]).class, Class::TooShort);
    let second = 1_000_000_000;
    for (step_ns, start) in [
        // Warm after three steps, after a second, and not yet: then the last half is the window.
        (vec![2 * second; 12], 3),
        (vec![second / 10; 19], 10),
        (vec![second / 10; 9], 4),
        (vec![2 * second; 3], 1),
        (vec![2 * second; 1], 0),
        (vec![], 0),
    ] {
        let found = of_launch(&step_ns);
        let whole = Steady { class: Class::TooShort, start, end: step_ns.len() };
        assert_eq!(found, whole, "{} steps", step_ns.len());
    }
    let long: Vec<u64> = vec![2 * second; 20];
    assert_eq!(of_launch(&long), detect(&long));
    assert_eq!(detect(&[5; 20]).class, Class::Flat);
    let nothing = detect(&[]);
    assert_eq!((nothing.class, nothing.start, nothing.end), (Class::TooShort, 0, 0));
}
