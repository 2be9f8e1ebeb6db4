//! `profile export`: runs joined into one table for training models.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
    process::{Command, Stdio},
};

use front_door::Door;
use record::{
    manifest::{Manifest, Scheduling},
    placement::Placement,
    rows::{
        self, ColumnRow, Definition, ErrorKind, ExportRow, ExportStep, Exported, ProgramKind, Split, Status,
        dictionary,
    },
    run_dir::RunDir,
    suspension::Suspension,
};
use schema::sharing::Sharing;

/// Two runs: `one` of two batches of which a plan cannot run, and `two` of the same workload and one that fails.
fn two_runs() -> Door {
    let door = crate::door();
    door.catalog("mine.toml", "one-ms", "step_us = 1000, busy_percent = 0, memory_bytes = 3000000");
    door.catalog(
        "broken.toml",
        "broken",
        "step_us = 1000, busy_percent = 0, fault = { out-of-memory = { after_steps = 3 } }",
    );
    // At least half of the steps are steady, and an interval needs 30.
    let common = "--device cpu:0 --steps 60 --repeats 2 --catalog mine.toml --catalog broken.toml";
    door.exits(1, &format!("single one-ms --batch 8,16 --plan dp1,dp2-zero1 {common} --out one"));
    door.exits(1, &format!("single one-ms broken {common} --out two"));
    door
}

fn table<T: rows::Row>(door: &Door, name: &str) -> Vec<T> {
    rows::read(&door.path(name)).expect("the table reads back")
}

#[test]
fn two_runs_become_tables_of_launches_and_of_steps() {
    let door = two_runs();
    all_launches_are_in_one_table(&door);
    every_step_is_a_row_of_the_long_table(&door);
    if python_has("pandas") {
        pandas_reads(&door.path("all.csv"));
    }
}

fn all_launches_are_in_one_table(door: &Door) {
    let said = door.exits(0, "export one two --out all.csv");
    assert_eq!(said.out, "", "stdout is for data that was asked for");
    assert!(said.err.contains("export: all.csv: 10 rows of 2 runs, 2 failed, 2 unsupported"), "{}", said.err);
    assert_eq!(table::<ColumnRow>(door, "all.csv.columns.csv"), dictionary::<ExportRow>());
    let exported: Exported =
        rows::from_json(&door.exits(0, "export one two --out all.csv --json").out).unwrap();
    let expected = Exported {
        table: "all.csv".into(),
        columns: "all.csv.columns.csv".into(),
        runs: 2,
        rows: 10,
        failed: Some(2),
        unsupported: Some(2),
        left_out: Vec::new(),
    };
    assert_eq!(exported, expected);

    let exported: Vec<ExportRow> = table(door, "all.csv");
    let measured: Vec<_> = ["one", "two"].iter().flat_map(|run| door.measurements(run)).collect();
    let copied: Vec<ExportRow> = measured.iter().map(ExportRow::of).collect();
    assert_eq!(exported.len(), copied.len());
    for (row, copy) in exported.iter().zip(&copied) {
        assert_eq!((&row.run, &row.launch, &row.job), (&copy.run, &copy.launch, &copy.job));
        assert_eq!(
            (row.step_ns_median, row.step_ns_median_ci_hi),
            (copy.step_ns_median, copy.step_ns_median_ci_hi)
        );
        let words = copy.err_detail.as_ref().filter(|_| row.status == Status::Unsupported);
        assert_eq!((row.status, row.err, row.err_detail.as_ref()), (copy.status, copy.err, words));
        assert_eq!((row.program, row.group_size, row.ranks), (Some(ProgramKind::Training), 1, Some(1)));
        assert_eq!((row.sharing_mode.as_str(), &row.co_runners, row.slowdown), ("alone", &None, None));
        assert!(row.machine_cores.is_some() && row.device_capacity_bytes.is_some() && row.boot_id.is_some());
    }
    door.exits(0, "export one two --out told.csv --with-output");
    let told: Vec<ExportRow> = table(door, "told.csv");
    let words = |rows: &[ExportRow]| rows.iter().map(|row| row.err_detail.clone()).collect::<Vec<_>>();
    assert_eq!(words(&told), words(&copied), "a program's last words are exported where they are asked for");
    let of = |status| exported.iter().filter(move |row| row.status == status);
    for refused in of(Status::Unsupported) {
        assert_eq!((refused.zero, refused.dp, refused.gc), (Some(1), Some(2), Some(false)));
        assert_eq!((refused.launch.as_str(), refused.step_ns_median), ("", None));
        // Another launch of the run has the definition in its spec.
        assert_eq!(
            (refused.definition, refused.family.as_deref()),
            (Some(Definition::Launch), Some("synthetic"))
        );
    }
    assert!(
        of(Status::Failed).all(|row| row.err == Some(ErrorKind::OutOfMemory) && row.workload == "broken")
    );
    assert_eq!(of(Status::Failed).count(), 2);
    for row in of(Status::Ok) {
        assert!(row.half_width_percent.is_some() && row.optimizer.as_deref() == Some("sgd"), "{row:?}");
        assert_eq!((row.layers, row.flops_per_sample, row.activation_bytes_per_sample), (None, None, None));
    }

    let key = |workload: &str| {
        let mut keys: Vec<u32> =
            exported.iter().filter(|row| row.workload == workload).map(|row| row.split_key).collect();
        keys.dedup();
        keys
    };
    let (ours, broken) = (key("one-ms"), key("broken"));
    assert!(ours.len() == 1 && broken.len() == 1 && ours != broken, "{ours:?} {broken:?}");
    let tested = exported.iter().filter(|row| row.split == Split::Test);
    let keys: BTreeSet<u32> = tested.map(|row| row.split_key).collect();
    assert_eq!(keys.len(), 1, "of two groups one is tested on");
    assert!(of(Status::Failed).chain(of(Status::Unsupported)).all(|row| !row.valid));
}

fn every_step_is_a_row_of_the_long_table(door: &Door) {
    door.exits(0, "export two --steps --out steps.csv");
    assert_eq!(table::<ColumnRow>(door, "steps.csv.columns.csv"), dictionary::<ExportStep>());
    let steps: Vec<ExportStep> = table(door, "steps.csv");
    door.exits(0, "export two --out rows.csv");
    let split: BTreeMap<String, Split> =
        table::<ExportRow>(door, "rows.csv").into_iter().map(|row| (row.launch, row.split)).collect();
    assert!(steps.iter().all(|step| step.split == split[&step.launch]), "a word for both tables");
    assert!([Split::Train, Split::Test].iter().all(|side| steps.iter().any(|step| step.split == *side)));
    for row in door.measurements("two") {
        let own: Vec<&ExportStep> = steps.iter().filter(|step| step.launch == row.launch).collect();
        assert_eq!(own.len() as u64, row.steps_total, "{}", row.launch);
        assert!(
            own.iter().enumerate().all(|(i, step)| step.index == i as u64 && step.step_launch == row.launch)
        );
        let counted = own.iter().filter(|step| step.in_window == Some(true)).count() as u64;
        assert_eq!(counted, row.steps_used, "{}", row.launch);
        // The steps of a failed job do not count.
        assert!(row.status == Status::Ok || own.iter().all(|step| step.in_window.is_none()));
    }
}

/// Counted steps of a group are in the common window of its members.
#[test]
fn a_seat_has_the_steps_of_all_of_its_launches_and_its_row_is_made_from_some() {
    let door = crate::door();
    door.catalog("mine.toml", "two-ms", "step_us = 2000, busy_percent = 10");
    let common = "--catalog mine.toml --device cpu:0 --repeats 1 --seconds 0.5";
    door.exits(
        0,
        &format!("colocate two-ms synthetic-sleep --sharing time-slice,step-gate:4 {common} --out pair"),
    );
    door.exits(0, "export pair --steps --out steps.csv");
    door.exits(0, "export pair --out rows.csv");
    let (steps, rows): (Vec<ExportStep>, Vec<ExportRow>) =
        (table(&door, "steps.csv"), table(&door, "rows.csv"));
    let measured = door.measurements("pair");
    for row in &rows {
        let own = steps.iter().filter(|step| step.launch == row.launch);
        let (all, counted): (Vec<_>, Vec<_>) =
            (own.clone().collect(), own.filter(|step| step.in_window == Some(true)).collect());
        assert_eq!(
            (all.len() as u64, counted.len() as u64),
            (row.steps_total, row.steps_used),
            "{}",
            row.launch
        );
        assert!(all.iter().all(|step| (step.split_key, step.seat) == (row.split_key, row.seat)));
    }
    let seats: Vec<&ExportRow> = rows.iter().filter(|row| row.group.is_some()).collect();
    let keys: Vec<u32> = seats.iter().map(|row| row.split_key).collect();
    assert!(keys.len() == 4 && keys.iter().all(|key| *key == keys[0]), "both modes, both seats: {keys:?}");
    for row in seats {
        assert_eq!((row.group_size, row.co_runners_on_device), (2, Some(1)));
        let (slowdown, in_block) =
            (row.slowdown.expect("one block"), row.slowdown_in_block.expect("it has both"));
        assert!(
            (slowdown / in_block - 1.0).abs() < 1e-3,
            "of a single block they are the same: {slowdown} {in_block}"
        );
        assert!(row.step_ns_alone.is_some());
        // A window may be shorter than the device's sampling period.
        let alone = measured.iter().filter(|other| other.group.is_none() && other.job == row.job);
        let used: Vec<f64> = alone.filter_map(|other| other.device_util_percent_mean).collect();
        let mean = (!used.is_empty()).then(|| used.iter().sum::<f64>() / used.len() as f64);
        let is_mean = match (row.alone_device_util_percent, mean) {
            (Some(percent), Some(mean)) => (percent - mean).abs() < 0.01,
            (percent, mean) => percent.is_none() && mean.is_none(),
        };
        assert!(is_mean, "{mean:?} {row:?}");
    }
}

/// Files of a version without groups: without seats, groups and regular expressions.
#[test]
fn a_run_of_an_older_version_is_exported() {
    let door = crate::door();
    door.exits(0, "single synthetic-sleep --device cpu:0 --steps 10 --repeats 1 --out old");
    let path = door.run("old").spec_path("0001-synthetic-sleep");
    let text = std::fs::read_to_string(&path).expect("a launch has a spec");
    let older: String = text
        .lines()
        .filter(|line| !line.contains("\"seat\"") && !line.contains("\"steps_regex\""))
        .map(|line| format!("{line}\n"))
        .collect();
    assert_ne!(older, text);
    std::fs::write(&path, older).expect("the folder is writable");
    let manifest = std::fs::read_to_string(door.run("old").manifest_path()).expect("there is one");
    assert!(!manifest.contains("[[groups]]"), "a run of jobs alone is as it was");
    door.exits(0, "export old --out old.csv");
    let [row] = &table::<ExportRow>(&door, "old.csv")[..] else { panic!("one launch") };
    assert_eq!((row.family.as_deref(), row.status), (Some("synthetic"), Status::Ok));
}

/// Sorted as the shell expands `runs/*`.
#[test]
fn a_run_of_the_scheduler_is_left_out_and_those_beside_it_are_exported() {
    let door = crate::door();
    door.exits(0, "single synthetic-sleep --device cpu:0 --steps 5 --repeats 1 --out measured");
    let scheduling = Scheduling {
        policy: "fifo".into(),
        lacking: Vec::new(),
        placement: Placement::Spread,
        sharing: Sharing::TIME_SLICE,
        suspension: Suspension::default(),
        tables: 0,
        history: false,
        model: None,
        belief_error: None,
        spread_slowdown: None,
        switch_cost_s: None,
        checkpoint_every_s: None,
        progress_every_s: None,
        jobs_per_device: 2,
        retries: 2,
        counts_cpus: true,
        host_cores: None,
        switch_cost_from: Vec::new(),
        resume_cost_s: None,
        start_cost_s: None,
        fast_forward: None,
        simulated: None,
        fitted: Vec::new(),
        fitted_model: Vec::new(),
        any_device: false,
        refit: false,
    };
    let manifest = door.run("measured").manifest().expect("it was begun");
    let planned = RunDir::create(&door.path("planned")).expect("the folder is writable");
    planned
        .write_manifest(&Manifest { scheduling: Some(scheduling), ..manifest })
        .expect("the folder is writable");

    let said = door.exits(0, "export planned measured --out t.csv");
    assert!(said.err.contains("left out: planned is a run of the scheduler"), "{}", said.err);
    assert!(said.err.contains("t.csv: 1 rows of 1 run,"), "{}", said.err);
    let [row] = &table::<ExportRow>(&door, "t.csv")[..] else { panic!("one launch") };
    assert_eq!(row.run, "measured");

    let said = door.exits(4, "export planned --out none.csv");
    assert!(said.err.contains("nothing to export: name a run of `profile`"), "{}", said.err);
    assert!(!door.path("none.csv").exists());
}

/// As the shell names it for `runs/*`, where `sched sim --out` has left a folder of runs.
#[test]
fn a_folder_that_is_no_run_is_left_out_of_several_and_refused_alone() {
    let door = crate::door();
    door.exits(0, "single synthetic-sleep --device cpu:0 --steps 5 --repeats 1 --out measured");
    std::fs::create_dir(door.path("empty")).expect("the folder is writable");
    let said = door.exits(0, "export empty measured --out t.csv");
    assert!(said.err.contains("left out: empty is no run: it has no manifest.toml"), "{}", said.err);
    assert!(said.err.contains("t.csv: 1 rows of 1 run,"), "{}", said.err);
    for (code, arguments, message) in [
        (2, "export empty --out none.csv", "empty is no run"),
        (2, "export measured nowhere --out none.csv", "nowhere is no run"),
        (4, "export empty empty --out none.csv", "nothing to export: name a run of `profile`"),
    ] {
        let said = door.exits(code, arguments);
        assert!(said.err.contains(message), "profile {arguments}: {}", said.err);
    }
    assert!(!door.path("none.csv").exists());
}

#[test]
fn slips_are_said_before_anything_is_written() {
    let door = crate::door();
    door.exits(0, "single synthetic-sleep --device cpu:0 --steps 5 --repeats 1 --out a/r");
    door.exits(0, "single synthetic-sleep --device cpu:0 --steps 5 --repeats 1 --out b/r");
    std::fs::create_dir(door.path("record")).expect("the folder is writable");
    std::fs::copy(door.run("a/r").manifest_path(), door.path("record/manifest.toml")).expect("it is copied");
    for (code, arguments, message) in [
        (2, "export --out t.csv", "<RUN>"),
        (2, "export a/r", "--out <FILE>"),
        (2, "export a/r --out t.xlsx", "--out t.xlsx: name a file that ends in .csv or .parquet"),
        (2, "export a/r --out none/t.csv", "there is no folder none"),
        (2, "export nowhere --out t.csv", "nowhere is no run"),
        (2, "export a/r b/r --out t.csv", "two of the runs are named 'r'"),
        (2, "export a/r a/r --out t.csv", "name each once"),
        (
            2,
            "export record --out t.csv",
            "record has no raw files, as a published record; export the run behind it",
        ),
        (2, "export a/r --machine none.toml --out t.csv", "none.toml"),
        (2, "export a/r --steps --machine none.toml --out t.csv", "cannot be used with"),
    ] {
        let said = door.exits(code, arguments);
        assert!(said.err.contains(message), "profile {arguments}: {}", said.err);
    }
    assert!(!door.path("t.csv").exists());
    std::fs::remove_file(door.run("a/r").launch_end_path("0001-synthetic-sleep")).expect("it had ended");
    let said = door.exits(4, "export a/r --out t.csv");
    assert!(
        said.err.contains("no launch of the runs has ended") && !door.path("t.csv").exists(),
        "{}",
        said.err
    );
}

/// Whether this Python has these modules.
fn python_has(modules: &str) -> bool {
    let import =
        Command::new("python3").args(["-c", &format!("import {modules}")]).stderr(Stdio::null()).status();
    let found = import.is_ok_and(|status| status.success());
    if !found {
        schema::skips::skipped("pandas", format_args!("python3 has no {modules}"));
    }
    found
}

/// Compares a table with its dictionary and with the same table in CSV.
const COMPARE: &str = r#"
import sys, pandas
table = pandas.read_parquet(sys.argv[1]) if sys.argv[1].endswith(".parquet") else pandas.read_csv(sys.argv[1])
columns = pandas.read_csv(sys.argv[1] + ".columns.csv")
assert list(table.columns) == list(columns.name), table.columns
for name, kind in zip(columns.name, columns.type):
    cells = table[name].dropna()
    if kind in ("integer", "real"):
        assert pandas.api.types.is_numeric_dtype(table[name]) or cells.empty, (name, table[name].dtype)
    if kind == "integer":
        assert (cells.astype(float) == cells.astype(float).round()).all(), name
    if kind == "flag":
        assert set(cells.map(str)) <= {"True", "False"}, name
assert (table.step_ns_median_ci_lo.dropna() <= table.step_ns_median.dropna()).all()
assert table.valid.dtype == bool, table.valid.dtype
if sys.argv[1].endswith(".csv"):
    flags = pandas.read_csv(sys.argv[1], dtype_backend="numpy_nullable")[columns.name[columns.type == "flag"]]
    assert all(flags[name].dtype == "boolean" for name in flags if flags[name].notna().any()), flags.dtypes
test = table.split == "test"
assert test.any() and not test.all()
assert set(table[test].workload).isdisjoint(table[~test].workload)
print(len(table), table.step_ns_median.notna().sum(), *sorted(set(table.status)))
"#;

fn pandas_reads(table: &Path) {
    let output =
        Command::new("python3").args(["-c", COMPARE]).arg(table).output().expect("it was there before");
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!(out.trim(), "10 6 failed ok unsupported", "{err}");
}

#[test]
fn pandas_reads_parquet_as_well() {
    if !python_has("pandas, pyarrow") {
        return;
    }
    let door = two_runs();
    door.exits(0, "export one two --out all.parquet");
    pandas_reads(&door.path("all.parquet"));
}
