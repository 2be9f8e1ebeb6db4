//! `--vary`: each combination of values of names in braces is a job of its own.

use std::{collections::BTreeSet, fs};

use front_door::{Door, has_cores};
use record::{
    group::Group,
    rows::{self, ExportRow, Measurement, Status},
};

use super::{exits, with_program};

const RUN: &str = "single --device cpu:0 --repeats 2 --steps 20";

const DEFINITION: &str = r#"[[program]]
name = "mine"
command = "python3 train.py --lr {lr} {micro_batch}"
batches = [8]
axes = ["gc"]
words.gc = "--every {every}"

[program.defaults]
lr = "0.1"
every = "2"
"#;

/// A door with a program that prints its arguments, and the definition of it.
fn with_definition() -> Option<Door> {
    let door = with_program("print(*sys.argv[1:], flush=True)\ntrain()")?;
    door.write("mine.toml", DEFINITION);
    Some(door)
}

fn printed(door: &Door, run: &str, row: &Measurement) -> String {
    let text = fs::read_to_string(door.run(run).stdout_path(&row.launch, 0)).expect("its output is kept");
    text.lines().next().unwrap_or_default().into()
}

#[test]
fn each_combination_of_values_is_a_job_in_every_block_and_in_every_table() {
    let Some(door) = with_definition() else { return };
    let vary = ["--vary", "width=64,128", "--vary", "lr=0.1,0.01", "--json", "--out", "r", "--"];
    let program = ["python3", "train.py", "--lr={lr}", "{width}x", "{{lr}}", "{x}"];
    let said = exits(0, &door, RUN, &[&vary[..], &program].concat());
    let all = [("0.01", "128"), ("0.01", "64"), ("0.1", "128"), ("0.1", "64")];
    let measured = door.measurements("r");
    assert_eq!(measured.len(), 2 * all.len());
    for repeat in 0..2 {
        let mut block: Vec<&Measurement> = measured[4 * repeat..4 * (repeat + 1)].iter().collect();
        assert!(block.iter().all(|row| row.repeat == repeat as u32), "a block has all jobs: {block:?}");
        block.sort_by(|one, other| one.vary.cmp(&other.vary));
        for (row, (lr, width)) in block.into_iter().zip(all) {
            let values = format!("lr={lr} width={width}");
            assert_eq!((row.status, row.vary.as_deref()), (Status::Ok, Some(&*values)), "{row:?}");
            assert_eq!(row.job, format!("{} {values}", row.workload));
            assert_eq!(printed(&door, "r", row), format!("--lr={lr} {width}x {{lr}} {{x}}"));
        }
    }
    assert_eq!(measured.iter().map(|row| &row.workload).collect::<BTreeSet<_>>().len(), 1);
    let summaries = door.summaries("r");
    let values: BTreeSet<_> = summaries.iter().filter_map(|row| row.vary.as_deref()).collect();
    assert_eq!((summaries.len(), values.len()), (4, 4));
    assert!(said.out.contains(r#""vary": "lr=0.01 width=128""#), "{}", said.out);
    door.exits(0, "export r --out all.csv");
    let exported: Vec<ExportRow> = rows::read(&door.path("all.csv")).expect("it reads back");
    assert!(exported.iter().all(|row| values.contains(row.vary.as_deref().unwrap_or_default())));
    let before = fs::read(door.run("r").summary_path()).expect("it was written");
    door.exits(0, "derive r");
    assert_eq!(fs::read(door.run("r").summary_path()).expect("it was written"), before);
}

#[test]
fn a_name_applies_to_the_commands_that_have_it() {
    let Some(door) = with_definition() else { return };
    let commands =
        ["--cmd", "python3 train.py {lr}", "--name", "a", "--cmd", "python3 train.py", "--name", "b"];
    exits(0, &door, &format!("{RUN} --vary lr=0.1,0.01 --out r"), &commands);
    let mut jobs: Vec<String> = door.summaries("r").into_iter().map(|row| row.job).collect();
    jobs.sort();
    assert_eq!(jobs, ["a lr=0.01", "a lr=0.1", "b"]);
}

#[test]
fn comparisons_and_resumed_runs_tell_values_apart() {
    let Some(door) = with_definition() else { return };
    let program = ["--name", "mine", "--", "python3", "train.py", "{lr}"];
    exits(0, &door, &format!("{RUN} --vary lr=0.1,0.01 --out r"), &program);
    exits(1, &door, &format!("{RUN} --vary lr=0.01,1 --budget 1ns --out s"), &program);
    assert!(door.measurements("s").is_empty());
    exits(0, &door, "single --resume s --budget 1h --yes", &[]);
    let measured = door.measurements("s");
    let of = |values: &str| measured.iter().filter(|row| row.vary.as_deref() == Some(values)).count();
    assert_eq!((of("lr=0.01"), of("lr=1")), (2, 2), "{measured:?}");
    let said = door.exits(0, "compare r s");
    assert!(said.out.contains("mine lr=0.01"), "{}", said.out);
    assert!(!said.out.contains("lr=0.1") && !said.out.contains("lr=1"), "{}", said.out);
}

#[test]
fn a_definition_runs_with_its_defaults_and_with_the_values_of_a_run() {
    let Some(door) = with_definition() else { return };
    let run = "single mine --catalog mine.toml --device cpu:0 --repeats 1 --steps 20";
    exits(0, &door, &format!("{run} --plan dp1,gc --out r"), &[]);
    let said = |run: &str| {
        let mut said: Vec<(String, Option<String>, String)> = door
            .measurements(run)
            .into_iter()
            .map(|row| (row.job.clone(), row.vary.clone(), printed(&door, run, &row)))
            .collect();
        said.sort();
        said
    };
    let by_default = |job: &str, printed: &str| (job.to_owned(), None, printed.to_owned());
    let expected = [("mine@b8@dp1", "--lr 0.1 8"), ("mine@b8@gc", "--lr 0.1 8 --every 2")];
    assert_eq!(said("r"), expected.map(|(job, printed)| by_default(job, printed)));

    exits(0, &door, &format!("{run} --plan gc --vary lr=0.1,0.5 --vary every=4 --out s"), &[]);
    let with = |lr: &str| {
        let values = format!("every=4 lr={lr}");
        (format!("mine@b8@gc {values}"), Some(values), format!("--lr {lr} 8 --every 4"))
    };
    assert_eq!(said("s"), ["0.1", "0.5"].map(with));
    let cells = door.run("s").manifest().expect("it reads").cells;
    assert_eq!(cells[1].name, "mine@b8@gc every=4 lr=0.5@on=cpu:0");
    let grid = exits(2, &door, "single --grid s/summary.csv --catalog mine.toml --device cpu:0", &[]);
    assert!(grid.err.contains("summary.csv: line 2: column 'job'"), "{}", grid.err);
}

#[test]
fn all_members_of_a_group_have_the_values_of_one_combination() {
    let Some(door) = with_definition() else { return };
    let program = ["--cmd", "python3 train.py {lr}", "--name", "a"];
    let groups = |options: &str, program: &[&str]| -> Vec<String> {
        let said = exits(0, &door, &format!("colocate {options} --dry-run --json"), program);
        let groups: Vec<Group> = rows::from_json(&said.out).expect("they are groups");
        groups.iter().map(|group| group.members.join(" + ").replace("@on=cpu:0", "")).collect()
    };
    let with = "--device cpu:0 --vary lr=0.1,0.5";
    let sleep = "synthetic-sleep@b32@dp1";
    assert_eq!(
        groups(&format!("synthetic-sleep {with}"), &program),
        [format!("{sleep} + a lr=0.1"), format!("{sleep} + a lr=0.5")]
    );
    let both = groups(&format!("mine --catalog mine.toml {with} --vary every=1,2"), &program);
    let mine = |every: u32, lr: &str| format!("mine@b8@dp1 every={every} lr={lr} + a lr={lr}");
    assert_eq!(both, [mine(1, "0.1"), mine(1, "0.5"), mine(2, "0.1"), mine(2, "0.5")]);
    let pairs = groups(&format!("--all-pairs {with}"), &program);
    let pair = |one: &str, other: &str| format!("a lr={one} + a lr={other}");
    assert_eq!(pairs, [pair("0.1", "0.1"), pair("0.1", "0.5"), pair("0.5", "0.5")]);
    if has_cores(2) {
        let apart = "mine mine --catalog mine.toml --apart --device cpu:0,cpu:1 --vary lr=0.1,0.5";
        let apart_with = |lr: &str| format!("mine@b8@dp1 lr={lr} + mine@b8@dp1 lr={lr}@on=cpu:1");
        assert_eq!(groups(apart, &[]), [apart_with("0.1"), apart_with("0.5")]);
    }

    exits(
        0,
        &door,
        &format!("colocate mine --catalog mine.toml {with} --repeats 1 --steps 20 --out r"),
        &program,
    );
    let slowed: Vec<_> =
        door.interference("r").into_iter().map(|row| (row.job, row.slowdown.is_some())).collect();
    let jobs = ["mine@b8@dp1 lr=0.1", "a lr=0.1", "mine@b8@dp1 lr=0.5", "a lr=0.5"];
    assert_eq!(slowed, jobs.map(|job| (job.to_owned(), true)));
    for row in door.measurements("r") {
        let values = row.vary.clone().expect("each member has a value");
        let lr = values.trim_start_matches("lr=");
        let expected = if row.workload == "a" { lr.to_owned() } else { format!("--lr {lr} 8") };
        assert_eq!(printed(&door, "r", &row), expected, "{row:?}");
    }
    let said = exits(2, &door, "colocate synthetic-sleep synthetic-spin --vary lr=1,2 --device cpu:0", &[]);
    assert!(said.err.contains("--vary lr: no command of this run has {lr}"), "{}", said.err);
}

#[test]
fn names_and_values_that_cannot_be_are_refused_before_anything_starts() {
    let Some(door) = with_definition() else { return };
    door.write("wrong.toml", &DEFINITION.replace("every = \"2\"\n", ""));
    door.write("taken.toml", &DEFINITION.replace("lr", "run"));
    door.write("unused.toml", &DEFINITION.replace("--lr {lr}", ""));
    for (arguments, words) in [
        ("--vary lr -- true {lr}", "expected NAME=V1,V2,.., as in lr=0.1,0.01"),
        ("--vary lr=1,2 -- true", "--vary lr: no command of this run has {lr}; write {lr} in a command"),
        ("--vary lr=1,2 -- true {{lr}}", "--vary lr: no command of this run has {lr}"),
        ("--vary lr=1,2 synthetic-sleep", "--vary lr: no command of this run has {lr}"),
        ("--vary lr=1,2 --vary lr=3 -- true {lr}", "--vary names lr twice"),
        ("--vary lr=1,2,1 -- true {lr}", "lr has the value 1 twice; write each value once"),
        ("--vary lr=1,,2 -- true {lr}", "'' is no value"),
        (
            "--vary lr={run} -- true {lr}",
            "'{run}' is no value: use one or more characters without spaces and braces",
        ),
        ("--vary LR=1,2 -- true {LR}", "'LR' is no name: use small letters and _"),
        ("--vary ranks=1,2 -- true {ranks}", "the name ranks is taken: the batch and the plan"),
        ("--vary repeat=1,2 -- true {repeat}", "the name repeat is taken: it is filled in for each launch"),
        ("--vary program=tru,no-such -- {program}e", "there is no program 'no-suche'"),
        ("--vary width=1 mine --catalog mine.toml", "or give width a value in [program.defaults]"),
        ("mine --catalog wrong.toml", "wrong.toml: line 1: program 'mine': words.gc: nothing fills {every}"),
        ("mine --catalog wrong.toml", "add every = \"..\" there"),
        (
            "mine --catalog taken.toml",
            "taken.toml: line 1: program 'mine': defaults.run: the name run is taken",
        ),
        (
            "mine --catalog unused.toml",
            "unused.toml: line 1: program 'mine': defaults.lr: no command or words have {lr}",
        ),
    ] {
        let said = exits(2, &door, &format!("single --device cpu:0 --out r {arguments}"), &[]);
        assert!(said.err.contains(words), "{arguments}: {}", said.err);
        assert!(!door.path("r").exists(), "{arguments}");
    }
}
