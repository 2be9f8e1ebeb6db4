//! `sched fit --suggest` and `--curve`, on a part of a run of the record.

use std::{collections::BTreeMap, fs, path::Path};

use formats::{
    fitted::{ModelFile, PredictedStep},
    rows::{CurvePoint, MeasuringOrder, Suggestion},
};
use front_door::Door;
use record::{
    rows::{self, JobTable, Measurement, Summary},
    run_dir::RunDir,
};

/// A run `part` with the rows of the record that are wanted: plans of one and two ranks, each launched twice with 30 steady steps.
fn part(door: &Door, is_wanted: impl Fn(&str) -> bool) {
    let record =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../reports/record/20261124-epyc-avx512/two-ranks");
    let (from, to) = (RunDir::open(&record).expect("it is a run"), door.path("part"));
    fs::create_dir(&to).expect("the folder is writable");
    fs::copy(record.join("manifest.toml"), to.join("manifest.toml")).expect("it is copied");
    let mut summaries: Vec<Summary> = rows::read(&from.summary_path()).expect("it reads");
    summaries.retain(|row| is_wanted(&row.job));
    rows::write(&to.join("summary.csv"), &summaries).expect("the folder is writable");
    let mut launches: Vec<Measurement> = rows::read(&from.measurements_path()).expect("it reads");
    launches.retain(|row| is_wanted(&row.job));
    rows::write(&to.join("measurements.csv"), &launches).expect("the folder is writable");
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

#[test]
fn suggestions_are_plans_that_were_not_measured_with_their_cost() {
    let door = crate::door();
    let measured = ["dp1", "bf16", "ga2", "ga4-bf16", "dp2", "dp2-bf16", "dp2-ga2", "dp2-zero1"];
    let jobs = measured.map(|plan| format!("lstm@b8@{plan}"));
    part(&door, |job| jobs.iter().any(|other| other == job));
    let said = door.exits(0, "fit part --suggest 5 --out next.csv --model-out M.json");
    let next: Vec<Suggestion> = rows::read(&door.path("next.csv")).expect("it reads");
    assert_eq!(next.len(), 5);
    assert!(said.err.contains("next.csv: 5 of ") && said.err.contains("device seconds"), "{}", said.err);
    let table = JobTable::read(&door.path("next.csv")).expect("profile reads it");
    assert_eq!(table.rows.len(), 5, "none twice");
    assert_eq!(ModelFile::read(&door.path("M.json")).expect("it reads").workloads[0].rows.len(), 8);

    let launches = door.measurements("part");
    let seconds = |ns: u64| ns as f64 / 1e9;
    let stepped = |row: &Measurement| row.steps_total as f64 * seconds(row.step_ns_mean.expect("it stepped"));
    let steps = median(launches.iter().map(|row| row.steps_total as f64).collect());
    let others = |row: &Measurement| seconds(row.wall_ns.expect("it ran")) - stepped(row);
    let startup_s = median(launches.iter().map(others).collect());
    for row in &next {
        let job = row.job.to_string();
        assert!(!jobs.contains(&job) && said.out.contains(&job), "{job}");
        assert_eq!((row.devices, row.job.global_batch), (row.job.plan.expect("one").ranks(), Some(8)));
        assert!(row.devices <= 2, "{job}");
        assert!(row.half_width_percent_after < row.half_width_percent, "{row:?}");
        let predict = format!("predict --model M.json {job} --devices {} --json", row.devices);
        let predicted: PredictedStep = rows::from_json(&door.exits(0, &predict).out).expect("it is JSON");
        assert_eq!(predicted.step_ns, row.step_ns, "{job}");
        let half_width = (predicted.step_ns_ci_hi - predicted.step_ns_ci_lo) as f64 / 2.0;
        let percent = 100.0 * half_width / row.step_ns as f64;
        assert!((row.half_width_percent / percent - 1.0).abs() < 0.02, "{row:?} and {percent}");
        let cost = 2.0 * f64::from(row.devices) * (startup_s + steps * seconds(row.step_ns));
        assert!((row.device_s / cost - 1.0).abs() < 1e-6, "{row:?} and {cost}");
    }
    let json = door.exits(0, "fit part --suggest 5 --out again.csv --json");
    assert_eq!(rows::from_json::<Vec<Suggestion>>(&json.out).expect("it is JSON"), next);
    door.exits(0, "fit part --suggest 400 --devices 1 --out one.csv");
    let one: Vec<Suggestion> = rows::read(&door.path("one.csv")).expect("it reads");
    assert!(!one.is_empty() && one.iter().all(|row| row.devices == 1), "{one:?}");
    assert!(one.len() < 400, "there are no more");
}

#[test]
fn a_workload_without_a_fit_is_chosen_for_by_what_is_assumed() {
    let door = crate::door();
    part(&door, |job| ["lstm@b8@dp1", "lstm@b8@dp2"].contains(&job));
    let said = door.exits(0, "fit part --suggest 3 --out next.csv");
    assert!(said.err.contains("workload 'lstm' is not fitted; its suggestions are from what is assumed"));
    let next: Vec<Suggestion> = rows::read(&door.path("next.csv")).expect("it reads");
    assert_eq!(next.len(), 3);
}

#[test]
fn what_cannot_be_suggested_is_refused() {
    let door = crate::door();
    part(&door, |job| job.starts_with("lstm@"));
    door.exits(0, "fit part --out MODEL.json");
    let before = std::fs::read(door.path("MODEL.json")).expect("it was written");
    for option in ["--suggest 3 --out", "--suggest 3 --curve"] {
        let said = door.exits(2, &format!("fit part {option} MODEL.json"));
        assert!(
            said.err.contains("MODEL.json is a model of `sched fit`, and a table would replace it"),
            "{}",
            said.err
        );
    }
    assert_eq!(std::fs::read(door.path("MODEL.json")).expect("it is there"), before);
    let said = door.exits(4, "fit part --suggest 3 --out next.csv");
    assert!(said.err.contains("no configuration is left to measure; allow more devices with --devices"));
    for (arguments, message) in [
        ("fit part --suggest 3", "--out <FILE>"),
        ("fit part --suggest 0 --out n.csv", "0 is not in 1.."),
        ("fit part --devices 2 --out n.csv", "--suggest <K>"),
        ("fit part --model-out M.json --out n.csv", "--suggest <K>"),
        ("fit part --curve c.csv --out n.csv", "cannot be used with"),
    ] {
        let said = door.exits(2, arguments);
        assert!(said.err.contains(message), "sched {arguments}: {}", said.err);
    }
}

#[test]
fn a_curve_has_the_cost_and_the_error_of_each_order() {
    let door = crate::door();
    part(&door, |job| job.starts_with("lstm@") && !job.contains("pp2"));
    let said = door.exits(0, "fit part --curve curve.csv --suggest 12 --seed 5");
    assert!(said.out.contains("random order has a mean error of"), "{}", said.out);
    let points: Vec<CurvePoint> = rows::read(&door.path("curve.csv")).expect("it reads");
    let mut cost: BTreeMap<String, f64> = BTreeMap::new();
    for row in door.measurements("part") {
        let devices = row.plan.expect("it has one").ranks();
        *cost.entry(row.job).or_default() += f64::from(devices) * row.wall_ns.expect("it ran") as f64 / 1e9;
    }
    let of = |order, seed| points.iter().filter(move |point| (point.order, point.seed) == (order, seed));
    for (order, seeds) in
        [(MeasuringOrder::Suggested, 20), (MeasuringOrder::Random, 20), (MeasuringOrder::Grid, 1)]
    {
        for seed in 5..5 + seeds {
            let counts: Vec<u32> = of(order, seed).map(|point| point.configurations).collect();
            let expected: Vec<u32> = (3..cost.len() as u32).step_by(12).collect();
            assert_eq!(counts, expected, "{order} {seed}");
        }
        assert_eq!(of(order, 5 + seeds).count(), 0);
    }
    let jobs: Vec<String> = door.summaries("part").into_iter().map(|row| row.job).collect();
    for point in of(MeasuringOrder::Grid, 5) {
        let spent: f64 = jobs[..point.configurations as usize].iter().map(|job| cost[job]).sum();
        assert!((point.device_s / spent - 1.0).abs() < 1e-9, "{point:?} and {spent}");
    }
    let first = |order| of(order, 7).next().expect("there is one").clone();
    let (suggested, random) = (first(MeasuringOrder::Suggested), first(MeasuringOrder::Random));
    assert_eq!(CurvePoint { order: MeasuringOrder::Random, ..suggested }, random, "both begin with the same");
}

#[test]
fn a_curve_of_a_table_takes_the_cost_of_usual_launches() {
    let door = crate::door();
    let rows = [
        ("ga", 1, 1.01),
        ("ga", 2, 0.56),
        ("ga", 4, 0.33),
        ("ga", 8, 0.22),
        ("gc", 1, 1.32),
        ("gc", 8, 12.5),
    ];
    let lines = rows.map(|(plan, devices, step_s)| format!("{plan},{devices},{step_s}\n"));
    door.write("bert.csv", &format!("exec_plan,placement,iter_time\n{}", lines.concat()));
    door.exits(0, "fit --csv bert.csv --curve curve.csv --suggest 1");
    let points: Vec<CurvePoint> = rows::read(&door.path("curve.csv")).expect("it reads");
    let grid: Vec<&CurvePoint> = points.iter().filter(|point| point.order == MeasuringOrder::Grid).collect();
    assert_eq!(grid.iter().map(|point| point.configurations).collect::<Vec<_>>(), [3, 4, 5]);
    // Five launches start in 10 s and step for 10 s, or for one step.
    let cost =
        |(_, devices, step_s): &(&str, i32, f64)| 5.0 * f64::from(*devices) * (10.0 + step_s.max(10.0));
    for point in &grid {
        let spent: f64 = rows[..point.configurations as usize].iter().map(cost).sum();
        assert!((point.device_s / spent - 1.0).abs() < 1e-9, "{point:?} and {spent}");
    }
    let all = points.iter().filter(|point| point.order != MeasuringOrder::Grid && point.configurations == 5);
    let whole: f64 = rows.iter().map(cost).sum();
    for point in all {
        let left = rows.iter().map(cost).any(|cost| (whole - cost - point.device_s).abs() < 1e-6);
        assert!(left, "{point:?}: one is left of {whole}");
    }
}
