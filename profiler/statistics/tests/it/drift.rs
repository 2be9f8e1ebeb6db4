//! Do 95 % intervals contain the truth 95 times in 100 on a machine whose speed drifts, if rows share their
//! baselines?
//!
//! The speed of a shared host wanders by 5 to 20 % within minutes. Here it is a stationary AR(1) process on the logarithm, with
//! a deviation of 10 % and a correlation time of fifty visits. Jobs run as `profile colocate --all-pairs` has them: in each
//! block all alone, all pairs, all alone in reverse. All pairs of a block share its visits alone.

use statistics::{
    Interval, LaunchSummary,
    launches::{abba, between_launches, ratio_paired},
};

use crate::trace::{Noise, normal, steps};

const RUNS: u64 = 1_000;
const JOBS: usize = 6;
const BLOCKS: usize = 5;
const SLOWDOWN: f64 = 1.8;
/// Noise of one visit on the log scale, besides that of the machine.
const NOISE: f64 = 0.01;
const DRIFT: f64 = 0.1;
const VISITS_REMEMBERED: f64 = 50.0;

/// The logarithm of the slowness of the machine, visit by visit.
struct Machine {
    random: fastrand::Rng,
    log: f64,
}

impl Machine {
    fn new(seed: u64) -> Machine {
        let mut random = fastrand::Rng::with_seed(seed);
        Machine { log: DRIFT * normal(&mut random), random }
    }

    /// The step time of a visit, which is one second at the mean speed of the machine.
    fn visit(&mut self) -> f64 {
        let phi = (-1.0 / VISITS_REMEMBERED).exp();
        self.log = phi * self.log + DRIFT * (1.0 - phi * phi).sqrt() * normal(&mut self.random);
        (self.log + NOISE * normal(&mut self.random)).exp()
    }
}

/// The measurements of a run of all pairs.
struct AllPairs {
    /// Medians of one job alone, two per block.
    alone: Vec<f64>,
    /// For both members of each pair, `(alone, together)` of each block.
    members: Vec<[Vec<(f64, f64)>; 2]>,
}

fn all_pairs(seed: u64) -> AllPairs {
    let mut machine = Machine::new(seed);
    let pairs: Vec<[usize; 2]> = (0..JOBS).flat_map(|a| (0..a).map(move |b| [a, b])).collect();
    let mut run = AllPairs { alone: Vec::new(), members: vec![Default::default(); pairs.len()] };
    for _ in 0..BLOCKS {
        let mut order: Vec<usize> = (0..pairs.len()).collect();
        machine.random.shuffle(&mut order);
        let before: Vec<f64> = (0..JOBS).map(|_| machine.visit()).collect();
        let mut together = vec![[0.0; 2]; pairs.len()];
        for pair in order {
            // Members of a visit share the state of the machine, and each has its own noise.
            let level = machine.visit();
            together[pair] = [(); 2].map(|()| SLOWDOWN * level * (NOISE * normal(&mut machine.random)).exp());
        }
        let mut after: Vec<f64> = (0..JOBS).map(|_| machine.visit()).collect();
        after.reverse();
        run.alone.extend([before[0], after[0]]);
        for ((members, jobs), times) in run.members.iter_mut().zip(&pairs).zip(together) {
            for ((member, &job), time) in members.iter_mut().zip(jobs).zip(times) {
                member.push(abba([before[job], time, time, after[job]]));
            }
        }
    }
    run
}

fn misses(interval: Option<Interval>, truth: f64) -> f64 {
    f64::from(u8::from(!interval.is_some_and(|interval| interval.contains(truth))))
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

fn deviation(values: &[f64]) -> f64 {
    let centre = mean(values);
    mean(&values.iter().map(|value| (value - centre).powi(2)).collect::<Vec<_>>()).sqrt()
}

/// Slowdowns and throughputs of groups are ratios within a block, in which the drift cancels, and the
/// interval of each row covers the truth. Rows share baselines and minutes, however, so that a run has many
/// rows that miss or none: its rows are not independent.
#[test]
fn intervals_of_ratios_cover_and_rows_of_a_run_miss_together() {
    let [mut slowdowns, mut throughputs] = [Vec::new(), Vec::new()];
    for seed in 0..RUNS {
        let run = all_pairs(seed);
        let rows = run.members.iter().flatten();
        let missed: Vec<f64> = rows.map(|pairs| misses(ratio_paired(pairs), SLOWDOWN)).collect();
        slowdowns.push(mean(&missed));
        let of_group = |[a, b]: &[Vec<(f64, f64)>; 2]| {
            let blocks = a.iter().zip(b).map(|(a, b)| a.0 / a.1 + b.0 / b.1);
            misses(between_launches(&blocks.collect::<Vec<_>>()), 2.0 / SLOWDOWN)
        };
        throughputs.push(mean(&run.members.iter().map(of_group).collect::<Vec<_>>()));
    }
    for (what, missed, rows) in
        [("slowdown", slowdowns, JOBS * (JOBS - 1)), ("throughput", throughputs, JOBS * (JOBS - 1) / 2)]
    {
        let coverage = 1.0 - mean(&missed);
        let independent = (0.05 * 0.95 / rows as f64).sqrt();
        let together = deviation(&missed) / independent;
        println!(
            "{what}: covers {coverage:.3}; rows of a run miss {together:.2} times as unevenly as independent ones"
        );
        assert!((0.93..=0.97).contains(&coverage), "{what}: {coverage}");
        assert!((1.2..3.0).contains(&together), "{what}: {together}");
    }
}

/// The interval over launches of one run describes their scatter around the run's own minutes. The result
/// of another run an hour later is usually outside of it, which is the reason for baselines within a block.
#[test]
fn intervals_between_launches_are_about_the_minutes_of_their_run() {
    let run_and_hour = (0..RUNS).map(|seed| {
        let mut machine = Machine::new(seed);
        let mut levels = Vec::new();
        let launches: Vec<f64> = (0..BLOCKS)
            .map(|_| {
                let launch = machine.visit();
                levels.push(machine.log);
                launch
            })
            .collect();
        let interval = between_launches(&launches);
        [misses(interval, mean(&levels).exp()), misses(interval, 1.0)]
    });
    let missed: Vec<[f64; 2]> = run_and_hour.collect();
    let [own, other] =
        [0, 1].map(|of| 1.0 - missed.iter().map(|missed| missed[of]).sum::<f64>() / RUNS as f64);
    println!("between launches: covers {own:.3} of its own minutes, {other:.3} of the machine on average");
    assert!(own > 0.95, "{own}");
    assert!((0.15..0.3).contains(&other), "{other}");
}

/// Within a launch that is called steady the interval is about the launch's own steps.
#[test]
fn intervals_within_a_launch_nearly_cover_where_the_machine_drifts_meanwhile() {
    const STEPS: usize = 400;
    let (mut covered, mut steady) = (0, 0);
    for seed in 0..RUNS {
        let mut random = fastrand::Rng::with_seed(seed);
        // A launch takes as long as a visit: the drift within it is that from one visit to the next.
        let innovation = DRIFT * (2.0 / VISITS_REMEMBERED / STEPS as f64).sqrt();
        let mut log = 0.0;
        let levels: Vec<f64> = (0..STEPS)
            .map(|_| {
                log += innovation * normal(&mut random);
                log
            })
            .collect();
        let noise = Noise { deviation: 0.02, phi: 0.0 };
        let times = steps(&mut random, STEPS, 10e6, noise, |index| levels[index].exp());
        let launch = LaunchSummary::of(&times).expect("it has steps");
        if !launch.steady.is_steady() {
            continue;
        }
        let mut of_launch = levels.clone();
        of_launch.sort_by(f64::total_cmp);
        steady += 1;
        covered +=
            u64::from(launch.median_interval.is_some_and(|i| i.contains(10e6 * of_launch[STEPS / 2].exp())));
    }
    let (coverage, steady) = (covered as f64 / steady as f64, steady as f64 / RUNS as f64);
    println!("within a launch: covers {coverage:.3}; {steady:.3} are called steady");
    assert!((0.83..=0.98).contains(&coverage), "{coverage} of {steady}");
}
