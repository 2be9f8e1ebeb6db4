//! Intervals of workloads that were not measured beside others, against slowdowns that were planted.

use fastrand::Rng;
use formats::{fitted::ModelFile, interference_fit::ContentionClass};
use model::interference::Interference;

use super::{HEADER, Planted, at_batch_8, row, slowdown, slowdown_of};

/// Workloads that are measured beside each other, and light ones that are measured alone.
const TOGETHER: usize = 16;
const KEPT_ASIDE: usize = 24;
const SEEDS: u64 = 6;

/// A workload, and its effects: what it bears and does by the contention, and where the device is free.
struct Job {
    planted: Planted,
    effects: [f64; 4],
}

fn normal(rng: &mut Rng) -> f64 {
    (0..12).map(|_| rng.f64()).sum::<f64>() - 6.0
}

/// Half of the workloads that are measured together, and all others, are busy for less than a fifth of the time.
fn jobs(rng: &mut Rng) -> Vec<Job> {
    let job = |number: usize| {
        let is_light = number.is_multiple_of(2) || number >= TOGETHER;
        let busy = if is_light { 0.02 + 0.18 * rng.f64() } else { 0.2 + 0.8 * rng.f64() };
        let planted = (&*format!("w{number}").leak(), 10.0 + 40.0 * rng.f64(), busy, 100, 1.0);
        Job { planted, effects: [0.1, 0.1, 0.03, 0.03].map(|sd| sd * normal(rng)) }
    };
    (0..TOGETHER + KEPT_ASIDE).map(job).collect()
}

/// The share of its time that a job loses beside another by a fair share of the device, and its slowdown.
fn planted(job: &Job, other: &Job, rng: &mut Rng) -> (f64, f64) {
    let fair = slowdown(&job.planted, &other.planted);
    let lost = 1.0 - 1.0 / fair;
    let by_contention = lost * (job.effects[0] + other.effects[1]);
    let at_rest = job.effects[2] + other.effects[3];
    (lost, fair * (by_contention + at_rest + 0.05 * (lost + 0.2) * normal(rng)).exp())
}

/// The numbers of light predictions of workloads that were kept aside, and of those whose interval has the slowdown, by a fit of the command;
/// and the share of light predictions that the command says were covered, in percent.
fn covered(seed: u64) -> (usize, usize, f64) {
    let mut rng = Rng::with_seed(seed);
    let jobs = jobs(&mut rng);
    let mut text = HEADER.to_owned();
    for job in &jobs {
        row(&mut text, 0, &job.planted, None, "alone", 1.0);
    }
    for one in 0..TOGETHER {
        for other in one..TOGETHER {
            let group = format!("{one}+{other}");
            for (seat, job, beside) in [(0, one, other), (1, other, one)] {
                let (_, factor) = planted(&jobs[job], &jobs[beside], &mut rng);
                row(&mut text, 0, &jobs[job].planted, Some((&group, seat)), "time-slice", factor);
            }
        }
    }
    let door = crate::door();
    door.write("pairs.csv", &text);
    let shown = door.exits(0, "fit --interference pairs.csv --out I.json --verbose");
    let fit =
        ModelFile::read(&door.path("I.json")).expect("it reads back").interference.expect("it has a fit");
    let is_light =
        |row: &&formats::interference_fit::SlowdownErrors| row.contention == Some(ContentionClass::Light);
    let light = fit.modes[0].errors_by_contention.iter().find(is_light).expect("some jobs are light");
    let percent = light.covered_percent.expect("a model has intervals");
    let line = shown.out.lines().find(|line| line.trim_start().starts_with("light "));
    let line = line.expect("it prints the classes of contention");
    assert!(line.contains(&format!(" {} ", light.rows)), "{line}");
    assert!(line.trim_end().ends_with(&format!(" {percent:.1} %")), "{line}");

    let model = Interference::new(&fit);
    let (mut count, mut inside) = (0, 0);
    for job in &jobs[TOGETHER..] {
        for other in &jobs[..TOGETHER] {
            let (lost, measured) = planted(job, other, &mut rng);
            if lost >= 0.1 {
                continue;
            }
            let asked = [job, other].map(|of| at_batch_8(of.planted.0));
            let predicted = slowdown_of(&model, &asked, "time-slice");
            let (lo, hi) = predicted.and_then(|of| of.interval).expect("it was measured alone");
            count += 1;
            inside += usize::from((lo..=hi).contains(&measured));
        }
    }
    (count, inside, percent)
}

/// The predictions of a job, and of a fit, err together, so that a single fit may cover as few as 85 % or all. Six fits have about 2200
/// predictions of 144 jobs.
#[test]
fn intervals_of_light_jobs_that_were_kept_aside_have_95_percent_of_slowdowns() {
    let (mut count, mut inside) = (0, 0);
    for seed in 0..SEEDS {
        let (of_seed, inside_of_seed, said) = covered(seed);
        println!("seed {seed}: {inside_of_seed} of {of_seed}, and {said:.1} % of those left out");
        assert!((88.0..=100.0).contains(&said), "{seed}: {said}");
        count += of_seed;
        inside += inside_of_seed;
    }
    assert!(count >= 2000, "{count}");
    let share = inside as f64 / count as f64;
    assert!((0.90..=0.98).contains(&share), "{inside} of {count}: {share}");
}
