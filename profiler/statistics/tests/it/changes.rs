//! How often a comparison of two runs is wrong, where the truth is known.

use statistics::{holm, launches::between_launches, power, welch, welch::Launches, welch::Welch};

use crate::trace::normal;

const RUNS: u64 = 2_000;
const CELLS: usize = 30;
const LAUNCHES: usize = 4;

/// The comparison of a cell whose second run takes `ratio` times as long and varies `spread` times as much, by
/// way of published intervals.
fn compared(random: &mut fastrand::Rng, ratio: f64, spread: f64) -> Welch {
    let mut side = |level: f64, deviation: f64| {
        let times: Vec<f64> = (0..LAUNCHES).map(|_| level * (deviation * normal(random)).exp()).collect();
        let of = between_launches(&times).expect("four launches");
        Launches::published(of.estimate, of.lo, of.hi, of.n).expect("it has an interval")
    };
    let (first, second) = (side(10e6, 0.01), side(10e6 * ratio, 0.01 * spread));
    welch::ratio(&first, &second).expect("both sides vary")
}

#[test]
fn intervals_of_ratios_cover_the_truth_with_unequal_spreads() {
    let mut random = fastrand::Rng::with_seed(1);
    let covered = (0..RUNS).filter(|_| compared(&mut random, 1.2, 3.0).ratio.contains(1.2)).count();
    let coverage = covered as f64 / RUNS as f64;
    println!("coverage of ratios: {coverage}");
    assert!((0.935..=0.97).contains(&coverage), "{coverage}");
}

/// The share of runs with any cell that is called different although none is, with Holm's correction and
/// without it.
fn false_findings(spread: f64) -> [f64; 2] {
    let mut random = fastrand::Rng::with_seed(2);
    let mut found = [0_u64; 2];
    for _ in 0..RUNS {
        let p: Vec<f64> = (0..CELLS).map(|_| compared(&mut random, 1.0, spread).p).collect();
        let is_any = |p: &[f64]| u64::from(p.iter().any(|&p| p < 0.05));
        found[0] += is_any(&holm::adjusted(&p));
        found[1] += is_any(&p);
    }
    let shares = found.map(|count| count as f64 / RUNS as f64);
    println!("spread {spread}: [corrected, plain] {shares:?}");
    shares
}

/// Without the correction, two runs in three have a false finding among thirty cells.
#[test]
fn a_false_finding_in_any_cell_is_rare() {
    let [corrected, plain] = false_findings(1.0);
    assert!((0.01..=0.05).contains(&corrected) && plain > 0.6, "{corrected}, {plain}");
}

/// The degrees of freedom are an approximation, which few launches of unequal spreads strain.
#[test]
fn a_false_finding_is_less_rare_with_unequal_spreads() {
    let [corrected, plain] = false_findings(3.0);
    assert!((0.05..=0.09).contains(&corrected) && plain > 0.6, "{corrected}, {plain}");
}

/// The share of comparisons of thirty cells, all of which have this true ratio but for the first, in which one is called worse than
/// 5 % and in which all are called within it, by the rules of `report compare --fail-above`.
fn verdicts_on_five_percent(first: f64, others: f64, spread: f64) -> [f64; 2] {
    const LIMIT: f64 = 1.05;
    let mut random = fastrand::Rng::with_seed(4);
    let mut counts = [0_u64; 2];
    for _ in 0..RUNS {
        let cells: Vec<Welch> = (0..CELLS)
            .map(|cell| compared(&mut random, if cell == 0 { first } else { others }, spread))
            .collect();
        let p_worse: Vec<f64> = cells.iter().map(|cell| cell.p_above(LIMIT)).collect();
        counts[0] += u64::from(holm::adjusted(&p_worse).iter().any(|&p| p < 0.025));
        counts[1] += u64::from(cells.iter().all(|cell| cell.ratio.hi < LIMIT));
    }
    let shares = counts.map(|count| count as f64 / RUNS as f64);
    println!("first {first}, others {others}, spread {spread}: [worse, within] {shares:?}");
    shares
}

/// All cells but one are equal. By chance, the interval of the other is below the bound in at most 2.5 of 100 comparisons.
#[test]
fn a_single_cell_on_the_bound_rarely_passes() {
    let [_, passes] = verdicts_on_five_percent(1.05, 1.0, 1.0);
    assert!((0.01..=0.035).contains(&passes), "{passes}");
    let [worse, passes] = verdicts_on_five_percent(1.0, 1.0, 1.0);
    assert!(worse == 0.0 && passes > 0.97, "{worse}, {passes}");
}

#[test]
fn cells_on_the_bound_are_rarely_called_worse() {
    let [worse, _] = verdicts_on_five_percent(1.05, 1.05, 1.0);
    assert!((0.005..=0.035).contains(&worse), "{worse}");
    let [worse, _] = verdicts_on_five_percent(1.05, 1.05, 3.0);
    assert!((0.02..=0.06).contains(&worse), "{worse}");
}

/// The deviations are those of the simulation; the measured ones vary from comparison to comparison.
#[test]
fn what_is_detectable_is_found_in_four_of_five_comparisons() {
    for (spread, level) in [(1.0, 0.05), (3.0, 0.05), (1.0, 0.05 / 30.0)] {
        let side = |log_deviation: f64| Launches { log_mean: 0.0, log_deviation, count: LAUNCHES };
        let (first, second) = (side(0.01), side(0.01 * spread));
        let ratio = power::detectable_ratio(&first, &second, level).expect("both sides vary");
        let mut random = fastrand::Rng::with_seed(5);
        let significant = (0..4 * RUNS).filter(|_| compared(&mut random, ratio, spread).p < level).count();
        let share = significant as f64 / (4 * RUNS) as f64;
        println!("spread {spread}, level {level}: {ratio} is found in {share}");
        assert!((share - 0.8).abs() < 0.015, "{share}");
    }
}

/// A cell that is twice as slow is found among thirty, and those that are not slower are not.
#[test]
fn a_slow_cell_is_found_among_many() {
    let mut random = fastrand::Rng::with_seed(3);
    let found = (0..200).filter(|_| {
        let p: Vec<f64> =
            (0..CELLS).map(|cell| compared(&mut random, if cell == 7 { 2.0 } else { 1.0 }, 1.0).p).collect();
        holm::adjusted(&p)[7] < 0.05
    });
    assert!(found.count() > 190);
}
