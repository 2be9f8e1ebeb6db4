//! Fits to tables of pairs of any origin, with and without what the jobs use alone.

use std::{fmt::Write as _, io::Write as _, process::Stdio};

use formats::{
    fitted::{Layout, ModelFile},
    interference_fit::{InterferenceFit, LeftOutPart, MeasuredSlowdown, SlowdownEstimator},
};
use model::{JobKey, interference::Interference};

use super::{WORKLOADS, at_batch_8, slowdown, slowdown_of, table};

const TIMES: &str = "mode,job_a,job_b,alone_a,alone_b,together_a,together_b";
const USE: &str =
    ",device_util_percent_a,device_util_percent_b,peak_memory_bytes_a,peak_memory_bytes_b,device_type\n";

/// The pairs of [`table`] with a line for each block of each mode.
fn plain() -> String {
    let mut text = format!("{TIMES}{USE}");
    for noise in [1.01, 0.99] {
        for (number, one) in WORKLOADS.iter().enumerate() {
            for other in &WORKLOADS[number..] {
                let factors = [slowdown(one, other), slowdown(other, one)];
                for (mode, [factor_a, factor_b]) in [("time-slice", factors), ("step-gate:250ms", [2.0; 2])] {
                    let alone = [one, other].map(|of| of.1 / 1e3);
                    let together = [alone[0] * factor_a * noise, alone[1] * factor_b * noise];
                    let [(a, _, busy_a, memory_a, _), (b, _, busy_b, memory_b, _)] = [one, other];
                    writeln!(
                        text,
                        "{mode},{a}@b8,{b}@b8@dp1,{},{},{:.9},{:.9},{},{},{},{},GPU",
                        alone[0],
                        alone[1],
                        together[0],
                        together[1],
                        100.0 * busy_a,
                        100.0 * busy_b,
                        memory_a << 20,
                        memory_b << 20
                    )
                    .expect("text grows");
                }
            }
        }
    }
    text
}

fn read(door: &front_door::Door, name: &str) -> (ModelFile, InterferenceFit) {
    let file = ModelFile::read(&door.path(name)).expect("it reads back");
    let fit = file.interference.clone().expect("it was fitted");
    (file, fit)
}

#[test]
fn a_table_of_pairs_is_fitted_as_an_export_of_the_same_pairs() {
    let door = crate::door();
    door.write("export.csv", &table(&[]));
    door.exits(0, "fit --interference export.csv --out E.json");
    door.write("plain.csv", &plain());
    door.exits(0, "fit --interference plain.csv --out P.json");
    let ((_, of_export), (file, of_plain)) = (read(&door, "E.json"), read(&door, "P.json"));
    assert_eq!((file.device_type.as_str(), file.is_on_cores), ("GPU", false));
    let [source] = &of_plain.sources[..] else { panic!("{:?}", of_plain.sources) };
    assert_eq!((source.layout, source.rows), (Layout::Pairs, 2 * 2 * 36));
    assert_eq!((&of_plain.jobs, &of_plain.classes), (&of_export.jobs, &of_export.classes));
    let is_near = |one: f64, other: f64| (one / other - 1.0).abs() < 1e-5;
    for (plain, export) in of_plain.modes.iter().zip(&of_export.modes) {
        assert_eq!((&plain.sharing, plain.measured.len()), (&export.sharing, export.measured.len()));
        for (plain, export) in plain.measured.iter().zip(&export.measured) {
            assert_eq!((plain.job, &plain.co_runners), (export.job, &export.co_runners));
            assert!(is_near(plain.slowdown, export.slowdown), "{plain:?} {export:?}");
        }
        assert_eq!(plain.errors.len(), export.errors.len());
        for (plain, export) in plain.errors.iter().zip(&export.errors) {
            assert_eq!(
                (plain.left_out, plain.estimator, plain.rows),
                (export.left_out, export.estimator, export.rows)
            );
            assert!((plain.mean_percent - export.mean_percent).abs() < 1e-3, "{plain:?} {export:?}");
        }
    }
    // Launches and pairs are fitted together, and what launches tell of a job alone is kept.
    door.exits(0, "fit --interference export.csv plain.csv --out B.json");
    let (_, both) = read(&door, "B.json");
    assert_eq!(both.jobs, of_export.jobs);
    for (both, export) in both.modes.iter().zip(&of_export.modes) {
        for (both, export) in both.measured.iter().zip(&export.measured) {
            assert!(is_near(both.slowdown, export.slowdown), "{both:?} {export:?}");
            // Twice as many blocks: t(0.975, 3) / sqrt(3) times the deviation in place of t(0.975, 1).
            let [narrow, wide] = [both, export].map(|row| (row.ci_hi.expect("blocks") / row.slowdown).ln());
            assert!((narrow / wide - 3.182446 / 3f64.sqrt() / 12.706205).abs() < 1e-4, "{narrow} {wide}");
        }
    }
}

/// What families bear and do, and what each of their jobs adds.
const FAMILIES: [(&str, f64, f64); 7] = [
    ("conv", 0.50, 0.10),
    ("lm", 0.35, 0.40),
    ("gan", 0.20, 0.05),
    ("rl", 0.05, 0.02),
    ("vit", 0.45, 0.30),
    ("rec", 0.10, 0.25),
    ("gnn", 0.15, 0.15),
];

/// A job of a family: its name, and what it bears and does.
fn variants() -> Vec<(String, &'static str, f64, f64)> {
    let of_family = |(name, bears, does): &(&'static str, f64, f64)| {
        [16, 32].map(|batch| {
            let more = if batch == 32 { 0.03 } else { -0.03 };
            (format!("{name}-{batch}"), *name, bears + more, does + more)
        })
    };
    FAMILIES.iter().flat_map(of_family).collect()
}

/// As a shell passes `<(zcat pairs.csv.gz)`.
#[test]
fn a_table_is_read_from_a_pipe() {
    let door = crate::door();
    for (name, text) in [("export", table(&[])), ("plain", plain())] {
        door.write("t.csv", &text);
        door.exits(0, "fit --interference t.csv --out of-file.json");
        let mut command = door.command("fit --interference /dev/stdin --out of-pipe.json");
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("it starts");
        let mut stdin = child.stdin.take().expect("it is piped");
        stdin.write_all(text.as_bytes()).expect("the command reads all");
        drop(stdin);
        assert!(child.wait().expect("it ends").success(), "{name}");
        let [of_file, of_pipe] = ["of-file.json", "of-pipe.json"].map(|model| read(&door, model).1);
        assert_eq!((&of_pipe.modes, &of_pipe.jobs), (&of_file.modes, &of_file.jobs), "{name}");
        assert_eq!(of_pipe.sources[0].blake3, of_file.sources[0].blake3, "{name}");
    }
}

#[test]
fn slowdowns_are_learned_from_speeds_alone() {
    let door = crate::door();
    let jobs = variants();
    let log = |victim: usize, aggressor: usize| jobs[victim].2 + jobs[aggressor].3;
    let mut text = "mode,job_a,job_b,family_a,family_b,speed_a,speed_b\n".to_owned();
    let kept_aside = [(0, 9), (3, 12)];
    for one in 0..jobs.len() {
        for other in one..jobs.len() {
            if kept_aside.contains(&(one, other)) {
                continue;
            }
            let [(a, family_a, ..), (b, family_b, ..)] = [&jobs[one], &jobs[other]];
            let speeds = [(-log(one, other)).exp(), (-log(other, one)).exp()];
            writeln!(text, "time-slice,{a},{b},{family_a},{family_b},{},{}", speeds[0], speeds[1])
                .expect("text grows");
        }
    }
    door.write("speeds.csv", &text);
    let said = door.exits(2, "fit --interference speeds.csv --out S.json");
    let unknown = "speeds.csv: the type of the device of 'conv-16' beside 'conv-16' is not known; add the column device_type, or name it with --device-type";
    assert!(said.err.contains(unknown), "{}", said.err);
    let shown = door.exits(0, "fit --interference speeds.csv --device-type GPU --out S.json");
    assert!(!shown.out.contains("utilisations"), "{}", shown.out);
    let (file, fit) = read(&door, "S.json");
    assert_eq!((file.device_type.as_str(), fit.jobs.len(), fit.modes.len()), ("GPU", 14, 1));
    let mode = &fit.modes[0];
    assert!(
        !mode.begins_at_fair_share && fit.jobs.iter().all(|job| job.busy.is_none() && job.step_ns.is_none())
    );
    let error = |left_out, estimator| {
        let rows = mode.errors.iter().find(|row| (row.left_out, row.estimator) == (left_out, estimator));
        rows.expect("it has errors").clone()
    };
    for (left_out, most) in [(LeftOutPart::Group, 1.0), (LeftOutPart::Workload, 20.0)] {
        let [model, constant] =
            [SlowdownEstimator::Model, SlowdownEstimator::Constant].map(|of| error(left_out, of));
        assert!(
            model.mean_percent < most && model.mean_percent < constant.mean_percent,
            "{model:?} {constant:?}"
        );
    }
    // Families are left out together: a line of two families counts twice for each of its jobs.
    let slowdowns: u32 = mode.measured.len() as u32;
    let within = |row: &&MeasuredSlowdown| row.job / 2 == row.co_runners[0] / 2;
    let of_one = mode.measured.iter().filter(within).count() as u32;
    assert_eq!(error(LeftOutPart::Workload, SlowdownEstimator::Model).rows, 2 * slowdowns - of_one);

    let model = Interference::new(&fit);
    let program = |workload| JobKey::new(workload, None, None);
    let ask = |job, beside| slowdown_of(&model, &[program(job), program(beside)], "time-slice");
    for (one, other) in kept_aside.into_iter().flat_map(|(one, other)| [(one, other), (other, one)]) {
        let expected = log(one, other).exp();
        let predicted = ask(&jobs[one].0, &jobs[other].0).expect("both were measured beside others");
        let (lo, hi) = predicted.interval.expect("it has an interval");
        assert!(!predicted.is_measured && (lo..=hi).contains(&expected), "{predicted:?} {expected}");
        assert!((predicted.factor / expected - 1.0).abs() < 0.01, "{predicted:?} {expected}");
    }
    assert_eq!(ask("conv-16", "unknown"), None);
}

#[test]
fn slowdowns_without_the_utilisation_of_a_member_are_left_out_where_most_have_it() {
    let door = crate::door();
    // A job is beside all others, so that the lines of three of eight jobs are most lines.
    let without = |names: &[&str]| {
        let blank = |line: &str| {
            let mut cells: Vec<&str> = line.split(',').collect();
            for (job, utilisation) in [(1, 7), (2, 8)] {
                if names.iter().any(|name| cells[job].starts_with(&format!("{name}@"))) {
                    cells[utilisation] = "";
                }
            }
            format!("{}\n", cells.join(","))
        };
        plain().lines().map(blank).collect::<String>()
    };
    door.write("one.csv", &without(&["h"]));
    let said = door.exits(0, "fit --interference one.csv --out O.json");
    let why = "30 rows are left out: the utilisation of a member's device was not measured, and most others have it";
    assert!(said.err.contains(why), "{}", said.err);
    let (_, fit) = read(&door, "O.json");
    let counts: Vec<(usize, bool)> =
        fit.modes.iter().map(|of| (of.measured.len(), of.begins_at_fair_share)).collect();
    assert_eq!(counts, [(49, true); 2]);

    door.write("most.csv", &without(&["f", "g", "h"]));
    door.exits(0, "fit --interference most.csv --out M.json");
    let (_, fit) = read(&door, "M.json");
    // The fair share of turns of equal times is known without the utilisation.
    let begins = |turns: bool| {
        let mode = fit.modes.iter().find(|of| of.sharing.takes_turns() == turns).expect("both were fitted");
        (mode.measured.len(), mode.begins_at_fair_share)
    };
    assert_eq!((begins(false), begins(true)), ((64, false), (64, true)));
}

#[test]
fn tables_of_pairs_that_cannot_be_are_refused() {
    let door = crate::door();
    door.write(
        "line.csv",
        &plain().replacen("time-slice,a@b8,b@b8@dp1,0.02", "time-slice,a@b8,b@b8@dp1,0", 1),
    );
    let said = door.exits(2, "fit --interference line.csv --out L.json");
    assert!(
        said.err.contains("line.csv: line 4: column 'alone_a': 0 is not from 0.000000001 to 1000000000"),
        "{}",
        said.err
    );
    door.write("types.csv", &plain().replacen(",GPU\n", ",TPU\n", 7));
    let said = door.exits(2, "fit --interference types.csv --out T.json");
    assert!(said.err.contains("of several types") && said.err.contains("'GPU', 'TPU'"), "{}", said.err);
    let said = door.exits(0, "fit --interference types.csv --device-type GPU --out T.json");
    assert!(said.err.contains("7 rows are left out: they are not of a device of type 'GPU'"), "{}", said.err);
    assert!(!door.path("L.json").exists());
    door.write("neither.csv", "first,second\n1,2\n");
    let said = door.exits(2, "fit --interference neither.csv --out N.json");
    assert!(
        said.err.contains("no table of pairs: mode,job_a,job_b") && said.err.contains("neither.csv"),
        "{}",
        said.err
    );
}

/// The plan and the batch by which a policy asks for a job that a table names with its batch alone.
#[test]
fn a_job_with_a_batch_and_no_plan_is_of_one_device() {
    let door = crate::door();
    door.write("plain.csv", &plain());
    door.exits(0, "fit --interference plain.csv --out P.json");
    let (_, fit) = read(&door, "P.json");
    let model = Interference::new(&fit);
    let measured = slowdown_of(&model, &[at_batch_8("a"), at_batch_8("b")], "time-slice");
    let expected = slowdown(&WORKLOADS[0], &WORKLOADS[1]) * (1.01f64 * 0.99).sqrt();
    assert!(
        measured.is_some_and(|of| of.is_measured && (of.factor / expected - 1.0).abs() < 1e-6),
        "{measured:?}"
    );
}
