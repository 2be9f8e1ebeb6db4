//! Models of step times: fits, their errors, and what they predict.

mod published_tables;
mod step_times;

use std::{
    fs,
    path::{Path, PathBuf},
};

use formats::fitted::{
    BasisWord, FitErrors, FittedRow, FormulaFit, FormulaName, LaunchesDiffer, Layout, ModelFile, Origin,
    PredictedStep,
};
use front_door::Door;
use record::rows::{self, ExportRow, Measurement, ProgramKind, Status, Summary};

const HEADER: &str = "placement,local_bsz,step_time,sync_time\n";

/// Placements and batches of a rank.
const CONFIGURATIONS: [(&str, u32); 10] = [
    ("1", 4),
    ("1", 16),
    ("1", 64),
    ("2", 8),
    ("2", 32),
    ("4", 16),
    ("4", 64),
    ("44", 8),
    ("44", 32),
    ("4444", 16),
];

/// The step times of a job as Pollux describes them, a little off in turns.
pub(crate) fn pollux_rows() -> Vec<String> {
    let truth = [0.05, 0.004, 0.02, 0.003, 0.06, 0.001, 1.5];
    let line = |(number, (placement, batch)): (usize, &(&str, u32))| {
        let off = [1.01, 0.985, 1.0, 1.02][number % 4];
        format!("{placement},{batch},{},0\n", closed_form(&truth, placement, *batch) * off)
    };
    CONFIGURATIONS.iter().enumerate().map(line).collect()
}

/// The time of a step in seconds (Qiao et al., OSDI 2021, section 3.2).
fn closed_form(of: &[f64], placement: &str, batch: u32) -> f64 {
    let &[ac, bc, al, bl, an, bn, gm] = of else { panic!("{of:?}") };
    let devices: f64 = placement.chars().map(|digit| f64::from(digit.to_digit(10).unwrap())).sum();
    let compute = ac + bc * f64::from(batch);
    let exchange = match (devices as u32, placement.len()) {
        (1, _) => return compute,
        (_, 1) => al + bl * (devices - 2.0),
        _ => an + bn * (devices - 2.0),
    };
    (compute.powf(1.0 + gm) + exchange.powf(1.0 + gm)).powf(1.0 / (1.0 + gm))
}

fn pollux_fit(file: &ModelFile) -> &FormulaFit {
    file.workloads[0]
        .fits
        .iter()
        .find(|fit| fit.formula == FormulaName::Pollux)
        .expect("it describes all rows")
}

/// The mean of the errors of rows, each predicted from the others, is that of the errors of the first formula.
#[test]
fn the_rows_of_a_model_have_what_the_others_predict_of_them() {
    let file = fitted(&crate::door(), &pollux_rows());
    let workload = &file.workloads[0];
    let errors: Vec<f64> = workload
        .rows
        .iter()
        .filter_map(|row| Some(100.0 * (row.left_out?.step_ns as f64 / row.step_ns as f64 - 1.0).abs()))
        .collect();
    let all = &workload.fits[0].leave_one_out[0];
    assert_eq!((&*all.plans, all.rows as usize), ("all", errors.len()));
    let mean = errors.iter().sum::<f64>() / errors.len() as f64;
    assert!((mean - all.mean_percent).abs() < 1e-4, "{mean} and {}", all.mean_percent);
    for row in &workload.rows {
        let left_out = row.left_out.expect("the formula describes all rows");
        assert!(
            left_out.step_ns_ci_lo < left_out.step_ns && left_out.step_ns < left_out.step_ns_ci_hi,
            "{row:?}"
        );
    }
}

fn values(fit: &FormulaFit) -> Vec<f64> {
    fit.parameters.iter().map(|parameter| parameter.value).collect()
}

pub(crate) fn fitted(door: &Door, rows: &[String]) -> ModelFile {
    door.write("bert.csv", &format!("{HEADER}{}", rows.concat()));
    door.exits(0, "fit --csv bert.csv --out MODEL.json");
    ModelFile::read(&door.path("MODEL.json")).expect("it reads back")
}

pub(crate) fn published(name: &str) -> Option<PathBuf> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/reference").join(name);
    if !path.is_file() {
        schema::skips::skipped("published-traces", format_args!("there is no {}", path.display()));
    }
    path.is_file().then_some(path)
}

pub(crate) fn record(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../reports/record").join(name)
}

/// A part of a recorded run: the rows of some lines of its tables.
pub(crate) fn part_of_run(door: &Door, name: &str, recorded: &str, keeps: impl Fn(&str) -> bool) {
    let (from, to) = (record(recorded), door.path(name));
    fs::create_dir(&to).unwrap();
    fs::copy(from.join("manifest.toml"), to.join("manifest.toml")).unwrap();
    for table in ["summary.csv", "measurements.csv"] {
        let text = fs::read_to_string(from.join(table)).unwrap();
        let lines = text.lines().enumerate().filter(|(number, line)| *number == 0 || keeps(line));
        let text: String = lines.map(|(_, line)| format!("{line}\n")).collect();
        fs::write(to.join(table), text).unwrap();
    }
}

#[test]
fn errors_are_those_of_fits_without_the_rows() {
    let door = crate::door();
    let rows = pollux_rows();
    let all = fitted(&door, &rows);
    let mut percents = Vec::new();
    for (number, (placement, batch)) in CONFIGURATIONS.iter().enumerate() {
        let mut others = rows.clone();
        let measured: f64 = others.remove(number).split(',').nth(2).unwrap().parse().unwrap();
        let without = fitted(&door, &others);
        let predicted = closed_form(&values(pollux_fit(&without)), placement, *batch);
        percents.push(100.0 * (predicted / measured - 1.0).abs());
    }
    let [FitErrors { plans, rows: count, mean_percent, max_percent, .. }] =
        &pollux_fit(&all).leave_one_out[..]
    else {
        panic!("all plans are of one family: {:?}", pollux_fit(&all).leave_one_out)
    };
    let mean = percents.iter().sum::<f64>() / percents.len() as f64;
    let max = percents.iter().copied().fold(0.0, f64::max);
    assert_eq!((plans.as_str(), *count), ("all", 10));
    // The fit of the others begins where that to all rows ended, and has its scale.
    assert!((mean_percent - mean).abs() < 0.2 * mean, "{mean_percent} and {mean}");
    assert!((max_percent - max).abs() < 0.2 * max, "{max_percent} and {max}");
    assert_eq!(pollux_fit(&all).held_out[0].rows, 5);
}

#[test]
fn a_model_reads_back_and_predicts_its_closed_form() {
    let door = crate::door();
    let mut file = fitted(&door, &pollux_rows());
    let text = fs::read_to_string(door.path("MODEL.json")).unwrap();
    let again = door.exits(0, "fit --csv bert.csv --out again.json --json");
    let printed: ModelFile = rows::from_json(&again.out).unwrap();
    assert_eq!((&printed, fs::read_to_string(door.path("again.json")).unwrap()), (&file, text));
    assert_eq!((file.device_type.as_str(), file.seed, file.workloads.len()), ("Tesla T4", 1, 1));
    let source = &file.sources[0];
    assert_eq!((source.name.as_str(), source.layout, source.rows), ("bert.csv", Layout::Pollux, 10));

    // With the formula of Pollux alone, every setting that was not measured has its time.
    file.workloads[0].fits.retain(|fit| fit.formula == FormulaName::Pollux);
    file.write(&door.path("pollux.json")).unwrap();
    let of = values(pollux_fit(&file));
    for (job, devices, placement, batch) in [
        ("bert-base-squad@b96", "2", "2", 48),
        ("bert-base-squad@b96@dp12", "4+8", "84", 8),
        ("bert-base-squad@b9", "1", "1", 9),
    ] {
        let said = door.exits(0, &format!("predict --model pollux.json {job} --devices {devices} --json"));
        let row: PredictedStep = rows::from_json(&said.out).unwrap();
        let expected = closed_form(&of, placement, batch);
        assert!((row.step_ns as f64 / 1e9 / expected - 1.0).abs() < 1e-6, "{job}: {row:?} and {expected}");
        assert!(row.step_ns_ci_lo < row.step_ns && row.step_ns < row.step_ns_ci_hi, "{row:?}");
        let samples: f64 = job.split("@b").nth(1).unwrap().split('@').next().unwrap().parse().unwrap();
        assert!((row.samples_per_s * expected / samples - 1.0).abs() < 1e-6, "{row:?}");
        assert_eq!(row.formula, Some(FormulaName::Pollux));
        assert_ne!(row.basis, BasisWord::Measured);
    }
    // What was measured has the measured time.
    let said = door.exits(0, "predict --model pollux.json bert-base-squad@b64 --devices 4 --json");
    let row: PredictedStep = rows::from_json(&said.out).unwrap();
    let measured: f64 = pollux_rows()[5].split(',').nth(2).unwrap().parse().unwrap();
    assert_eq!((row.basis, row.formula), (BasisWord::Measured, None));
    assert!((row.step_ns as f64 / 1e9 / measured - 1.0).abs() < 1e-6, "{row:?}");
    let shown = door.exits(0, "predict --model pollux.json bert-base-squad@b64 --devices 4");
    assert!(shown.out.contains("bert-base-squad@b64@dp4") && shown.out.contains("measured"), "{}", shown.out);
}

/// Rows of a run, and the same rows from its export.
#[test]
fn rows_of_a_run_are_those_of_its_export() {
    let door = crate::door();
    let keeps = |line: &str| line.contains(",lstm,") && !line.contains("ga4") && !line.contains("ga8");
    part_of_run(&door, "run", "20261124-epyc-avx512/two-ranks", keeps);
    let said = door.exits(0, "fit run --out run.json --verbose");
    let of_run = ModelFile::read(&door.path("run.json")).unwrap();
    assert!(said.out.contains("launches differ from the others of their configuration by"), "{}", said.out);
    let [workload] = &of_run.workloads[..] else { panic!("{:?}", of_run.workloads) };
    let summaries: Vec<Summary> = door.summaries("run");
    let launches: Vec<Measurement> = door.measurements("run");
    assert_eq!((of_run.device_type.as_str(), workload.rows.len()), ("AMD EPYC", summaries.len()));
    for (row, summary) in workload.rows.iter().zip(&summaries) {
        assert_eq!((Some(row.plan), Some(row.step_ns)), (summary.plan, summary.step_ns_mean));
        let devices = summary.device.split(',').count() as u32;
        assert_eq!((row.placement.clone(), row.ranks_per_device, row.cpus), (vec![devices], 1, Some(1)));
    }
    // Two launches of each: each is compared with the other.
    let mut percents: Vec<f64> = Vec::new();
    for summary in &summaries {
        let of = launches.iter().filter(|launch| launch.job == summary.job);
        let [a, b] = of.map(|launch| launch.step_ns_mean.unwrap() as f64).collect::<Vec<_>>()[..] else {
            panic!("{}", summary.job)
        };
        percents.extend([100.0 * (a / b - 1.0).abs(), 100.0 * (b / a - 1.0).abs()]);
    }
    let LaunchesDiffer { launches: count, mean_percent, max_percent, .. } = workload.launches_differ.unwrap();
    assert_eq!(count as usize, launches.len());
    assert!((mean_percent - percents.iter().sum::<f64>() / percents.len() as f64).abs() < 1e-9);
    assert!((max_percent - percents.iter().copied().fold(0.0, f64::max)).abs() < 1e-9);

    let exported = |launch: &Measurement| ExportRow {
        program: Some(ProgramKind::Training),
        device_name: Some("AMD EPYC".into()),
        layers: workload.facts.layers,
        hidden: workload.facts.hidden,
        sequence: workload.facts.sequence,
        optimizer_state_per_parameter: workload.facts.state_per_parameter,
        ..ExportRow::of(launch)
    };
    rows::write(&door.path("export.csv"), &launches.iter().map(exported).collect::<Vec<_>>()).unwrap();
    door.exits(0, "fit --csv export.csv --out export.json");
    let of_export = ModelFile::read(&door.path("export.json")).unwrap();
    assert_eq!(of_export.sources[0].layout, Layout::Export);
    let [exported] = &of_export.workloads[..] else { panic!("{:?}", of_export.workloads) };
    assert_eq!(exported.facts, workload.facts);
    assert_eq!(exported.launches_differ, workload.launches_differ);
    let by_plan = |rows: &[FittedRow]| {
        let mut rows = rows.to_vec();
        rows.sort_by_key(|row| row.plan);
        rows
    };
    assert_eq!(exported.rows.len(), workload.rows.len());
    for (a, b) in by_plan(&exported.rows).iter().zip(&by_plan(&workload.rows)) {
        // The summary rounds the geometric mean in its own way.
        assert!(a.step_ns.abs_diff(b.step_ns) <= 1, "{a:?} {b:?}");
        assert_eq!((a.plan, a.peak_memory_bytes), (b.plan, b.peak_memory_bytes));
    }
}

#[test]
fn ranks_that_share_cores_evenly_are_rows_and_others_are_counted() {
    let door = crate::door();
    let keeps = |line: &str| line.contains(",gpt2-mini,") && line.contains("-pp2") && !line.contains("bf16");
    part_of_run(&door, "four", "20261124-epyc-avx512/four-ranks", keeps);
    let path = door.path("four/summary.csv");
    let mut summaries = door.summaries("four");
    summaries[0].device = "cpu:0,cpu:1,cpu:0,cpu:0".into();
    summaries[1].status = Status::Failed;
    rows::write(&path, &summaries).unwrap();
    let said = door.exits(0, "fit four --out MODEL.json");
    assert!(
        said.err.contains("1 rows are left out: their ranks do not share devices evenly"),
        "{}",
        said.err
    );
    assert!(said.err.contains("1 rows are left out: they are not ok"), "{}", said.err);
    let rows = &ModelFile::read(&door.path("MODEL.json")).unwrap().workloads[0].rows;
    assert_eq!(rows.len(), summaries.len() - 2);
    assert!(rows.iter().all(|row| (row.placement.clone(), row.ranks_per_device) == (vec![2], 2)));
    // Four ranks on two cores is what was measured, and three on one was not.
    let predict = "predict --model MODEL.json gpt2-mini@b8@dp2-pp2 --json --devices";
    let row: PredictedStep = rows::from_json(&door.exits(0, &format!("{predict} 2")).out).unwrap();
    assert_eq!((row.ranks_per_device, row.cpus), (2, Some(1)));
    let said = door.exits(2, &format!("{predict} 1"));
    assert!(said.err.contains("dp2-pp2 takes 4 devices, and --devices has 1"), "{}", said.err);
}

#[test]
fn what_cannot_be_fitted_is_told_by_name() {
    let door = crate::door();
    let pollux = |rows: &str| format!("{HEADER}{rows}");
    for (file, text, code, message) in [
        (
            "bert.csv",
            pollux("1,4,nan,0\n"),
            2,
            "bert.csv: line 2: column 'step_time': NaN is no length of time",
        ),
        (
            "bert.csv",
            pollux("1,4,1,0\n1,8,-2,0\n"),
            2,
            "bert.csv: line 3: column 'step_time': -2 is no length of time",
        ),
        ("bert.csv", pollux("1,4,1,0\n1,8,2"), 2, "bert.csv: line 3: "),
        ("bert.csv", pollux("1,4,0,0\n"), 4, "bert.csv has no step time of a job alone: their time is 0"),
        ("bert.csv", "a,b\n1,2\n".into(), 2, "bert.csv: line 1: is no table of step times"),
        (
            "bert.csv",
            pollux("1,4,1,0\n1,4,1.1,0\n1,4,1.2,0\n"),
            2,
            "bert.csv: workload 'bert-base-squad': its plan, batch and devices never change: all 3 rows are of dp1 at batch 4 with --devices 1",
        ),
        (
            "bert.csv",
            pollux("1,4,1,0\n1,8,1,0\n2,8,1,0\n"),
            2,
            "bert.csv: workload 'bert-base-squad': its time of a step never changes: 1 s in all 3 rows",
        ),
        (
            "bert.csv",
            pollux("1,4,1,0\n1,8,1.5,0\n"),
            2,
            "bert.csv: workload 'bert-base-squad': 2 configurations, and a fit needs 3 or more",
        ),
        (
            "mine.csv",
            "exec_plan,placement,iter_time\nga,1,1\n".into(),
            2,
            "mine.csv: what it is a table of is not known; name it with --workload NAME@bN",
        ),
    ] {
        door.write(file, &text);
        let said = door.exits(code, &format!("fit --csv {file} --out MODEL.json"));
        assert!(said.err.contains(message) && said.out.is_empty(), "{text}: {}", said.err);
        assert!(!door.path("MODEL.json").exists(), "{text}");
    }
    for (arguments, message) in [
        ("--csv mine.csv --workload brt-large", "did you mean 'bert-large'"),
        ("--csv mine.csv --workload bert-large@dp2", "has more than a workload and a batch; write NAME[@bN]"),
        ("--csv nothing.csv", "nothing.csv: No such file"),
        ("nowhere", "nowhere is no run"),
        ("--csv mine.csv --held-out 1", "'1' is no share"),
        ("", "required"),
    ] {
        let said = door.exits(2, &format!("fit {arguments} --out MODEL.json"));
        assert!(said.err.contains(message), "{arguments}: {}", said.err);
    }
}

#[test]
fn rows_of_several_types_of_device_need_a_choice() {
    let door = crate::door();
    part_of_run(&door, "run", "20261124-epyc-avx512/two-ranks", |line| {
        line.contains(",lstm,") && line.contains("-ga2")
    });
    let rows = pollux_rows().concat();
    door.write("bert.csv", &format!("{HEADER}{rows}"));
    let said = door.exits(2, "fit run --csv bert.csv --out MODEL.json");
    let message = "several types, and a model is of one: 'AMD EPYC', 'Tesla T4'; name one with --device-type";
    assert!(said.err.contains(message), "{}", said.err);
    let mut command = door.command("fit run --csv bert.csv --out MODEL.json --device-type");
    let output = command.arg("AMD EPYC").output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    // Published tables are taken to be of the named type.
    let file = ModelFile::read(&door.path("MODEL.json")).unwrap();
    let names: Vec<&str> = file.workloads.iter().map(|of| of.workload.as_str()).collect();
    assert_eq!((names, file.device_type.as_str()), (vec!["lstm", "bert-base-squad"], "AMD EPYC"));
    let said = door.exits(4, "fit run --out MODEL.json --device-type T4");
    assert!(said.err.contains("no row is of a device of type 'T4'; rows are of 'AMD EPYC'"), "{}", said.err);
}

#[test]
fn the_table_has_a_line_for_each_workload_and_verbose_the_rest() {
    let door = crate::door();
    part_of_run(&door, "run", "20261124-epyc-avx512/two-ranks", |line| {
        [",lstm,", ",gpt2-mini,"].iter().any(|name| line.contains(name)) && line.contains("zero1")
    });
    let said = door.exits(0, "fit run --out MODEL.json");
    let file = ModelFile::read(&door.path("MODEL.json")).unwrap();
    let lines: Vec<Vec<&str>> =
        said.out.lines().skip(1).map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(lines.len(), 3, "{}", said.out);
    for (workload, line) in file.workloads.iter().zip(&lines) {
        let first = &workload.fits[0];
        assert_eq!(first.rows as usize, workload.rows.len());
        let assumed = first.parameters.iter().filter(|of| of.origin == Origin::Assumed).count();
        let percents = [
            first.leave_one_out[0].mean_percent,
            workload.held_out[0].mean_percent,
            workload.held_out[0].covered_percent.unwrap(),
            workload.launches_differ.unwrap().mean_percent,
            workload.memory.as_ref().unwrap().leave_one_out[0].mean_percent,
        ]
        .map(|percent| format!("{percent:.1} %"));
        let expected = format!(
            "{} {} {} {} {} {} {} {assumed} of {} {}",
            workload.workload,
            percents[0],
            percents[1],
            percents[2],
            percents[3],
            workload.rows.len(),
            first.formula,
            first.parameters.len(),
            percents[4]
        );
        assert_eq!(line.join(" "), expected);
    }
    let rows: usize = file.workloads.iter().map(|of| of.rows.len()).sum();
    assert!(lines[2][0] == "all" && lines[2].contains(&rows.to_string().as_str()), "{}", said.out);

    let verbose = door.exits(0, "fit run --out MODEL.json --verbose").out;
    for workload in &file.workloads {
        for fit in &workload.fits {
            assert!(verbose.contains(&format!("{} ({} rows)", fit.formula, fit.rows)), "{verbose}");
            for parameter in &fit.parameters {
                assert!(verbose.contains(&format!("{} {}", fit.formula, parameter.name)), "{verbose}");
            }
        }
        assert!(verbose.contains(&format!("memory of a rank: {} peaks", workload.rows.len())), "{verbose}");
    }
    // All workloads have the same errors in both.
    let all: Vec<&str> =
        verbose.lines().rev().find(|line| line.starts_with(" all ")).unwrap().split_whitespace().collect();
    assert_eq!(all[3], lines[2][1], "{verbose}");
    let said = door.exits(2, "fit run --out MODEL.json --verbose --json");
    assert!(said.err.contains("cannot be used with"), "{}", said.err);
}
