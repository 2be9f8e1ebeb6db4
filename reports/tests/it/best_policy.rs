//! Which policy of a trace is named best, on records of `sched run` whose completion times and settings are made for the test.

use std::fs;

use formats::rows::Outcome;
use front_door::Door;
use record::{
    manifest::{Manifest, Simulated},
    rows::{self, Status},
    run_dir::RunDir,
};

use crate::answers::{in_short, record};

/// The two-sided 95 % quantile of Student's t with the fifteen degrees of freedom of sixteen jobs.
const T_OF_15: f64 = 2.131_449_546;

/// A run of sixteen jobs under a policy, as it was recorded.
struct Made {
    manifest: Manifest,
    outcomes: Vec<Outcome>,
}

fn recorded() -> Made {
    let run = RunDir::open(record("20261125-epyc-lucid/fifo").as_ref()).expect("a record");
    let outcomes: Vec<Outcome> = rows::read(&run.outcomes_path()).expect("its rows");
    assert_eq!(outcomes.len(), 16);
    Made { manifest: run.manifest().expect("it has a manifest"), outcomes }
}

impl Made {
    fn under(policy: &str, seconds: [f64; 16]) -> Made {
        let mut made = recorded();
        made.scheduling().policy = policy.into();
        for (row, seconds) in made.outcomes.iter_mut().zip(seconds) {
            row.jct_ns = Some((seconds * 1e9) as u64);
        }
        made
    }

    fn scheduling(&mut self) -> &mut record::manifest::Scheduling {
        self.manifest.scheduling.as_mut().expect("a run of sched")
    }

    fn simulated(mut self) -> Made {
        self.scheduling().simulated = Some(Simulated::default());
        self
    }

    fn fails(mut self, job: usize) -> Made {
        let row = &mut self.outcomes[job];
        (row.status, row.jct_ns) = (Status::Failed, None);
        self
    }
}

/// The words at the top of the page of these runs, which are named by their numbers.
fn answer(runs: Vec<Made>) -> String {
    let door = Door::new(env!("CARGO_BIN_EXE_report"));
    let count = runs.len();
    for (number, made) in runs.into_iter().enumerate() {
        let run = RunDir::create(&door.path(&format!("r{number}"))).expect("the folder is writable");
        run.write_manifest(&made.manifest).expect("the folder is writable");
        rows::write(&run.outcomes_path(), &made.outcomes).expect("the folder is writable");
    }
    let names: Vec<String> = (0..count).map(|number| format!("r{number}")).collect();
    door.exits(0, &format!("{} --out page", names.join(" ")));
    in_short(&fs::read_to_string(door.path("page/index.html")).expect("a page"))
}

/// Times of 10 s and a bit, apart from the last one.
fn times(factor: f64, last: f64) -> [f64; 16] {
    std::array::from_fn(|job| if job == 15 { last } else { factor * (10.0 + job as f64 / 100.0) })
}

fn check(answer: &str, expected: &[&str]) {
    for words in expected {
        assert!(answer.contains(words), "'{words}' in: {answer}");
    }
}

/// The mean and half of the 95 % interval.
fn mean_and_half(values: &[f64]) -> (f64, f64) {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (n - 1.0);
    (mean, T_OF_15 * (variance / n).sqrt())
}

/// Fifteen jobs end twice as soon under `b`, and the longest one a fifth later.
#[test]
fn a_policy_whose_jobs_mostly_end_sooner_may_have_the_higher_average_and_both_are_said() {
    let (a, b) = (times(1.0, 10_000.0), times(0.5, 12_000.0));
    let differences: Vec<f64> = a.iter().zip(b).map(|(a, b)| b - a).collect();
    let logs: Vec<f64> = a.iter().zip(b).map(|(a, b)| (b / a).ln()).collect();
    let average = a.iter().sum::<f64>() / 16.0;
    let (difference, half) = mean_and_half(&differences);
    let (log, log_half) = mean_and_half(&logs);
    let [ratio, lo, hi] = [0.0, -half, half].map(|end| 1.0 + (difference + end) / average);
    assert!(ratio > 1.0 && lo < 1.0 && (log + log_half) < 0.0, "the test's own claim");
    let said = answer(vec![Made::under("a", a), Made::under("b", b)]);
    let open = format!("The intervals do not separate it from b ({ratio:.2} times, {lo:.2} to {hi:.2}).");
    let by_job = format!(
        "15 of 16 jobs end sooner under b, though its average is higher: by the geometric mean a job takes {:.2} times as long \
         ({:.2} to {:.2}).",
        log.exp(),
        (log - log_half).exp(),
        (log + log_half).exp()
    );
    check(&said, &["Measured: a, ", &open, &by_job]);
}

#[test]
fn the_whole_interval_of_the_averages_names_the_policy_that_takes_longer() {
    let (a, b) = (times(1.0, 10.0), times(2.0, 21.0));
    let differences: Vec<f64> = a.iter().zip(b).map(|(a, b)| b - a).collect();
    let (difference, half) = mean_and_half(&differences);
    let average = a.iter().sum::<f64>() / 16.0;
    let [ratio, lo, hi] = [0.0, -half, half].map(|end| 1.0 + (difference + end) / average);
    let said = answer(vec![Made::under("b", b), Made::under("a", a)]);
    let longer = format!(
        "Jobs take longer under b ({ratio:.2} times, {lo:.2} to {hi:.2}): the whole interval is above 1."
    );
    check(&said, &["Measured: a, 10.1 s over 1 run.", &longer]);
    assert!(!said.contains("do not separate") && !said.contains("corrected"), "{said}");
}

/// The differences of `b` alternate about 1 s, so that t is about 2.3 and p about 0.035; four policies have six pairs.
#[test]
fn verdicts_are_corrected_for_the_pairs_of_policies() {
    let a = times(1.0, 10.0);
    let b = std::array::from_fn(|job| a[job] + if job % 2 == 0 { 2.7 } else { -0.7 });
    let two = answer(vec![Made::under("a", a), Made::under("b", b)]);
    check(&two, &["Jobs take longer under b (1.10 times, 1.01 to 1.19)"]);
    let more = |policy: &str, factor| Made::under(policy, a.map(|time| factor * time));
    let four = answer(vec![Made::under("a", a), Made::under("b", b), more("c", 1.05), more("d", 3.0)]);
    check(
        &four,
        &[
            "do not separate it from b (1.10 times, 1.01 to 1.19, not after the correction).",
            "Verdicts are corrected for the 6 pairs of policies.",
            "Jobs take longer under c (1.05 times, 1.05 to 1.05); d (3.00 times",
        ],
    );
}

#[test]
fn averages_are_over_the_jobs_that_ended_well_in_all_runs() {
    let (a, b) = (times(1.0, 10_000.0), times(2.0, 10_000.0));
    // The long job failed under `b`, whose other jobs took longer.
    let said = answer(vec![Made::under("a", a), Made::under("b", b).fails(15)]);
    check(
        &said,
        &[
            "Measured: no policy is named best, because some runs lack more completion times than others.",
            "Left out of all averages for want of a completion time in a run: 1 of 16 jobs \
             (r1: of 16 jobs, 1 failed or had not ended; they have no completion time).",
            "The averages are: a, 10.1 s over 1 run; b, 20.1 s over 1 run.",
        ],
    );
    // Each run lacks one.
    let said = answer(vec![Made::under("a", a).fails(15), Made::under("b", b).fails(15)]);
    check(&said, &["Measured: a, 10.1 s over 1 run. Jobs take longer under b (2.00 times", "r0: of 16"]);
    let all_failed = |policy: &str| (0..16).fold(Made::under(policy, a), |made, job| made.fails(job));
    let said = answer(vec![Made::under("a", a), all_failed("b")]);
    check(&said, &["no job has a completion time in all runs; the best policy is unknown."]);
}

#[test]
fn runs_on_other_devices_are_not_compared() {
    let elsewhere = |mut made: Made| {
        made.manifest.devices.iter_mut().for_each(|device| device.name = "Other".into());
        made
    };
    let (a, b) = (times(1.0, 10.0), times(2.0, 20.0));
    let said = answer(vec![Made::under("a", a), elsewhere(Made::under("b", b))]);
    check(
        &said,
        &[
            "Measured on cpu:0, cpu:1 (AMD EPYC): a, 10.1 s over 1 run. There is no other policy to compare with.",
            "Measured on cpu:0, cpu:1 (Other): b, 20.1 s over 1 run. There is no other policy to compare with.",
        ],
    );
    // A measured run and a simulation are two worlds.
    let said = answer(vec![Made::under("a", a), Made::under("b", b).simulated()]);
    check(
        &said,
        &[
            "Measured: a, 10.1 s over 1 run. There is no other",
            "Simulated: b, 20.1 s over 1 run. There is no other",
        ],
    );
}

#[test]
fn simulations_are_no_repeats_and_differ_by_seed_and_switch_cost() {
    let (a, b) = (times(1.0, 10.0), times(2.0, 21.0));
    let twice = |one: [f64; 16], other: [f64; 16]| {
        vec![
            Made::under("a", one),
            Made::under("a", one.map(|time| time * 1.01)),
            Made::under("b", other),
            Made::under("b", other.map(|time| time * 1.01)),
        ]
    };
    let measured = answer(twice(a, b));
    check(&measured, &["Measured: a, 10.1 s over 2 runs.", "Intervals are between repeats."]);
    let simulated = answer(twice(a, b).into_iter().map(Made::simulated).collect());
    check(
        &simulated,
        &[
            "Simulated: a, 10.1 s over 2 runs.",
            "Intervals are over the jobs of the trace, which says nothing of other",
        ],
    );
    let mut seed = Made::under("b", b).simulated();
    seed.manifest.seed += 1;
    let mut cost = Made::under("c", b).simulated();
    cost.scheduling().switch_cost_s = Some(7.0);
    let said = answer(vec![Made::under("a", a).simulated(), seed, cost]);
    for (run, policy) in [("r0", "a"), ("r1", "b"), ("r2", "c")] {
        check(&said, &[&format!("Simulated in the setting of {run}: {policy}, ")]);
    }
    assert_eq!(said.matches("There is no other policy to compare with").count(), 3, "{said}");
}
