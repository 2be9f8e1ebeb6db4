//! Properties for arbitrary step times.

use proptest::prelude::*;
use statistics::interval::within_launch_median;
use statistics::launches::{abba, between_launches, ratio_paired};
use statistics::steady::{Class, detect};
use statistics::stop::{Verdict, verdict};
use statistics::{Durations, Tail, median};

/// Step times of a plausible launch: from 1 us to 1 s.
fn step_times(count: std::ops::Range<usize>) -> impl Strategy<Value = Vec<u64>> {
    prop::collection::vec(1_000..1_000_000_000_u64, count)
}

fn launch_medians() -> impl Strategy<Value = Vec<f64>> {
    prop::collection::vec(1e3..1e9, 2..12)
}

fn is_close(actual: f64, expected: f64) -> bool {
    (actual / expected - 1.0).abs() < 1e-9
}

proptest! {
    #[test]
    fn the_window_lies_within_any_launch(steps in prop::collection::vec(any::<u64>(), 0..300)) {
        let found = detect(&steps);
        prop_assert!(found.start <= found.end && found.end <= steps.len());
        prop_assert_eq!(found.start == found.end, steps.is_empty());
        prop_assert_eq!(found.class == Class::TooShort, steps.len() < 20);
        if found.is_steady() {
            prop_assert!(2 * (found.end - found.start) >= steps.len());
        }
    }

    #[test]
    fn the_window_does_not_depend_on_the_unit(
        steps in step_times(20..200),
        factor in prop::sample::select(vec![2, 1_000]),
    ) {
        let scaled: Vec<u64> = steps.iter().map(|step| step * factor).collect();
        prop_assert_eq!(detect(&steps), detect(&scaled));
    }

    #[test]
    fn intervals_contain_their_estimate_and_scale_with_the_unit(steps in step_times(30..300)) {
        let doubled: Vec<u64> = steps.iter().map(|step| step * 2).collect();
        let interval = within_launch_median(&steps).expect("at least thirty steps");
        prop_assert!(interval.lo > 0.0 && interval.contains(interval.estimate));
        let twice = within_launch_median(&doubled).expect("at least thirty steps");
        prop_assert!(is_close(twice.estimate, 2.0 * interval.estimate));
        prop_assert!(is_close(twice.half_width_percent(), interval.half_width_percent()));
    }

    #[test]
    fn the_median_is_that_of_the_sorted_steps(mut steps in step_times(1..100)) {
        let middle = median(&steps).expect("at least one step");
        steps.sort_unstable();
        let (low, high) = (steps[(steps.len() - 1) / 2], steps[steps.len() / 2]);
        prop_assert_eq!(middle, f64::midpoint(low as f64, high as f64));
    }

    #[test]
    fn quantiles_are_the_smallest_steps_that_enough_do_not_exceed(steps in step_times(1..500)) {
        let tail = Tail::of(&steps).expect("at least one step");
        for (percent, found) in [(50, Some(tail.p50)), (90, tail.p90), (99, tail.p99), (100, Some(tail.max))] {
            let Some(found) = found else { continue };
            let share = |within: &dyn Fn(u64) -> bool| 100 * steps.iter().filter(|&&step| within(step)).count();
            prop_assert!(steps.contains(&found));
            prop_assert!(share(&|step| step <= found) >= percent * steps.len(), "enough do not exceed it");
            prop_assert!(share(&|step| step < found) < percent * steps.len(), "none smaller does");
        }
    }

    #[test]
    fn durations_are_counted_to_a_thousandth(steps in step_times(1..500)) {
        let exact = Tail::of(&steps).expect("at least one step");
        let mut durations = Durations::default();
        steps.iter().for_each(|&step| durations.record(step));
        let counted = durations.tail().expect("at least one step");
        prop_assert_eq!((durations.count(), counted.max), (steps.len() as u64, exact.max));
        let pairs = [(Some(exact.p50), Some(counted.p50)), (exact.p90, counted.p90), (exact.p99, counted.p99)];
        for (exact, counted) in pairs {
            prop_assert_eq!(exact.is_some(), counted.is_some());
            let Some((exact, counted)) = exact.zip(counted) else { continue };
            prop_assert!(exact <= counted && counted as f64 <= exact as f64 * 1.001);
        }
    }

    #[test]
    fn launches_have_no_order_and_their_throughput_has_the_mirrored_interval(
        mut medians in launch_medians(),
    ) {
        let interval = between_launches(&medians).expect("at least two launches");
        prop_assert!(interval.lo > 0.0 && interval.contains(interval.estimate));
        let rates: Vec<f64> = medians.iter().map(|median| 1.0 / median).collect();
        let rate = between_launches(&rates).expect("at least two launches");
        prop_assert!(is_close(rate.estimate, 1.0 / interval.estimate));
        prop_assert!(is_close(rate.lo, 1.0 / interval.hi));
        medians.reverse();
        let reversed = between_launches(&medians).expect("at least two launches");
        prop_assert!(is_close(reversed.lo, interval.lo) && is_close(reversed.hi, interval.hi));
    }

    #[test]
    fn a_ratio_turned_around_is_its_reciprocal(
        pairs in prop::collection::vec((1e3..1e9, 1e3..1e9), 2..12),
    ) {
        let ratio = ratio_paired(&pairs).expect("at least two pairs");
        let turned: Vec<(f64, f64)> = pairs.iter().map(|&(a, b)| (b, a)).collect();
        let inverse = ratio_paired(&turned).expect("at least two pairs");
        prop_assert!(is_close(inverse.estimate, 1.0 / ratio.estimate));
        prop_assert!(is_close(inverse.lo, 1.0 / ratio.hi));
    }

    #[test]
    fn abba_is_the_ratio_of_geometric_means(quad in prop::array::uniform4(1e3..1e9)) {
        let (a, b) = abba(quad);
        prop_assert!(is_close(a * a, quad[0] * quad[3]) && is_close(b * b, quad[1] * quad[2]));
    }

    #[test]
    fn the_verdict_agrees_with_the_interval(medians in launch_medians(), target in 0.1..500.0) {
        let half_width = between_launches(&medians).expect("at least two").half_width_percent();
        let is_enough = medians.len() >= 3 && half_width <= target;
        match verdict(&medians, target, 3) {
            Verdict::Reached => prop_assert!(is_enough),
            Verdict::Continue { estimated_more_launches } => {
                prop_assert!(!is_enough);
                prop_assert!((1..=1_000).contains(&estimated_more_launches));
            }
        }
    }
}
