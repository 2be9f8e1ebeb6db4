//! Slowdowns of jobs that share devices: fits to tables, and what simulations make of them.

mod kept_aside;
mod plain_pairs;

use std::{fmt::Write as _, path::Path};

use formats::{
    fitted::ModelFile,
    interference_fit::{
        InterferenceFit, LeftOutPart, PackingClass, SlowdownErrors, SlowdownEstimator, TreeNode,
    },
    rows::Outcome,
};
use model::{
    JobKey, PredictRequest,
    interference::{Interference, PredictedSlowdown},
};
use record::rows::{self};
use schema::plan::Plan;

const HEADER: &str = "run,repeat,job,workload,plan,global_batch,device,device_name,sharing,group,seat,step_ns_mean,\
                      device_util_percent_mean,peak_memory_bytes,status,unused\n";

/// A workload: its name, its step time in ms, how busy its device is alone, its memory in MiB, and what others bear beside it.
pub(crate) type Planted = (&'static str, f64, f64, u64, f64);

pub(crate) const WORKLOADS: [Planted; 8] = [
    ("a", 20.0, 1.0, 900, 1.3),
    ("b", 30.0, 1.0, 700, 1.2),
    ("c", 10.0, 0.9, 100, 1.0),
    ("d", 50.0, 0.8, 300, 1.1),
    ("e", 12.0, 0.5, 50, 1.0),
    ("f", 15.0, 0.3, 40, 0.95),
    ("g", 11.0, 0.2, 20, 0.9),
    ("h", 10.0, 0.1, 10, 0.9),
];

/// The slowdown of a job beside another one: that of two jobs that share a device whenever both are ready, times what the other does to a
/// job that it takes half of the device from, and less to others.
pub(crate) fn slowdown(job: &Planted, other: &Planted) -> f64 {
    let (mut ready, busy) = ([job.2, other.2], [job.2, other.2]);
    let mut slowdowns = [1.0; 2];
    for _ in 0..200 {
        let rates = [0, 1].map(|own| 1.0 - ready[1 - own] / 2.0);
        slowdowns = [0, 1].map(|own| 1.0 - busy[own] + busy[own] / rates[own]);
        ready = [0, 1].map(|own| busy[own] / rates[own] / slowdowns[own]);
    }
    slowdowns[0] * other.4.powf(2.0 * (1.0 - 1.0 / slowdowns[0]))
}

fn row(text: &mut String, repeat: u32, of: &Planted, group: Option<(&str, u32)>, sharing: &str, factor: f64) {
    let (name, step_ms, busy, memory, _) = of;
    let (group, seat) = group.map_or_else(Default::default, |(group, seat)| (group, seat.to_string()));
    let step_ns = (step_ms * 1e6 * factor).round();
    let (percent, bytes) = (100.0 * busy, memory << 20);
    writeln!(
        text,
        "planted,{repeat},{name}@b8@dp1,{name},dp1,8,cuda:0,GPU,{sharing},{group},{seat},{step_ns},{percent},{bytes},ok,x"
    )
    .expect("text grows");
}

/// A table of all pairs but those of `left_out`, in two blocks, under both modes. Blocks differ by 2 %.
fn table(left_out: &[[&str; 2]]) -> String {
    let mut text = HEADER.to_owned();
    for repeat in 0..2 {
        for of in &WORKLOADS {
            row(&mut text, repeat, of, None, "alone", 1.0);
        }
        let noise = [1.01, 0.99][repeat as usize];
        for (number, one) in WORKLOADS.iter().enumerate() {
            for other in &WORKLOADS[number..] {
                if left_out.contains(&[one.0, other.0]) {
                    continue;
                }
                let group = format!("{}+{}", one.0, other.0);
                for (seat, of, beside) in [(0, one, other), (1, other, one)] {
                    let factor = slowdown(of, beside) * noise;
                    row(&mut text, repeat, of, Some((&group, seat)), "time-slice", factor);
                    row(&mut text, repeat, of, Some((&group, seat)), "step-gate:250ms", 2.0 * noise);
                }
            }
        }
    }
    text
}

/// What a model says of the first of some jobs that share a device of type `GPU`.
fn slowdown_of(model: &Interference, jobs: &[JobKey<'_>], sharing: &str) -> Option<PredictedSlowdown> {
    let (job, co_runners) = jobs.split_first().expect("a job is asked for");
    let sharing = sharing.parse().expect("it is a mode");
    let (placement, device_type, cpus, neighbours) = (&[1][..], "GPU", None, &[][..]);
    let job = *job;
    model.slowdown(&PredictRequest {
        job,
        placement,
        device_type,
        cpus,
        co_runners,
        sharing: &sharing,
        neighbours,
    })
}

/// A workload at batch 8 on one device.
fn at_batch_8(workload: &str) -> JobKey<'_> {
    let plan = Some(Plan { dp: 1, ..Plan::default() });
    JobKey::new(workload, Some(8), plan)
}

pub(crate) fn fit(left_out: &[[&str; 2]]) -> (front_door::Door, InterferenceFit) {
    let door = crate::door();
    door.write("pairs.csv", &table(left_out));
    door.exits(0, "fit --interference pairs.csv --out I.json");
    let file = ModelFile::read(&door.path("I.json")).expect("it reads back");
    assert_eq!((file.device_type.as_str(), file.is_on_cores, file.workloads.len()), ("GPU", false, 0));
    (door, file.interference.expect("it was fitted"))
}

#[test]
fn slowdowns_are_those_of_blocks_and_errors_those_of_what_is_left_out() {
    let (_, found) = fit(&[]);
    let place =
        |name: &str| found.jobs.iter().position(|job| job.workload == name).expect("it is there") as u32;
    let [gate, slice] = &found.modes[..] else { panic!("two modes") };
    let [gate, slice] = if gate.sharing.takes_turns() { [gate, slice] } else { [slice, gate] };
    assert_eq!((gate.largest_group, slice.largest_group), (2, 2));
    for one in &WORKLOADS {
        for other in &WORKLOADS {
            let is_of = |row: &&formats::interference_fit::MeasuredSlowdown| {
                row.job == place(one.0) && row.co_runners == [place(other.0)]
            };
            let row = slice.measured.iter().find(is_of).expect("it was measured");
            // The geometric mean of two blocks, and t(0.975, 1) times the standard error of their logarithms.
            let expected = slowdown(one, other) * (1.01f64 * 0.99).sqrt();
            assert!((row.slowdown / expected - 1.0).abs() < 1e-6, "{row:?} and {expected}");
            let half = 12.706 * (1.01f64 / 0.99).ln() / 2.0;
            assert!((row.ci_hi.expect("two blocks") / row.slowdown - half.exp()).abs() < 1e-3, "{row:?}");
        }
    }
    let error = |mode: &formats::interference_fit::ModeFit, left_out, estimator| {
        let is_of = |row: &&formats::interference_fit::SlowdownErrors| {
            (row.left_out, row.estimator) == (left_out, estimator)
        };
        mode.errors.iter().find(is_of).expect("it has errors").clone()
    };
    let of = |estimator| error(slice, LeftOutPart::Workload, estimator);
    let [model, constant, sum] = SlowdownEstimator::ALL[..3] else { panic!("four estimators") };
    let [model, constant, sum] = [of(model), of(constant), of(sum)];
    // Each of 28 pairs has two slowdowns and is left out twice, and each of 8 pairs of a job with itself has one, once.
    assert_eq!([model.rows, constant.rows, sum.rows], [28 * 4 + 8; 3]);
    assert!(model.mean_percent < 0.7 * constant.mean_percent, "{model:?} {constant:?}");
    assert!(model.mean_percent < 0.7 * sum.mean_percent, "{model:?} {sum:?}");
    // A constant is the geometric mean of the others.
    let logs = |left_out: &str| {
        let others: Vec<&Planted> = WORKLOADS.iter().filter(|of| of.0 != left_out).collect();
        let pairs = others.iter().flat_map(|one| others.iter().map(move |other| slowdown(one, other).ln()));
        let logs: Vec<f64> = pairs.collect();
        logs.iter().sum::<f64>() / logs.len() as f64
    };
    let mut percents = Vec::new();
    for left_out in &WORKLOADS {
        let predicted = logs(left_out.0).exp();
        let add = |percents: &mut Vec<f64>, measured: f64| {
            percents.push(100.0 * (predicted / measured - 1.0).abs())
        };
        for other in &WORKLOADS {
            add(&mut percents, slowdown(left_out, other));
            if other.0 != left_out.0 {
                add(&mut percents, slowdown(other, left_out));
            }
        }
    }
    let expected = percents.iter().sum::<f64>() / percents.len() as f64;
    assert!((constant.mean_percent - expected).abs() < 1e-3, "{} and {expected}", constant.mean_percent);
    // Blocks differ by a factor of 1.01 / 0.99 one way and by its inverse the other way.
    let blocks = error(slice, LeftOutPart::Block, SlowdownEstimator::OtherBlocks);
    let expected = 50.0 * ((1.01f64 / 0.99 - 1.0) + (1.0 - 0.99 / 1.01));
    assert!((blocks.mean_percent - expected).abs() < 1e-4, "{} and {expected}", blocks.mean_percent);
    assert!(error(gate, LeftOutPart::Workload, SlowdownEstimator::Model).mean_percent < 0.5);
}

/// Starts every job on the first device as soon as it arrives.
const PACKS: &str = r#"
import json, sys
for turn in map(json.loads, sys.stdin):
    waiting = [job["job"] for job in turn["jobs"] if job["state"] == "waiting"]
    actions = [{"start": {"job": job, "devices": [0], "plan": "dp1"}} for job in waiting]
    print(json.dumps({"turn": turn["turn"], "actions": actions}), flush=True)
"#;

#[test]
fn a_simulation_knows_pairs_that_were_not_measured_and_no_others() {
    let (door, found) = fit(&[["f", "g"]]);
    let model = Interference::new(&found);
    let ask = |names: &[&'static str], sharing: &str| {
        let jobs: Vec<JobKey<'_>> = names.iter().map(|name| at_batch_8(name)).collect();
        slowdown_of(&model, &jobs, sharing)
    };
    let of_blocks = (1.01f64 * 0.99).sqrt();
    let planted = |one: usize, other: usize| slowdown(&WORKLOADS[one], &WORKLOADS[other]) * of_blocks;
    for (names, expected) in [(["f", "g"], planted(5, 6)), (["g", "f"], planted(6, 5))] {
        let found = ask(&names, "time-slice").expect("both were measured alone");
        let (lo, hi) = found.interval.expect("it has an interval");
        assert!(!found.is_measured && lo < expected && expected < hi, "{found:?} {expected}");
        assert!((found.factor / expected - 1.0).abs() < 0.03, "{found:?} {expected}");
    }
    assert!(ask(&["a", "b"], "time-slice").is_some_and(|found| found.is_measured));
    for (names, sharing) in [
        (&["f", "x"][..], "time-slice"),
        (&["x", "f"], "time-slice"),
        (&["f", "f", "f"], "time-slice"),
        (&["f", "g"], "step-gate"),
    ] {
        assert_eq!(ask(names, sharing), None, "{names:?} under {sharing}");
    }

    let sim = |jobs: [&str; 2]| {
        let line = |(number, job): (usize, &str)| format!("{number},0,{job}@b8@dp1,1000,15000000\n");
        let lines: String = jobs.into_iter().enumerate().map(line).collect();
        door.write("trace.csv", &format!("name,submit_s,job,steps,step_ns\n{lines}"));
        door.write("packs.py", PACKS);
        let options = "--cluster 1x1:GPU --switch-cost 0s --truth trace,I.json --model trace,I.json --out packed --policy";
        let mut command = door.command(&format!("sim trace.csv {options}"));
        let output = command.arg("exec:python3 packs.py").output().expect("it starts");
        let said = front_door::Said::of(&output);
        assert_eq!(output.status.code(), Some(0), "{}", said.err);
        said
    };
    sim(["f", "g"]);
    let outcomes: Vec<Outcome> =
        rows::read(&door.path("packed").join("outcomes.csv")).expect("outcomes are written");
    let ends: Vec<f64> = outcomes.iter().filter_map(|row| Some(row.end_ns? as f64 / 1e9)).collect();
    // Both run until the first has ended, and the rest of the other runs alone.
    let factors = [ask(&["f", "g"], "time-slice"), ask(&["g", "f"], "time-slice")]
        .map(|found| found.expect("asked before").factor);
    let first = 15.0 * factors[0].min(factors[1]);
    let last = first + 15.0 * (1.0 - first / 15.0 / factors[0].max(factors[1]));
    let (shortest, longest) = (ends[0].min(ends[1]), ends[0].max(ends[1]));
    assert!((shortest - first).abs() < 0.02 && (longest - last).abs() < 0.02, "{ends:?}: {first} {last}");
    std::fs::remove_dir_all(door.path("packed")).expect("it is there");
    let said = sim(["f", "x"]);
    let refused = "the time of a step of x under dp1 on 1 device beside f under time-slice is not known";
    assert!(said.err.contains(refused), "{}", said.err);
}

#[test]
fn rules_of_classes_are_printed_and_tell_light_jobs_from_heavy_ones() {
    let (door, found) = fit(&[]);
    let classes = found.classes.expect("jobs were measured in pairs");
    let is_split = |node: &&TreeNode| matches!(node, TreeNode::Split { .. });
    assert!(classes.nodes.iter().any(|node| is_split(&node)), "{:?}", classes.nodes);
    // The mean speed of each job beside all, which is that of its class.
    let mean = |job: &Planted| WORKLOADS.iter().map(|other| 1.0 / slowdown(job, other)).sum::<f64>() / 8.0;
    let class = |job: &Planted| match mean(job) {
        0.95.. => PackingClass::Tiny,
        0.85.. => PackingClass::Medium,
        _ => PackingClass::Jumbo,
    };
    let mut counts = [0; 3];
    for job in &WORKLOADS {
        counts[class(job).score() as usize] += 1;
    }
    let mut of_leaves = [0; 3];
    for node in &classes.nodes {
        if let TreeNode::Leaf { jobs, .. } = node {
            (0..3).for_each(|class| of_leaves[class] += jobs[class]);
        }
    }
    assert_eq!(of_leaves, counts);
    let good = WORKLOADS.iter().enumerate().map(|(number, one)| {
        WORKLOADS[number..]
            .iter()
            .filter(|other| slowdown(one, other).max(slowdown(other, one)) <= 1.0 / 0.85)
            .count()
    });
    assert_eq!(classes.errors.good as usize, good.sum::<usize>());
    assert_eq!((classes.errors.jobs, classes.errors.pairs), (8, 36));
    let shown = door.exits(0, "fit --interference pairs.csv --out I.json");
    assert!(
        shown.out.contains("if busy <= ") && shown.out.contains("jumbo (of jobs fitted to: "),
        "{}",
        shown.out
    );
}

#[test]
fn tables_without_jobs_together_or_of_several_devices_are_refused() {
    let door = crate::door();
    let alone: String =
        table(&[]).lines().filter(|line| !line.contains("+")).map(|line| format!("{line}\n")).collect();
    door.write("alone.csv", &alone);
    let said = door.exits(4, "fit --interference alone.csv --out I.json");
    assert!(said.err.contains("alone.csv has no job beside others on its devices"), "{}", said.err);
    let other = table(&[]).replace(",GPU,", ",TPU,").lines().skip(1).collect::<Vec<_>>().join("\n");
    door.write("both.csv", &format!("{}{other}\n", table(&[])));
    let said = door.exits(2, "fit --interference both.csv --out I.json");
    assert!(said.err.contains("of several types") && said.err.contains("'GPU', 'TPU'"), "{}", said.err);
    door.exits(0, "fit --interference both.csv --device-type TPU --out I.json");
    door.write("timeless.csv", &table(&[]).replace("step_ns_mean", "step_time"));
    let said = door.exits(4, "fit --interference timeless.csv --out I.json");
    assert!(said.err.contains("they have no time of a step"), "{}", said.err);
    door.write("wrong.csv", &table(&[]).replacen(",ok,", ",fine,", 1));
    let said = door.exits(2, "fit --interference wrong.csv --out I.json");
    assert!(said.err.contains("wrong.csv: line 2: 'fine' is not one of"), "{}", said.err);
    let few: String = table(&[])
        .lines()
        .filter(|line| !line.contains('+') || line.contains(",a+a,"))
        .map(|line| format!("{line}\n"))
        .collect();
    door.write("few.csv", &few);
    let said = door.exits(4, "fit --interference few.csv --out few.json");
    assert!(said.err.contains("too few slowdowns") && !door.path("few.json").exists(), "{}", said.err);
    let said = door.exits(2, "fit --interference few.csv --within-rows --out few.json");
    assert!(said.err.contains("--within-rows"), "{}", said.err);
    // A visit with a member that failed is left out as a whole.
    let failed = table(&[]).replacen("a+b,1,", "a+b,1,failed-", 1);
    let (head, tail) = failed.split_once("failed-").expect("it has the pair");
    let line_end = tail.find(",ok,").expect("it has a status");
    door.write("failed.csv", &format!("{head}{},failed,{}", &tail[..line_end], &tail[line_end + 4..]));
    let said = door.exits(0, "fit --interference failed.csv --out I.json");
    assert!(said.err.contains("2 rows are left out: a member of their group failed"), "{}", said.err);
}

/// The bars of predictions of workloads that were left out, on the record of all pairs of twelve workloads under two modes.
#[test]
fn workloads_of_the_record_that_are_left_out_are_predicted_better_than_by_simple_rules() {
    if std::env::var_os("TANDEM_SLOW").is_none_or(|value| value != "1") {
        return schema::skips::skipped("slow", "it takes a minute without optimisation; set TANDEM_SLOW=1");
    }
    let record = Path::new(env!("CARGO_MANIFEST_DIR")).join("../reports/record/20261125-epyc-interference");
    let door = crate::door();
    let [pairs, triples] = ["pairs", "triples"].map(|name| record.join(name).display().to_string());
    door.exits(0, &format!("fit --interference {pairs} {triples} --out I.json"));
    let found =
        ModelFile::read(&door.path("I.json")).expect("it reads back").interference.expect("it was fitted");
    assert_eq!((found.jobs.len(), found.modes.len()), (12, 2));
    let mean = |estimator, value: fn(&SlowdownErrors) -> f64| {
        let errors = found.modes.iter().flat_map(|mode| &mode.errors);
        let is_of = |row: &&SlowdownErrors| {
            (row.left_out, row.estimator, row.group_size) == (LeftOutPart::Workload, estimator, None)
        };
        let rows: Vec<&SlowdownErrors> = errors.filter(is_of).collect();
        let count: f64 = rows.iter().map(|row| f64::from(row.rows)).sum();
        rows.iter().map(|row| f64::from(row.rows) * value(row)).sum::<f64>() / count
    };
    let error = |estimator| mean(estimator, |row| row.mean_percent);
    let model = error(SlowdownEstimator::Model);
    assert!(model < 0.7 * error(SlowdownEstimator::Constant), "{model}");
    assert!(model < 0.7 * error(SlowdownEstimator::Utilisations), "{model}");
    let covered = mean(SlowdownEstimator::Model, |row| row.covered_percent.expect("a model has intervals"));
    assert!((90.0..98.0).contains(&covered), "{covered}");
}
