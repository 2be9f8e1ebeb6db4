//! Runs on fitted models: as belief, as truth, and fitted again during the run.

use std::fs;

use formats::{
    decision::{self, Turn},
    fitted::{FittedRow, Layout, ModelFile, ModelSource},
    rows::Outcome,
};
use front_door::{Background, Door, Said, wait_until};
use model::{Options, Parts, fit_workload};
use record::{
    facts::Facts,
    manifest::FittedFile,
    rows::{self},
    run_dir::RunDir,
};
use rustix::process::Signal;

use crate::{
    run,
    sim::{measured, measured_at},
};

/// Milliseconds of a step of plain data parallelism.
fn step_ms(batch: u32, ranks: u32) -> f64 {
    20.0 + 10.0 * f64::from(batch) / f64::from(ranks) + 5.0 * f64::from(ranks - 1)
}

/// Writes a model of workloads, each with the factor by which its steps take longer than [`step_ms`].
pub(crate) fn model(door: &Door, name: &str, device_type: &str, workloads: &[(&str, f64)]) {
    let fitted = |&(workload, factor): &(&str, f64)| {
        let row = |(batch, ranks)| FittedRow {
            source: 0,
            global_batch: batch,
            plan: format!("dp{ranks}").parse().expect("it is a plan"),
            placement: vec![ranks],
            cpus: None,
            ranks_per_device: 1,
            step_ns: (1e6 * factor * step_ms(batch, ranks)) as u64,
            forward_ns: None,
            synchronised_ns: None,
            updated_ns: None,
            peak_memory_bytes: None,
            doubtful: false,
            left_out: None,
        };
        let rows = [(8, 1), (16, 1), (32, 1), (16, 2)].map(row).into();
        let options = Options::new(Parts::A800, 1);
        fit_workload(workload, Facts::default(), rows, 0.3, &options).expect("there are enough rows")
    };
    let (name_of_rows, blake3) = ("rows".into(), String::new());
    ModelFile {
        format: ModelFile::FORMAT,
        version: "0".into(),
        seed: 1,
        device_type: device_type.into(),
        is_on_cores: false,
        within_rows: false,
        sources: vec![ModelSource {
            name: name_of_rows,
            layout: Layout::Run,
            rows: 4,
            memory_bytes: None,
            blake3,
        }],
        workloads: workloads.iter().map(fitted).collect(),
        unfit: Vec::new(),
        interference: None,
    }
    .write(&door.path(name))
    .expect("the folder is writable");
}

const RIGHT: [(&str, f64); 2] = [("lstm", 1.0), ("resnet18-mini", 0.5)];

/// A model under which steps of the second workload take four times as long.
const WRONG: [(&str, f64); 2] = [("lstm", 1.0), ("resnet18-mini", 2.0)];

/// A job of 20 s, one of 30 s, and another one of 20 s.
const TRACE: &str = "name,submit_s,job,steps\nfirst,0,resnet18-mini@b8@dp1,400\nlong,5,lstm@b8@dp1,300\n\
    second,5,resnet18-mini@b8@dp1,400\n";

fn door() -> Door {
    let door = crate::door();
    door.write("t.csv", TRACE);
    model(&door, "right.json", "GPU", &RIGHT);
    model(&door, "wrong.json", "GPU", &WRONG);
    door
}

const SIM: &str =
    "sim t.csv --policy sjf --cluster 1x1 --switch-cost 0s --truth right.json --progress-every 2s";

fn turns(door: &Door, run: &str) -> Vec<Turn> {
    decision::read(&door.path(run).join("decisions.jsonl")).expect("decisions.jsonl reads back")
}

fn ends_s(door: &Door, run: &str) -> Vec<u64> {
    let outcomes: Vec<Outcome> = rows::read(&door.path(run).join("outcomes.csv")).expect("it reads back");
    outcomes.iter().map(|row| (row.end_ns.expect("it has ended") as f64 / 1e9).round() as u64).collect()
}

#[test]
fn a_wrong_belief_costs_time_until_it_is_fitted_again() {
    let door = door();
    for (out, options, ends) in [
        ("a", "--model right.json", [20, 70, 40]),
        ("b", "--model wrong.json", [20, 50, 70]),
        ("c", "--model wrong.json --refit", [20, 70, 40]),
        ("d", "--model right.json --refit", [20, 70, 40]),
    ] {
        door.exits(0, &format!("{SIM} {options} --out {out}"));
        assert_eq!(ends_s(&door, out), ends, "{options}");
    }
    let versions = |run: &str| -> Vec<u64> {
        turns(&door, run).iter().map(|turn| turn.model_version.expect("a model is believed")).collect()
    };
    for run in ["a", "b", "d"] {
        assert!(versions(run).iter().all(|version| *version == 0), "{run}: there was nothing to learn");
    }
    let learned = versions("c");
    assert_eq!(learned[0], 0);
    assert!(
        learned.is_sorted_by(|a, b| *b == *a || *b == *a + 1) && learned.last() > Some(&5),
        "{learned:?}"
    );
}

#[test]
fn a_run_that_learns_is_the_same_twice_and_is_decided_again() {
    let door = door();
    for refit in ["", "--refit"] {
        let [one, two] = ["one", "two"].map(|out| format!("{out}{refit}"));
        for out in [&one, &two] {
            door.exits(0, &format!("{SIM} --model wrong.json {refit} --noise 5 --out {out}"));
        }
        for file in ["outcomes.csv", "decisions.jsonl", "inputs/model-0.json"] {
            let read = |out: &str| fs::read(door.path(out).join(file)).expect("it was written");
            assert!(read(&one) == read(&two), "{out}/{file}", out = one);
        }
        let said = door.exits(0, &format!("replay {one}"));
        assert!(said.out.contains("every decision as it was recorded"), "{}", said.out);
    }
    // A turn that believed another version is another turn.
    let journal = door.path("one--refit/decisions.jsonl");
    let text = fs::read_to_string(&journal).expect("it was written");
    fs::write(&journal, text.replacen("\"model_version\":1", "\"model_version\":2", 1)).expect("it is ours");
    let said = door.exits(1, "replay one--refit");
    assert!(said.out.contains("was decided otherwise"), "{}", said.out);
}

/// One row of the configuration is wrong by a factor of 2, and each report adds a time that is right: after n of them, the
/// geometric mean is wrong by 2^(1 / (n + 1)).
#[test]
fn what_is_believed_approaches_what_is_observed() {
    let door = door();
    model(&door, "twice.json", "GPU", &[("lstm", 2.0)]);
    door.write("t.csv", "name,submit_s,job,steps\na,0,lstm@b8@dp1,3000\nb,0,lstm@b8@dp1,10\n");
    door.write(
        "log.py",
        "import json, sys\nlog = open('log.jsonl', 'w')\nfor turn in map(json.loads, sys.stdin):\n    \
         for job in turn['jobs']:\n        if job['job'] == 1:\n            print(turn['turn'], job['step_ns'], file=log)\n    \
         waiting = [job for job in turn['jobs'] if job['state'] == 'waiting' and job['job'] == 0]\n    \
         start = [{'start': {'job': job['job'], 'devices': [0], 'plan': job['plan']}} for job in waiting]\n    \
         if any(job['name'] == 'a' and job['state'] == 'ended' for job in turn['jobs']):\n        start.append({'end': {'job': 1}})\n    \
         print(json.dumps({'turn': turn['turn'], 'actions': start}), flush=True)\n",
    );
    let arguments = "sim t.csv --cluster 1x1 --switch-cost 0s --truth right.json --model twice.json --progress-every 10s --out r";
    let mut command = door.command(arguments);
    let output = command.args(["--refit", "--policy", "exec:python3 log.py"]).output().expect("it starts");
    assert!(output.status.success(), "{}", Said::of(&output).err);
    let log = fs::read_to_string(door.path("log.jsonl")).expect("the policy has written it");
    // Job b waits all the time, and is shown again when something else is believed of it.
    let pair = |line: &str| {
        let (turn, step_ns) = line.split_once(' ')?;
        Some((turn.parse().ok()?, step_ns.parse().ok()?))
    };
    let believed: Vec<(u64, f64)> =
        log.lines().map(|line| pair(line).unwrap_or_else(|| panic!("{line}"))).collect();
    assert_eq!(believed[0], (0, 200e6));
    let turns = turns(&door, "r");
    let mut changes = 0;
    for (turn, step_ns) in &believed[1..] {
        let turn = &turns[*turn as usize];
        let reports = turn.at_ns.as_secs_f64() / 10.0;
        let expected = 1e8 * 2f64.powf(1.0 / (reports + 1.0));
        assert!(
            (step_ns / expected).ln().abs() < 0.011,
            "after {reports} reports: {step_ns} and not {expected}"
        );
        changes += 1;
        assert_eq!(turn.model_version, Some(changes), "a refit for each change");
    }
    assert!((10..30).contains(&changes), "{changes}");
    assert_eq!(turns.last().and_then(|turn| turn.model_version), Some(changes));
}

/// A row of the table says 100 ms, as the model does, or 1 s.
#[test]
fn a_row_of_a_table_comes_before_a_model_and_a_model_before_the_trace() {
    let door = door();
    measured(&door, "table");
    measured_at(&door, "slow", 8.0);
    model(&door, "cpu.json", "CPU", &RIGHT);
    door.write(
        "t.csv",
        "name,submit_s,job,steps,step_ns\na,0,lstm@b8@dp1,100,7000000\nb,0,lstm@b16@dp1,100,7000000\n",
    );
    let sim = "sim t.csv --policy fifo --cluster 1x1 --switch-cost 0s --out";
    for (options, ends) in [
        ("--table slow --truth cpu.json", [100, 118]),
        ("--table slow --truth trace,cpu.json", [10, 28]),
        ("--table slow --truth table,cpu.json", [10, 28]),
        ("--table slow --truth tables,cpu.json", [100, 118]),
        ("--table slow", [100, 101]),
        ("--truth trace", [1, 1]),
    ] {
        let out = options.replace([' ', ',', '-'], "");
        door.exits(0, &format!("{sim} {out} {options}"));
        assert_eq!(ends_s(&door, &out), ends, "{options}");
        door.exits(0, &format!("replay {out}"));
    }
    // Slowdowns come from tables, also where the time alone comes from a model: in the batch of 8, neighbours cost a quarter.
    model(&door, "twice.json", "CPU", &[("lstm", 2.0)]);
    let summary = door.path("table/summary.csv");
    let text = fs::read_to_string(&summary).expect("it was written");
    let header = text.lines().next().expect("it has a header");
    fs::write(&summary, format!("{header}\n")).expect("it is ours");
    door.write("t.csv", "name,submit_s,job,steps\na,0,lstm@b8@dp1,100\nb,0,lstm@b8@dp1,100\n");
    let two = sim.replace("1x1", "1x2");
    door.exits(0, &format!("{two} r --table table --truth twice.json"));
    assert_eq!(ends_s(&door, "r"), [25, 25]);
}

#[test]
fn a_model_that_cannot_be_used_is_refused_by_name() {
    let door = door();
    model(&door, "h200.json", "NVIDIA H200", &RIGHT);
    let other = "h200.json: was fitted to devices of type 'NVIDIA H200', and those of the cluster are of type 'GPU'; fit a model to \
         rows of these, or add --any-device";
    let sim = "sim t.csv --policy sjf --cluster 1x1:GPU --switch-cost 0s";
    for option in ["--truth h200.json", "--truth right.json --model h200.json"] {
        let said = door.exits(2, &format!("{sim} {option}"));
        assert!(said.err.contains(other), "{}", said.err);
    }
    door.exits(0, &format!("{sim} --truth h200.json --model h200.json --any-device --out taken"));
    assert_eq!(ends_s(&door, "taken"), [20, 70, 40]);
    door.exits(0, "replay taken");
    // Without a type, the devices of the cluster are those of the model.
    door.exits(0, "sim t.csv --policy sjf --cluster 1x1 --switch-cost 0s --truth h200.json");

    let text = fs::read_to_string(door.path("right.json")).expect("it was written");
    let renamed = text.replace("\"gm\"", "\"mg\"");
    let cut = &text[..text.len() / 2];
    for (torn, message) in [
        (cut, "torn.json: EOF while parsing"),
        ("", "torn.json: EOF while parsing a value at line 1"),
        (&text.replace("\"format\": 1", "\"format\": 99"), "torn.json: format 99 is newer than this program"),
        (&renamed, "torn.json: the parameters of formula '"),
    ] {
        door.write("torn.json", torn);
        for option in ["--truth torn.json", "--truth right.json --model torn.json"] {
            let said = door.exits(2, &format!("{sim} {option} --out r"));
            assert!(said.err.contains(message) && said.out.is_empty(), "{}", said.err);
            assert!(!door.path("r").exists(), "nothing was begun");
        }
    }
    for (options, message) in [
        ("--truth none.json", "none.json: "),
        (
            "--truth right.json --refit --progress-every 2s",
            "the policy believes none; add --model MODEL.json",
        ),
        (
            "--truth right.json --model right.json --refit",
            "learns from reports of progress; add an interval between them, such as --progress-every 10s",
        ),
        ("--model right.json", "the time of a step of resnet18-mini@b8@dp1 is not known"),
    ] {
        let said = door.exits(2, &format!("{sim} {options}"));
        assert!(said.err.contains(message), "{options}: {}", said.err);
    }
}

/// The model predicts 50 ms, and steps take 5 ms. The last job waits for a file, which keeps the run from ending.
#[test]
fn a_run_goes_on_with_the_model_that_it_was_begun_with() {
    let waits = "sh -c 'until test -e go; do sleep 0.02; done'";
    let jobs = format!(
        "a,0,short,,600,\nb,0.1,short@dp2,,200,\nc,0.2,short,,600,\nlast,0.2,,{waits},1,1000000000000\n"
    );
    let header = "name,submit_s,job,command,steps,step_ns\n";
    let Some(door) = run::door_to_two(&format!("{header}{jobs}")) else { return };
    model(&door, "model.json", "GPU", &[("short", 0.5)]);
    let begin = "run trace.csv --policy srtf --switch-cost 50ms --model model.json --refit --any-device";
    let mut sched = Background::start(door.command(&format!("{begin} {}", run::ON_TWO)));
    let journal = door.path("r/decisions.jsonl");
    wait_until("the model has learned", || {
        fs::read_to_string(&journal).is_ok_and(|text| text.contains("\"model_version\":2"))
    });
    sched.send(Signal::INT);
    let (code, said) = sched.wait();
    assert_eq!(code, Some(130), "{said}");
    let kept = RunDir::open(&door.path("r")).expect("it was begun").manifest().expect("it reads");
    let scheduling = kept.scheduling.expect("it is a run of sched");
    let [FittedFile { name, .. }] = &scheduling.fitted[..] else { panic!("{:?}", scheduling.fitted) };
    assert_eq!((&**name, &scheduling.fitted_model[..], scheduling.refit), ("model.json", &[0][..], true));

    let kept = door.path("r/inputs/model-0.json");
    let text = fs::read_to_string(&kept).expect("it is a copy");
    fs::write(&kept, text.replacen("\"seed\": 1", "\"seed\": 2", 1)).expect("it is ours");
    let said = door.exits(2, "run --resume r --yes");
    let why = "model-0.json: it is not the model.json that the run was begun with; put it back";
    assert!(said.err.contains(why), "{}", said.err);
    fs::write(&kept, text).expect("it is ours");

    model(&door, "model.json", "GPU", &[("short", 0.1)]);
    door.write("go", "");
    door.exits(0, "run --resume r --yes");
    let said = door.exits(0, "replay r");
    assert!(said.out.contains("every decision as it was recorded"), "{}", said.out);
    let turns = turns(&door, "r");
    assert!(turns.is_sorted_by_key(|turn| turn.model_version), "a resumed run knows what it has learned");
    assert!(
        turns[0].model_version == Some(0) && turns.last().is_some_and(|turn| turn.model_version > Some(1))
    );
}

#[test]
fn a_run_without_a_fitted_model_says_nothing_of_one() {
    let door = door();
    measured(&door, "table");
    door.write(
        "t.csv",
        "name,submit_s,job,steps,step_ns\na,0,lstm@b8@dp1,100,7000000\nb,0,any,100,7000000\n",
    );
    door.exits(
        0,
        "sim t.csv --policy srtf --cluster 1x1 --switch-cost 0s --table table --progress-every 1s --out r",
    );
    for file in ["decisions.jsonl", "manifest.toml"] {
        let text = fs::read_to_string(door.path("r").join(file)).expect("it was written");
        assert!(!["model_version", "fitted", "refit"].iter().any(|word| text.contains(word)), "{text}");
    }
    assert!(!door.path("r/inputs/model-0.json").exists());
}
