//! Programs that the catalog defines, as jobs of a trace: they run with the command of their batch and plan.

mod fit;
mod memory;

use std::{fs, path::Path, process::Command};

use formats::trace::{Trace, TraceRow};
use front_door::{Door, Said};
use jobs::cells::joined;
use record::{
    manifest::Cell,
    rows::{self, Measurement, Status, Summary},
    run_dir::RunDir,
};
use schema::{device::Device, plan::Plan};

use crate::{
    run::{door_to_two, outcomes, run},
    sim::measured,
    startups::SECOND,
};

/// Trains with the fake PyTorch in ranks, as a launcher does, and says on which cores it was started.
const RANKS: &str = "import os, subprocess, sys, time, torch
optimizer = torch.optim.SGD([torch.Parameter(8)])
ranks, micro = int(sys.argv[1]), int(sys.argv[2])
if 'RANK' not in os.environ:
    with open('started', 'a') as file:
        print(*sys.argv[1:], 'on', *sorted(os.sched_getaffinity(0)), file=file)
    names = [dict(os.environ, RANK=str(rank), WORLD_SIZE=str(ranks)) for rank in range(ranks)]
    children = [subprocess.Popen([sys.executable] + sys.argv, env=env) for env in names]
    sys.exit(max([child.wait() for child in children]))
while True:
    time.sleep(0.001 * micro)
    optimizer.step()
";

const DEFINITION: &str = r#"[[program]]
name = "mine"
command = "python3 train.py {ranks} {micro_batch} {ga}"
batches = [8, 16]
axes = ["dp", "ga"]
"#;

const TRACE: &str = "name,submit_s,job,steps
one,0,mine,40
two,0,mine@b8@dp2,60
three,0.2,mine@b16@ga2,30
";

const RUN: &str = "run trace.csv --device cpu:0,cpu:1 --catalog mine.toml";

/// A door with the program and its definition, if the machine has Python and two cores.
fn with_definition(trace: &str) -> Option<Door> {
    if !Command::new("python3").arg("-V").output().is_ok_and(|output| output.status.success()) {
        schema::skips::skipped("python3", "there is no python3");
        return None;
    }
    let door = door_to_two(trace)?;
    door.write("train.py", RANKS);
    door.write("mine.toml", DEFINITION);
    Some(door)
}

fn said(door: &Door, arguments: &str, code: i32) -> Said {
    let fake = Path::new(env!("CARGO_MANIFEST_DIR")).join("../workloads/python/tests/fake");
    let output = door.command(arguments).env("PYTHONPATH", fake).output().expect("sched starts");
    let said = Said::of(&output);
    assert_eq!(output.status.code(), Some(code), "{arguments}: {}", said.err);
    said
}

#[test]
fn programs_run_and_are_held_under_their_plans() {
    for policy in ["fifo", "gandiva:pack=off:quantum=300ms --suspend step-gate"] {
        let Some(door) = with_definition(TRACE) else { return };
        said(&door, &format!("{RUN} --policy {policy} --out r"), 0);
        let rows = outcomes(&door);
        let expected = [
            ("one", Some(8), "dp1", 1, 40),
            ("two", Some(8), "dp2", 2, 60),
            ("three", Some(16), "ga2", 1, 30),
        ];
        for (row, (name, batch, plan, devices, steps)) in rows.iter().zip(expected) {
            assert_eq!(
                (&*row.name, &*row.workload, row.status),
                (name, "mine", Status::Ok),
                "{policy}: {row:?}"
            );
            assert_eq!(
                (row.global_batch, row.devices, row.steps),
                (batch, devices, steps),
                "{policy}: {row:?}"
            );
            assert_eq!(row.plan.map(|plan| plan.to_string()).as_deref(), Some(plan), "{policy}: {row:?}");
        }
        let mut started: Vec<String> = fs::read_to_string(door.path("started"))
            .expect("they started")
            .lines()
            .map(str::to_owned)
            .collect();
        started.sort();
        assert_eq!(started.len(), 3, "each is one process that starts its ranks: {started:?}");
        assert_eq!(started[2], "2 4 1 on 0 1", "{started:?}");
        assert!(run(&door).manifest().expect("it reads").cells.iter().all(|cell| cell.command.is_some()));
        door.exits(0, "replay r");
    }
}

#[test]
fn a_program_runs_in_its_folder_and_a_folder_that_is_not_there_is_refused() {
    let Some(door) = with_definition(TRACE) else { return };
    fs::create_dir(door.path("project")).expect("the folder is writable");
    fs::rename(door.path("train.py"), door.path("project/train.py")).expect("it is ours");
    let define = |folder: &str| {
        let folder = format!("folder = \"{folder}\"\nbatches");
        door.write("mine.toml", &DEFINITION.replace("batches", &folder));
    };
    define("projekt");
    let refused = said(&door, &format!("{RUN} --policy fifo --out r"), 2).err;
    let words = "mine.toml: line 1: program 'mine': folder: there is no folder 'projekt' here; make it";
    assert!(refused.contains(words), "{refused}");
    assert!(!door.path("r").exists());
    define("project");
    said(&door, &format!("{RUN} --policy fifo --out r"), 0);
    assert!(outcomes(&door).iter().all(|row| row.status == Status::Ok));
    let started = fs::read_to_string(door.path("project/started")).expect("they started there");
    assert_eq!(started.lines().count(), 3, "{started}");
    let folder = run(&door).manifest().expect("it reads").folder.expect("it has programs");
    assert_eq!(folder.programs.keys().collect::<Vec<_>>(), ["project/train.py"]);
}

/// A table with rows of the program on one core for each rank: batch, plan and milliseconds of a step. It takes 3 s to start and 2 s to
/// exit. Two launches differ by 2 %.
fn with_rows(door: &Door, rows_of: &[(u32, &str, u64)]) {
    measured(door, "t");
    let run = RunDir::open(&door.path("t")).expect("it is a run");
    let mut manifest = run.manifest().expect("it reads");
    let mut rows: Vec<Summary> = rows::read(&run.summary_path()).expect("it reads");
    let (of_lstm, lstm) = (manifest.cells[0].clone(), rows[0].clone());
    let mut launches = Vec::new();
    for (batch, plan, ms) in rows_of {
        let (job, plan): (String, Plan) = (format!("mine@b{batch}@{plan}"), plan.parse().expect("a plan"));
        let devices: Vec<Device> = (0..plan.ranks() as u16).map(|core| Device::Cpu(vec![core])).collect();
        for repeat in 0..2 {
            let ns = Some(ms * 1_000_000 / 100 * (99 + 2 * u64::from(repeat)));
            launches.push(Measurement {
                run: "t".into(),
                launch: format!("{:04}-mine", launches.len() + 1),
                repeat,
                job: job.clone(),
                workload: "mine".into(),
                plan: Some(plan),
                device: joined(&devices),
                threads: 1,
                global_batch: Some(*batch),
                steps_used: 100,
                step_ns_median: ns,
                step_ns_mean: ns,
                ..Measurement::default()
            });
        }
        rows.push(Summary {
            job: job.clone(),
            workload: "mine".into(),
            command: Some("python3 train.py".into()),
            plan: Some(plan),
            device: joined(&devices),
            global_batch: Some(*batch),
            step_ns_median: Some(ms * 1_000_000),
            step_ns_mean: Some(ms * 1_000_000),
            startup_ns: Some(3 * SECOND),
            exit_ns: Some(2 * SECOND),
            ..lstm.clone()
        });
        manifest.cells.push(Cell {
            name: format!("{job}@on={}", joined(&devices)),
            job,
            workload: "mine".into(),
            command: Some(vec!["python3".into()]),
            global_batch: Some(*batch),
            plan: Some(plan),
            devices,
            ..of_lstm.clone()
        });
    }
    fs::remove_file(run.manifest_path()).expect("it is there");
    run.write_manifest(&manifest).expect("it is written");
    rows::write(&run.summary_path(), &rows).expect("it is written");
    rows::write(&run.measurements_path(), &launches).expect("it is written");
}

#[test]
fn a_simulation_takes_the_times_of_a_program_from_its_rows() {
    let trace = "name,submit_s,job,steps\na,0,mine@b8@dp1,30\nb,0,mine@b8@dp2,50\n";
    let Some(door) = with_definition(trace) else { return };
    with_rows(&door, &[(8, "dp1", 100), (8, "dp2", 60)]);
    door.exits(
        0,
        "sim trace.csv --policy fifo --switch-cost 1s --catalog mine.toml --table t --cluster 1x2 --out r",
    );
    let ends = outcomes(&door).into_iter().map(|row| row.end_ns.map(|ns| (ns + 500) / 1_000_000));
    // A start of 3 s contains two steps, and an exit takes 2 s.
    let [a, b] = [3_000 + 28 * 100 + 2_000, 3_000 + 48 * 60 + 2_000];
    assert_eq!(ends.collect::<Vec<_>>(), [a, a + b].map(Some));
}

#[test]
fn a_trace_is_drawn_from_programs_and_workloads() {
    let Some(door) = with_definition(TRACE) else { return };
    with_rows(&door, &[(8, "dp1", 100), (8, "dp2", 60)]);
    let make = "trace make mine=3 mine@b8@dp2 lstm@b8 --jobs 40 --every 1s --table t --catalog mine.toml --out m.csv";
    door.exits(0, &format!("{make} --length fixed:60s"));
    let rows = Trace::read(&door.path("m.csv")).expect("it reads").rows;
    let steps_of = |job: &str| {
        let is_of =
            |row: &&TraceRow| row.job.as_ref().is_some_and(|other| other.to_string().starts_with(job));
        rows.iter().filter(is_of).map(|row| row.steps).collect::<Vec<_>>()
    };
    let (alone, pairs, lstm) = (steps_of("mine@b8@dp1"), steps_of("mine@b8@dp2"), steps_of("lstm@b8"));
    // 60 s of steps of 100 ms, or of 60 ms.
    assert!(alone.iter().all(|steps| *steps == Some(600)) && pairs.iter().all(|steps| *steps == Some(1000)));
    assert_eq!(alone.len() + pairs.len() + lstm.len(), 40);
    assert!(alone.len() > pairs.len() && !pairs.is_empty() && !lstm.is_empty(), "{rows:?}");
    door.exits(
        0,
        "sim m.csv --policy fifo --switch-cost 1s --catalog mine.toml --table t --cluster 1x2 --out r",
    );
    assert_eq!(outcomes(&door).iter().filter(|row| row.status == Status::Ok).count(), 40);
    for (options, words) in [
        ("--length fixed:60s --elastic", "--elastic: mine keeps its plan: its program defines no checkpoint"),
        ("--length fixed:9 --learning-rates 0.1", "--learning-rates applies to workloads that Tandem trains"),
    ] {
        let said = door.exits(2, &format!("{make} {options}"));
        assert!(said.err.contains(words), "{options}: {}", said.err);
    }
    let other = make.replace("mine=3", "mine@b4=3");
    let said = door.exits(2, &format!("{other} --length fixed:60s"));
    assert!(said.err.contains("job 'mine@b4': mine trains with batches 8, 16"), "{}", said.err);
}

#[test]
fn a_command_for_several_devices_is_one_process_on_all_of_them() {
    let script = "echo started >> started; grep Cpus_allowed_list /proc/self/status > cores";
    let Some(door) = door_to_two("name,submit_s,command,devices\npair,0,sh pair.sh,2\n") else { return };
    door.write("pair.sh", script);
    door.exits(0, "run trace.csv --policy fifo --device cpu:0,cpu:1 --out r");
    let [row] = &outcomes(&door)[..] else { panic!("one job has one row") };
    assert_eq!((row.status, row.devices), (Status::Ok, 2));
    let read = |name| fs::read_to_string(door.path(name)).expect("it has run");
    assert_eq!(read("started"), "started\n");
    assert_eq!(read("cores").split_whitespace().last(), Some("0-1"));
}

#[test]
fn a_trace_asks_a_program_only_for_what_it_can_do() {
    for (row, words) in [
        ("mine@b8@tp2,40,,,", "column 'job': mine runs no plans with tp; it runs dp, ga"),
        ("mine@b8@dp65535-pp2,40,,,", "it has more than 65535 ranks; lower a degree"),
        ("mine@b4,40,,,", "column 'job': mine trains with batches 8, 16"),
        ("mine,40,,,0.1", "column 'learning_rate': says something of workloads that Tandem trains"),
        ("mine,40,2,,", "column 'devices': is 2, and dp1, the plan of mine, takes 1"),
        (
            "mine,40,,true,",
            "column 'elastic': mine keeps its plan: its program defines no checkpoint; write false",
        ),
    ] {
        let Some(door) =
            with_definition(&format!("name,submit_s,job,steps,devices,elastic,learning_rate\na,0,{row}\n"))
        else {
            return;
        };
        let said = said(&door, &format!("{RUN} --policy fifo --out r"), 2);
        assert!(said.err.contains("trace.csv: line 2") && said.err.contains(words), "{row}: {}", said.err);
        assert!(!door.path("r").exists(), "{row}");
    }
}
