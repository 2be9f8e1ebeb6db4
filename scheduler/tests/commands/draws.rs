//! Predictions with intervals.

use std::fs;

use formats::rows::{Draw, Fidelity, Prediction, Totals};
use front_door::Door;
use record::rows::{self};

use crate::sim::measured_at;

/// A job of a second and a job of 12,000 s, a hundred times the memory of the drift, on a device each.
const TWO: &str = "name,submit_s,job,steps,step_ns\nshort,0,any,10,100000000\nlong,0,any,120000,100000000\n";

fn predictions(door: &Door, run: &str) -> Vec<Prediction> {
    rows::read(&door.path(run).join("predictions.csv")).unwrap()
}

fn draws(door: &Door, run: &str) -> Vec<Draw> {
    rows::read(&door.path(run).join("draws.csv")).unwrap()
}

/// Half of the interval on the log scale.
fn half_width(of: &Prediction) -> f64 {
    (of.jct_ns_ci_hi.unwrap() as f64 / of.jct_ns_ci_lo.unwrap() as f64).ln() / 2.0
}

/// Without tables the drift is 3 % with three degrees of freedom, of which 95 % are within 3.182 deviations. A short job has the
/// drift of one instant besides the error of the level, and in a long one what is forgotten in 120 s averages out.
#[test]
fn the_interval_of_a_job_follows_from_the_drift() {
    let door = crate::door();
    door.write("t.csv", TWO);
    let sim = "sim t.csv --policy fifo --cluster 1x2 --switch-cost 0s --draws 2000";
    for out in ["one", "two"] {
        door.exits(0, &format!("{sim} --out {out}"));
    }
    let found = predictions(&door, "one");
    for (job, deviation) in [(0, 0.03 * 2f64.sqrt()), (1, 0.03 * (1.0f64 + 2.0 * 120.0 / 12_000.0).sqrt())] {
        let expected = 3.182 * deviation;
        let width = half_width(&found[job]);
        assert!((width / expected - 1.0).abs() < 0.15, "job {job}: {width} is not {expected}");
        let median = found[job].jct_ns_median.unwrap() as f64 / found[job].jct_ns.unwrap() as f64;
        assert!((median - 1.0).abs() < 0.01, "job {job}: {median}");
        assert_eq!(found[job].draws, 2000);
    }
    let read = |out: &str| fs::read_to_string(door.path(out).join("draws.csv")).unwrap();
    assert!(read("one") == read("two"), "a seed gives the same draws, whichever thread simulates them");
}

/// In a queue, a job may end much earlier without draws than in nearly all draws.
#[test]
fn a_prediction_outside_of_its_interval_over_draws_is_read_again() {
    let door = crate::door();
    door.exits(
        0,
        "trace make any --jobs 60 --every 10s --length log-normal:10s:1.3 --step-time 100ms --seed 3 --out t.csv",
    );
    door.exits(0, "sim t.csv --policy sjf --cluster 1x1 --switch-cost 1s --draws 40 --out r");
    let is_outside =
        |row: &Prediction| row.range().zip(row.jct_ns).is_some_and(|(range, jct)| !range.contains(jct));
    let outside = predictions(&door, "r").iter().filter(|row| is_outside(row)).count();
    assert!(outside > 0, "the trace is chosen for such jobs");
    door.exits(0, "fidelity r");
}

/// Both tables have the same seeds, and the policies are compared where as many jobs ended.
#[test]
fn policies_are_compared_draw_by_draw() {
    let door = crate::door();
    door.exits(
        0,
        "trace make any --jobs 30 --every 9s --length log-normal:10s:1 --step-time 100ms --seed 5 --out t.csv",
    );
    let sim = "sim t.csv --policy fifo,sjf,srtf --cluster 1x1 --switch-cost 1s --draws 50 --out r";
    let said = door.exits(0, sim);
    let means = |policy: &str| -> Vec<u64> {
        draws(&door, &format!("r/{policy}")).iter().map(|row| row.jct_ns_mean.expect("jobs end")).collect()
    };
    let names = ["fifo", "sjf", "srtf"];
    let lower = |one: &str, other: &str| {
        means(one).iter().zip(means(other)).filter(|(one, other)| **one < *other).count()
    };
    for name in names {
        let cells = names.map(|other| match name == other {
            true => "-".to_owned(),
            false => format!("{} of 50", lower(name, other)),
        });
        let line = |line: &str| {
            let words = line.split_whitespace().collect::<Vec<_>>().join(" ");
            words == format!("{name} {}", cells.join(" "))
        };
        assert!(said.out.lines().any(line), "{name}: {cells:?}: {}", said.out);
    }
    assert!(said.err.contains("show an assumed drift of the machine of 3 %"), "{}", said.err);
    let said = door.exits(0, "sim t.csv --policy fifo,sjf --cluster 1x1 --switch-cost 1s --draws 50 --json");
    let totals: Vec<Totals> = rows::from_json(&said.out).unwrap();
    let [of_fifo] = &totals[0].lower_than[..] else { panic!("{totals:?}") };
    assert_eq!(
        (&*of_fifo.policy, of_fifo.draws as usize, of_fifo.of_draws),
        ("sjf", lower("fifo", "sjf"), 50)
    );
}

/// The totals are the quantiles of draws.csv, and a trace of one job has one completion time.
#[test]
fn intervals_are_quantiles_of_the_draws() {
    let door = crate::door();
    door.write("t.csv", TWO.split_inclusive('\n').take(2).collect::<String>().as_str());
    let said = door.exits(
        0,
        "sim t.csv --policy fifo --cluster 1x1 --switch-cost 0s --draws 40 --seed 9 --out sim --json",
    );
    let totals: Vec<Totals> = rows::from_json(&said.out).unwrap();
    let drawn = totals[0].drawn.expect("there are draws");
    let rows = draws(&door, "sim");
    let mut sorted: Vec<u64> = rows.iter().map(|row| row.jct_ns_mean.unwrap()).collect();
    sorted.sort_unstable();
    // One and 39 of 40 are the least and the largest within 2.5 to 97.5 %, and 20 the median.
    let expected = (sorted[19], sorted[0], sorted[38]);
    let of = drawn.jct_ns_mean;
    assert_eq!((of.median_ns, of.ci_lo_ns, of.ci_hi_ns), expected);
    let job = &predictions(&door, "sim")[0];
    assert_eq!((job.jct_ns_median, job.jct_ns_ci_lo), (Some(expected.0), Some(expected.1)));
    assert_eq!(job.jct_ns_ci_hi, Some(expected.2));
    assert!(rows.iter().all(|row| row.ok == 1 && row.makespan_ns == row.jct_ns_mean), "{rows:?}");
    assert!(sorted[0] < sorted[39], "they differ");
    let said = door.exits(0, "sim t.csv --policy fifo --cluster 1x1 --switch-cost 0s --draws 40 --seed 9");
    assert!(said.out.contains("average JCT 95 %"), "{}", said.out);
    let said = door.exits(2, "sim t.csv --policy fifo --cluster 1x1 --switch-cost 0s --draws 7");
    assert!(said.err.contains("7 is not in 20.."), "{}", said.err);
}

#[test]
fn fidelity_counts_the_jobs_inside_their_intervals() {
    let door = crate::door();
    door.write("t.csv", TWO);
    door.write("slow.csv", &TWO.replace("10,100000000", "10,200000000"));
    let sim = |trace: &str, more: &str| {
        format!("sim {trace} --policy fifo --cluster 1x2 --switch-cost 0s --out {more}")
    };
    door.exits(0, &sim("t.csv", "predicted --draws 100"));
    door.exits(0, &sim("slow.csv", "measured"));
    let said = door.exits(0, "fidelity predicted measured --json");
    let found: Fidelity = rows::from_json(&said.out).unwrap();
    let intervals = found.intervals.expect("the first has draws");
    assert_eq!((intervals.jobs, intervals.jobs_inside), (2, 1), "the short job takes twice as long");
    assert_eq!(intervals.drawn.map(|drawn| drawn.draws), Some(100));
    assert_eq!(found.per_job[1].drawn, predictions(&door, "predicted")[1].range());
    let said = door.exits(0, "fidelity predicted measured --jobs");
    assert!(said.out.contains("1 of 2 jobs are inside their 95 % intervals"), "{}", said.out);
    assert!(said.out.contains("makespan: 12000 s is inside"), "{}", said.out);
    let said = door.exits(0, "fidelity measured predicted");
    assert!(!said.out.contains("95 %"), "{}", said.out);
}

/// One run of the tables had 100 batches per second and another, five minutes later, 80.
#[test]
fn tables_that_disagree_are_told_of() {
    let door = crate::door();
    door.write("t.csv", "name,submit_s,job,steps\na,0,lstm@b8@dp1,100\n");
    for (name, rate) in [("first", 100.0), ("second", 80.0), ("alike", 84.0)] {
        measured_at(&door, name, rate);
    }
    let later = |name: &str, time: &str| {
        let manifest = door.path(name).join("manifest.toml");
        let text = fs::read_to_string(&manifest).unwrap();
        fs::write(&manifest, text.replace("T00:00:00Z", time)).unwrap();
    };
    later("second", "T00:05:00Z");
    later("alike", "T00:10:00Z");
    let sim = "sim t.csv --policy fifo --cluster 1x1:CPU --switch-cost 0s --draws 20";
    let said = door.exits(0, &format!("{sim} --table first --table second"));
    let warning =
        "warning: steps of the same jobs took 1.25 times as long in one run of the tables as in another";
    assert!(said.err.contains(warning), "{}", said.err);
    let said = door.exits(0, &format!("{sim} --table second --table alike"));
    assert!(!said.err.contains("times as long in one run"), "{}", said.err);
}
