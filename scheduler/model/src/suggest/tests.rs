use formats::fitted::FormulaName;
use nalgebra::{DMatrix, Matrix2, Vector2};
use proptest::prelude::*;
use record::facts::Facts;
use schema::plan::Plan;

use super::*;
use crate::{Parts, Placement};

fn setting(global_batch: u32, plan: &str) -> Setting {
    let plan: Plan = plan.parse().unwrap();
    Setting {
        facts: Facts {
            parameters: Some(1_000_000_000),
            layers: Some(24),
            sequence: Some(512),
            hidden: Some(1024),
            state_per_parameter: None,
        },
        global_batch,
        plan,
        placement: Placement::of(&[plan.ranks()]),
        cpus: None,
        ranks_per_device: 1,
    }
}

/// A step of b samples on one device takes a + c b seconds. Of both parameters, the logarithm is known to within `sd`.
fn line(a: f64, c: f64, sd: [f64; 2]) -> Fit {
    let mut fit = Fit::of_priors(FormulaName::TandemBatches, &Parts::A800, &[]);
    (fit.logarithms[0], fit.logarithms[1]) = (a.ln(), c.ln());
    // Compute does not curve.
    fit.logarithms[2] = -60.0;
    fit.covariance = Covariance::zeros();
    (fit.covariance[(0, 0)], fit.covariance[(1, 1)]) = (sd[0] * sd[0], sd[1] * sd[1]);
    fit
}

/// The shares of both parts in the time of a step, which are the derivatives of its logarithm.
fn shares(a: f64, c: f64, batch: u32) -> Vector2<f64> {
    let whole = a + c * f64::from(batch);
    Vector2::new(a / whole, c * f64::from(batch) / whole)
}

/// The mean variance over all shares once `measured` are measured, by inverting the information.
fn mean_variance(
    all: &[Vector2<f64>],
    measured: impl Iterator<Item = Vector2<f64>>,
    sd: [f64; 2],
    scale: f64,
) -> f64 {
    let mut information = Matrix2::from_diagonal(&Vector2::new(sd[0].powi(-2), sd[1].powi(-2)));
    for share in measured {
        information += share * share.transpose() / (scale * scale);
    }
    let covariance = information.try_inverse().unwrap();
    all.iter().map(|share| share.dot(&(covariance * share))).sum::<f64>() / all.len() as f64
}

/// The subset of `count` that leaves the smallest mean variance, and that variance.
fn brute_force(all: &[Vector2<f64>], count: u32, sd: [f64; 2], scale: f64) -> (Vec<usize>, f64) {
    let subsets = (0u32..1 << all.len()).filter(|subset| subset.count_ones() == count);
    let of = |subset: u32| (0..all.len()).filter(move |index| subset & 1 << index != 0);
    let variance = |subset| mean_variance(all, of(subset).map(|index| all[index]), sd, scale);
    let best = subsets.min_by(|a, b| variance(*a).total_cmp(&variance(*b))).unwrap();
    (of(best).collect(), variance(best))
}

#[test]
fn the_choice_is_that_of_all_subsets() {
    let (a, c) = (0.1, 1e-3);
    // Small batches say a, and large ones say c. What is known less comes first.
    for (sd, chosen) in [
        ([1.0, 0.3], [&[0][..], &[0, 7], &[0, 6, 7]]),
        ([2.0, 0.1], [&[0][..], &[0, 7], &[0, 6, 7]]),
        ([0.1, 2.0], [&[7][..], &[0, 7], &[0, 6, 7]]),
    ] {
        let batches = [1, 200, 400, 1600, 3200, 6400, 12800, 25600];
        let fit = line(a, c, sd);
        let settings = batches.map(|batch| setting(batch, "dp1"));
        let all = batches.map(|batch| shares(a, c, batch));
        for (count, expected) in (1..).zip(chosen) {
            let mut found = design(&fit, &settings, count as usize);
            found.sort_unstable();
            let (best, _) = brute_force(&all, count, sd, fit.scale);
            assert_eq!((&found[..], &best[..]), (expected, expected), "{count} with {sd:?}");
        }
    }
}

#[test]
fn a_cheap_configuration_comes_before_a_better_one() {
    let fit = line(0.1, 1e-3, [0.5, 0.5]);
    let candidates = |cost| {
        let of = |(batch, device_s)| Candidate { setting: setting(batch, "dp1"), device_s };
        vec![of((7000, 10.0)), of((8000, cost))]
    };
    for (cost, first) in [(10.0, 1), (10.1, 0), (1.0, 1)] {
        let chosen = suggest(&mut [Design::new(&fit, candidates(cost))], 1);
        assert_eq!(chosen, [Choice { design: 0, candidate: first }], "{cost}");
    }
    let free = suggest(&mut [Design::new(&fit, candidates(0.0))], 2);
    assert_eq!(free, [Choice { design: 0, candidate: 0 }], "what has no cost has no rate");
}

#[test]
fn a_workload_of_which_less_is_known_comes_first() {
    let (known, unknown) = (line(0.1, 1e-3, [0.01, 0.01]), line(0.1, 1e-3, [1.0, 1.0]));
    let candidates = || {
        let of = |batch| Candidate { setting: setting(batch, "dp1"), device_s: 1.0 };
        [1, 8000].map(of).to_vec()
    };
    let mut designs = [Design::new(&known, candidates()), Design::new(&unknown, candidates())];
    let order: Vec<usize> = suggest(&mut designs, 9).iter().map(|choice| choice.design).collect();
    assert_eq!(order, [1, 1, 0, 0], "and there are no more than four");
    let (before, after) = designs[1].half_widths_percent(1).unwrap();
    // The share of the fixed part of a step of 8000 samples is small.
    let expected = |deviation: f64| 100.0 * (2.776 * deviation.hypot(0.03)).sinh();
    assert!((before / expected(shares(0.1, 1e-3, 8000).norm()) - 1.0).abs() < 1e-6, "{before}");
    assert!((after / expected(0.03) - 1.0).abs() < 0.01, "{after} and {}", expected(0.03));
}

/// Plans of a large model, of which the formula has many parameters.
fn plans() -> Vec<Setting> {
    let plans = "dp1 ga2 gc bf16 dp2 dp4 dp8 dp8-ga4 dp2-zero1 dp4-zero2 dp8-zero3 offload dp4-zero2-offload \
                 tp2 tp4 tp8 pp2 pp4-ga8 dp2-tp2 dp2-tp2-pp2-ga4 tp2-pp2-gc dp8-bf16 dp4-gc-bf16";
    plans.split_whitespace().flat_map(|plan| [16, 64].map(|batch| setting(batch, plan))).collect()
}

#[test]
fn the_gain_is_the_fall_of_the_variance_by_inverting_matrices() {
    let fit = Fit::of_priors(FormulaName::Tandem, &Parts::A800, &[]);
    let settings = plans();
    let candidates = settings.iter().map(|it| Candidate { setting: *it, device_s: 1.0 }).collect();
    let mut chosen = Design::new(&fit, candidates);
    let parameters = fit.priors.len();
    let mut information = DMatrix::zeros(parameters, parameters);
    for (index, prior) in fit.priors.iter().enumerate() {
        information[(index, index)] = prior.sd.powi(-2);
    }
    let derivatives = |index: usize| {
        let (_, slopes) = chosen.predicted[index].expect("it is described");
        DMatrix::from_fn(parameters, 1, |row, _| slopes[row])
    };
    let all: Vec<DMatrix<f64>> = (0..settings.len()).map(derivatives).collect();
    let sum = |information: &DMatrix<f64>| {
        let covariance = information.clone().try_inverse().expect("priors make it regular");
        all.iter().map(|slopes| (slopes.transpose() * &covariance * slopes)[(0, 0)]).sum::<f64>()
    };
    for _ in 0..6 {
        let with = |index: usize| &information + &all[index] * all[index].transpose() / fit.scale.powi(2);
        let falls: Vec<f64> =
            (0..settings.len()).map(|index| sum(&information) - sum(&with(index))).collect();
        for index in (0..settings.len()).filter(|index| chosen.is_open[*index]) {
            let (_, slopes) = chosen.predicted[index].expect("it is described");
            let gain = chosen.gain(&slopes);
            assert!((gain / falls[index] - 1.0).abs() < 1e-5, "{index}: {gain} and {}", falls[index]);
        }
        let (best, rate) = chosen.best().expect("some are open");
        let largest = falls.iter().copied().fold(0.0, f64::max);
        assert!((rate / largest - 1.0).abs() < 1e-5, "{rate} and {largest}");
        information = with(best);
        chosen.measure(best);
    }
}

proptest! {
    /// Choosing one after another is not always the best of all subsets, but close to it.
    #[test]
    fn the_choice_is_close_to_the_best(
        batches in prop::collection::btree_set(1u32..10_000, 4..9),
        a in 1e-3..1.0,
        sd in [0.05..2.0, 0.05..2.0],
        count in 1u32..4,
    ) {
        let (c, sd) = (1e-4, [sd[0], sd[1]]);
        let fit = line(a, c, sd);
        let settings: Vec<Setting> = batches.iter().map(|batch| setting(*batch, "dp1")).collect();
        let all: Vec<Vector2<f64>> = batches.iter().map(|batch| shares(a, c, *batch)).collect();
        let found = design(&fit, &settings, count as usize);
        let before = mean_variance(&all, [].into_iter(), sd, fit.scale);
        let (_, best) = brute_force(&all, count, sd, fit.scale);
        let own = mean_variance(&all, found.iter().map(|index| all[*index]), sd, fit.scale);
        prop_assert!(own >= best * (1.0 - 1e-9) && before - own >= 0.9 * (before - best), "{before} {own} {best}");
    }

    #[test]
    fn nothing_is_chosen_twice_and_only_what_is_described(
        picked in prop::collection::vec(0usize..46, 0..80),
        costs in prop::collection::vec(0.5..100.0, 80),
        count in 0usize..60,
    ) {
        let fit = Fit::of_priors(FormulaName::Rubick, &Parts::A800, &[]);
        let settings = plans();
        let candidates: Vec<Candidate> = picked
            .iter()
            .zip(&costs)
            .map(|(index, device_s)| Candidate { setting: settings[*index], device_s: *device_s })
            .collect();
        let chosen = suggest(&mut [Design::new(&fit, candidates.clone())], count);
        let described = |index: &&usize| formula::applies(fit.formula, &settings[**index]).is_ok();
        let mut different: Vec<usize> = picked.iter().filter(described).copied().collect();
        different.sort_unstable();
        different.dedup();
        prop_assert_eq!(chosen.len(), count.min(different.len()));
        for (number, choice) in chosen.iter().enumerate() {
            let own = candidates[choice.candidate].setting;
            prop_assert!(formula::applies(fit.formula, &own).is_ok());
            let is_same = |other: &Choice| candidates[other.candidate].setting == own;
            prop_assert!(!chosen[..number].iter().any(is_same), "{own:?}");
        }
    }
}
