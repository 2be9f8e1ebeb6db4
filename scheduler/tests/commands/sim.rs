//! Simulated runs by the program, and their replay.

mod large;
mod refused;
mod tables;

use std::fs;

use formats::rows::{Outcome, Prediction, Totals};
use front_door::{Door, Said};
use model::switch_costs::Named;
use record::{
    manifest::SwitchCostFrom,
    rows::{self, Status, Summary, Warning},
    run_dir::RunDir,
};
use schema::sharing::Sharing;

pub(crate) use self::tables::{measured, measured_at};

/// Jobs of 30, 20 and 10 s that arrive in this order at one instant.
const THREE: &str = "name,submit_s,job,steps,step_ns\nlong,0,any,300,100000000\nmiddle,0,any,200,100000000\n\
    short,0,any,100,100000000\n";

fn totals(door: &Door, arguments: &str) -> Vec<Totals> {
    rows::from_json(&door.exits(0, &format!("sim {arguments} --json")).out).expect("it is rows of totals")
}

/// 20,000 s of work for three devices in some 10,000 s, half of it in pairs of devices.
fn busy_trace(door: &Door) {
    let make = "trace make one=1 two@dp2=0.5 --jobs 60 --length exponential:60s --step-time 250ms --every 40s --out t.csv";
    door.exits(0, make);
}

#[test]
fn jobs_take_as_long_as_they_should_in_the_order_of_the_policy() {
    let door = crate::door();
    door.write("t.csv", THREE);
    let found = totals(&door, "t.csv --policy fifo,sjf --cluster 1x1 --switch-cost 0s");
    let [fifo, sjf] = &found[..] else { panic!("{found:?}") };
    for (row, mean_s, median_s, first_mean_s, first_median_s) in [
        (fifo, (30 + 50 + 60) as f64 / 3.0, 50.0, (10 + 40 + 60) as f64 / 3.0, 40.0),
        (sjf, (10 + 30 + 60) as f64 / 3.0, 30.0, (10 + 20 + 40) as f64 / 3.0, 20.0),
    ] {
        let near = |ns: Option<u64>, s: f64| assert!((ns.unwrap() as f64 / 1e9 - s).abs() < 1e-6, "{row:?}");
        near(row.jct_ns_mean, mean_s);
        near(row.jct_ns_median, median_s);
        near(row.jct_ns_p99, 60.0);
        near(row.makespan_ns, 60.0);
        near(row.first_100_ns_mean, first_mean_s);
        near(row.first_100_ns_median, first_median_s);
        assert_eq!((row.preemptions, row.migrations), (Some(0), Some(0)));
        let times = row.decision_times.expect("the policy was asked");
        assert!(
            times.decisions > 0 && times.mean_us <= times.max_us && times.p99_us <= times.max_us,
            "{times:?}"
        );
        assert_eq!((row.jobs, row.ok, row.starts, row.pauses), (3, 3, 3, 0));
        assert!((row.util_percent.unwrap() - 100.0).abs() < 1e-6);
    }
    let said = door.exits(0, "sim t.csv --policy fifo --cluster 1x2:H200 --switch-cost 0s");
    assert!(said.out.contains("fifo") && said.out.contains("average JCT"), "{}", said.out);
}

#[test]
fn a_simulated_run_is_the_same_twice_and_is_decided_again() {
    let door = crate::door();
    busy_trace(&door);
    let arguments = "t.csv --policy srtf,tiresias:100s --cluster 1x2,1x1 --switch-cost 5s --noise 10 --seed 4 --retries 9 \
        --device-mtbf 5000s --device-repair-time 100s --job-mtbf 1h --progress-every 7s --checkpoint-every 20s";
    for out in ["one", "two"] {
        door.exits(0, &format!("sim {arguments} --out {out}"));
    }
    for policy in ["srtf", "tiresias-100s"] {
        for file in ["outcomes.csv", "decisions.jsonl"] {
            let read = |out: &str| fs::read_to_string(door.path(out).join(policy).join(file)).unwrap();
            assert!(read("one") == read("two"), "{policy}/{file}");
        }
        let outcomes: Vec<Outcome> = rows::read(&door.path("one").join(policy).join("outcomes.csv")).unwrap();
        assert!(outcomes.len() == 60 && outcomes.iter().all(|row| row.status == Status::Ok), "{policy}");
        let said = door.exits(0, &format!("replay one/{policy}"));
        assert!(said.out.contains("every decision as it was recorded"), "{}", said.out);
        assert!(RunDir::open(&door.path("one").join(policy)).unwrap().end().unwrap().is_some());
    }

    // A decision that no policy made is detected.
    let journal = door.path("one/srtf/decisions.jsonl");
    let text = fs::read_to_string(&journal).unwrap();
    let started = text.find(r#""devices":[0]"#).expect("a job was started on the first device");
    fs::write(&journal, format!("{}{}", &text[..started], text[started..].replacen("[0]", "[2]", 1)))
        .unwrap();
    let said = door.exits(1, "replay one/srtf");
    assert!(
        said.out.starts_with("srtf: turn ") && said.out.contains("was decided otherwise"),
        "{}",
        said.out
    );
}

/// Two jobs of two devices leave one device free on each of two nodes. A third one waits for a node, or is spread over both.
#[test]
fn a_consolidated_job_waits_for_one_node_and_a_spread_job_does_not() {
    let door = crate::door();
    let row = |name: &str, steps| format!("{name},0,any,{steps},2,1000000000\n");
    let header = "name,submit_s,job,steps,devices,step_ns\n";
    door.write("t.csv", &format!("{header}{}{}{}", row("a", 10), row("b", 30), row("c", 5)));
    for (policy, placement, ends) in [
        ("fifo", "", [10, 30, 15]),
        // The longer one makes room, before its first step.
        ("srtf", "--placement consolidated", [10, 35, 5]),
        ("fifo", "--placement spread --spread-slowdown 2", [10, 30, 10]),
    ] {
        let out = format!("{policy}{}", placement.len());
        let arguments =
            format!("t.csv --policy {policy} --cluster 2x3 --switch-cost 60s {placement} --out {out}");
        let what = totals(&door, &arguments);
        let outcomes: Vec<Outcome> = rows::read(&door.path(&out).join("outcomes.csv")).unwrap();
        let found: Vec<u64> = outcomes.iter().filter_map(|row| Some(row.end_ns? / 1_000_000_000)).collect();
        assert_eq!(found, ends, "{policy} {placement}: {what:?}");
        door.exits(0, &format!("replay {out}"));
    }

    // A run of before the option was spread.
    let manifest = door.path("fifo38/manifest.toml");
    let text = fs::read_to_string(&manifest).unwrap();
    assert!(text.contains("placement = \"spread\"\n"), "{text}");
    fs::write(&manifest, text.replace("placement = \"spread\"\n", "")).unwrap();
    door.exits(0, "replay fifo38");
    let said = door.exits(2, "sim t.csv --policy fifo --cluster 2x3 --switch-cost 0s --placement spread");
    assert!(
        said.err.contains("a may be spread over nodes") && said.err.contains("--spread-slowdown 1.2"),
        "{}",
        said.err
    );
    let said = door.exits(2, "sim t.csv --policy fifo --cluster 2x3 --switch-cost 0s --placement tight");
    assert!(said.err.contains("'tight' is not one of: consolidated, spread"), "{}", said.err);
}

/// A time in a trace holds for the plan and the devices that the job asks for.
#[test]
fn a_job_that_is_resized_has_no_time_in_its_trace() {
    let door = crate::door();
    door.write(
        "t.csv",
        "name,submit_s,job,steps,devices,elastic,step_ns\na,0,any@dp8,10,8,true,1000000000\n",
    );
    let starts = |devices: u32, plan: &str| {
        let numbers: Vec<String> = (0..devices).map(|number| number.to_string()).collect();
        let start =
            format!(r#"{{"start": {{"job": 0, "devices": [{}], "plan": "{plan}"}}}}"#, numbers.join(", "));
        format!(
            "import json, sys\nfor line in sys.stdin:\n    turn = json.loads(line)\n    first = turn['turn'] == 0\n    \
             print(json.dumps({{'turn': turn['turn'], 'actions': [json.loads('{start}')] if first else []}}), flush=True)\n"
        )
    };
    door.write("one.py", &starts(1, "dp1"));
    door.write("all.py", &starts(8, "dp8"));
    let simulate = |program: &str| {
        let mut command = door.command("sim t.csv --cluster 1x8 --switch-cost 0s --json --policy");
        let output = command.arg(format!("exec:python3 {program}")).output().expect("it starts");
        (output.status.code(), Said::of(&output))
    };
    let (code, said) = simulate("all.py");
    let found: Vec<Totals> = rows::from_json(&said.out).expect("it is rows of totals");
    assert_eq!((code, found[0].jct_ns_mean), (Some(0), Some(10_000_000_000)), "{}", said.err);
    let (code, said) = simulate("one.py");
    let why = "the time of a step of any under dp1 on 1 device alone is not known";
    assert!(code == Some(1) && said.err.contains(why), "{}", said.err);
}

/// Times in seconds of jobs `a` and `b` under SRTF on one device, which believes what `options` say.
fn believed(options: &str) -> Vec<u64> {
    let door = crate::door();
    let jobs = "a,0,lstm@b8@dp1,100,100000000\nb,0,any,200,100000000\n";
    door.write("t.csv", &format!("name,submit_s,job,steps,step_ns\n{jobs}"));
    measured(&door, "right");
    measured_at(&door, "wrong", 8.0);
    let sim = "sim t.csv --policy sjf --cluster 1x1 --switch-cost 0s --table right --out r";
    door.exits(0, &format!("{sim} {options}"));
    door.exits(0, "replay r");
    let outcomes: Vec<Outcome> = rows::read(&door.path("r/outcomes.csv")).unwrap();
    outcomes.iter().filter_map(|row| Some(row.end_ns? / 1_000_000_000)).collect()
}

#[test]
fn a_policy_decides_by_what_it_believes_and_jobs_take_as_long_as_they_do() {
    assert_eq!(believed(""), [10, 30]);
    assert_eq!(believed("--model wrong"), [30, 20]);
    assert_eq!(believed("--model trace"), [10, 30]);
    assert_eq!(believed("--truth wrong"), [100, 120]);
    assert_eq!(believed("--truth wrong --model wrong"), [120, 20]);
    assert_eq!(believed("--belief-error 0:1"), [10, 30], "a bias changes no order");
    let orders: std::collections::BTreeSet<Vec<u64>> =
        (0..20).map(|seed| believed(&format!("--belief-error 2 --seed {seed}"))).collect();
    assert_eq!(orders, [vec![10, 30], vec![30, 20]].into());
}

/// In each virtual cluster, a job of 10 s comes before one of 5 s. The last two jobs are not admitted.
#[test]
fn a_described_cluster_is_divided_and_is_kept_in_the_run() {
    let door = crate::door();
    door.write(
        "c.toml",
        "[[nodes]]\ncount = 1\ndevices = 2\nvirtual_cluster = \"a\"\ncpus = 48\nmemory = \"2GiB\"\n\n\
         [[nodes]]\ncount = 2\ndevices = 2\nvirtual_cluster = \"b\"\n",
    );
    let row =
        |name: &str, vc: &str, devices, steps| format!("{name},0,any,{steps},{devices},{vc},1000000000\n");
    let rows = [
        row("a1", "a", 2, 10),
        row("a2", "a", 1, 5),
        row("b1", "b", 4, 10),
        row("b2", "b", 2, 5),
        row("wide", "a", 3, 5),
        row("other", "c", 1, 5),
    ];
    door.write("t.csv", &format!("name,submit_s,job,steps,devices,vc,step_ns\n{}", rows.concat()));
    for policy in ["fifo", "tiresias"] {
        let arguments = format!("t.csv --policy {policy} --cluster c.toml --switch-cost 0s --out {policy}");
        door.exits(1, &format!("sim {arguments}"));
        let run = RunDir::open(&door.path(policy)).unwrap();
        let outcomes: Vec<Outcome> = rows::read(&run.outcomes_path()).unwrap();
        let ends: Vec<u64> = outcomes.iter().filter_map(|row| Some(row.end_ns? / 1_000_000_000)).collect();
        assert_eq!(ends, [10, 15, 10, 15], "{policy}: {outcomes:?}");
        let why: Vec<&str> = outcomes[4..].iter().filter_map(|row| row.err_detail.as_deref()).collect();
        let expected = [
            "asks for 3 devices, and virtual cluster 'a' has 2 of one type",
            "is of virtual cluster 'c', and the cluster is divided into a, b",
        ];
        assert_eq!(why, expected, "{policy}");
        let simulated = run.manifest().unwrap().scheduling.and_then(|of| of.simulated).unwrap();
        let first = &simulated.nodes[0];
        assert_eq!((first.facts.cpus, first.facts.memory_bytes), (Some(48), Some(2 << 30)));
    }
    fs::remove_file(door.path("c.toml")).unwrap();
    let said = door.exits(0, "replay fifo");
    assert!(said.out.contains("every decision as it was recorded"), "{}", said.out);

    door.write("bad.toml", "[[nodes]]\ncount = 1\ndevices = 2\ngpus = 3\n");
    for (cluster, message) in [
        ("bad.toml", "bad.toml: line 4: unknown field `gpus`, expected one of `count`"),
        ("c.toml", "c.toml: line 1: cannot be read"),
        ("bad.toml,2x4", "--cluster names bad.toml and other nodes; describe all nodes in the file"),
        ("1048576x1024", "the cluster has 1073741824 devices; at most 1048576 can be simulated"),
        ("1024x1024,1x1", "the cluster has 1048577 devices; at most 1048576 can be simulated"),
    ] {
        let said = door.exits(2, &format!("sim t.csv --policy fifo --cluster {cluster} --switch-cost 0s"));
        assert!(said.err.contains(message) && said.out.is_empty(), "{cluster}: {}", said.err);
    }
}

/// The spread of a part whose interval is over so many repeats that Student's t is the normal distribution.
#[test]
fn costs_of_any_number_of_repeats_are_drawn() {
    let door = crate::door();
    door.write("t.csv", THREE);
    let record = fs::read_to_string(crate::fit::record("20261124-epyc/testbed/machine.toml")).unwrap();
    door.write("machine.toml", &record.replacen("\njob = \"", "\njob = \"@b", 1));
    let said = door.exits(2, "sim t.csv --policy srtf --cluster 1x1 --machine machine.toml");
    assert!(said.err.contains("machine.toml: restart of @b"), "{}", said.err);
    door.write("machine.toml", &record.replace("\nrepeats = 3\n", "\nrepeats = 4294967295\n"));
    let simulated =
        totals(&door, "t.csv --policy srtf --cluster 1x1 --switch-cost 1s --machine machine.toml");
    assert_eq!(simulated[0].ok, 3);
}

/// A long job is stopped for a short one that needs all devices, and goes on after it.
#[test]
fn a_switch_may_cost_more_for_a_job_of_more_devices() {
    let door = crate::door();
    for (devices, jct_s) in [(8, 100 + 10 + 40), (9, 100 + 10 + 60)] {
        let row = |name: &str, at, steps, devices| format!("{name},{at},any,{steps},{devices},1000000000\n");
        let (long, short) = (row("long", 0, 100, devices), row("short", 10, 10, 16));
        door.write("t.csv", &format!("name,submit_s,job,steps,devices,step_ns\n{long}{short}"));
        let out = format!("on-{devices}");
        door.exits(0, &format!("sim t.csv --policy srtf --cluster 1x16 --switch-cost 40s,9:60s --out {out}"));
        let run = RunDir::open(&door.path(&out)).unwrap();
        let outcomes: Vec<Outcome> = rows::read(&run.outcomes_path()).unwrap();
        assert_eq!(outcomes[0].jct_ns, Some(jct_s * 1_000_000_000), "{devices}: {outcomes:?}");
        let scheduling = run.manifest().unwrap().scheduling.unwrap();
        let from = [SwitchCostFrom { devices: 9, cost_s: 60.0 }];
        assert_eq!((scheduling.switch_cost_s, &scheduling.switch_cost_from[..]), (Some(40.0), &from[..]));
        assert_eq!(Named::recorded(&scheduling), "40s,9:60s".parse().ok());
    }
}

#[test]
fn why_a_job_waits_is_explained_at_any_turn() {
    let door = crate::door();
    door.write("t.csv", THREE);
    door.exits(0, "sim t.csv --policy fifo,sjf,srtf,tiresias:15s --cluster 1x1 --switch-cost 0s --out r");
    for (run, policy_says) in [
        (
            "fifo",
            "fifo: it is number 2 of 2 in the queue, by arrival; middle is to start next, needs 1, and 0 are free",
        ),
        ("srtf", "srtf: its remaining time is 10.0 s as of now"),
        (
            "tiresias-15s",
            "tiresias:15s: it has attained a service of 0 ns and is in queue 1 of 2; it is number 2 of 2 waiting jobs, by queue and \
             first start; it needs 1, 0 are free, and running jobs behind it do not leave enough",
        ),
    ] {
        let said = door.exits(0, &format!("explain r/{run} short --turn 0"));
        assert!(said.out.contains(policy_says), "{run}: {}", said.out);
    }
    let said = door.exits(0, "explain r/sjf middle --turn 0");
    let lines: Vec<&str> = said.out.lines().collect();
    let expected = [
        "after turn 0, at 0 ns: middle has waited since 0 ns for 1 device; 0 of 200 steps were reported",
        "sjf: its length is 20.0 s; it is number 1 of 2 in the queue, by length; it is to start next, needs 1, and 0 are free",
        "  turn 0 at 0 ns: arrived",
    ];
    assert_eq!(lines, expected);
    let said = door.exits(0, "explain r/sjf middle");
    assert!(
        said.out.contains("middle ended at 30.0 s\n")
            && said.out.contains("start on n0/cuda:0 (shortest: middle)"),
        "{}",
        said.out
    );
    for (arguments, message) in [
        ("r/sjf nobody", "r/sjf: inputs/trace.csv has no job 'nobody'"),
        ("r/sjf short --turn 99", "there is no turn 99"),
    ] {
        let said = door.exits(2, &format!("explain {arguments}"));
        assert!(said.err.contains(message), "{}", said.err);
    }
}

#[test]
fn a_time_in_a_trace_is_of_a_type_of_device() {
    let door = crate::door();
    let sim = "sim t.csv --policy fifo --cluster 1x1:A,1x1:B --switch-cost 0s";
    door.write("t.csv", "name,submit_s,job,steps,step_ns\na,0,any,10,1000000000\n");
    let said = door.exits(2, sim);
    let why = "a has a step time in column 'step_ns', and the cluster has several types of device, A and B; add column 'device_type'";
    assert!(said.err.contains(why), "{}", said.err);
    door.write("t.csv", "name,submit_s,job,steps,step_ns,device_type\na,0,any,10,1000000000,B\n");
    door.exits(0, sim);
}

/// Foreign processes used the device while the job was measured.
#[test]
fn what_predictions_stand_on_is_told_where_it_is_doubtful() {
    let door = crate::door();
    measured(&door, "alone");
    let run = RunDir::open(&door.path("alone")).unwrap();
    let mut summaries: Vec<Summary> = rows::read(&run.summary_path()).unwrap();
    door.write("t.csv", "name,submit_s,job,steps\na,0,lstm@b8@dp1,100\nb,0,lstm@b8@dp1,100\n");
    let sim = "sim t.csv --policy fifo --cluster 1x1 --switch-cost 0s --table alone";
    let doubts = "warning: step times of a, b come from rows with warnings: foreign";
    assert!(!door.exits(0, sim).err.contains("warning"));
    summaries[0].warnings.add(Warning::Foreign);
    rows::write(&run.summary_path(), &summaries).unwrap();
    (summaries[0].step_ns_median_ci_lo, summaries[0].step_ns_median_ci_hi) =
        (Some(90_000_000), Some(110_000_000));
    rows::write(&run.summary_path(), &summaries).unwrap();
    let said = door.exits(0, &format!("{sim} --draws 20 --out drawn"));
    assert!(said.err.contains(doubts), "{}", said.err);
    // The interval is that of the median, which is 99 ms, and the mean is 100 ms.
    let predictions: Vec<Prediction> = rows::read(&door.path("drawn/predictions.csv")).unwrap();
    for row in &predictions {
        assert_eq!((row.step_ns, row.step_ns_ci_lo), (Some(100_000_000), Some(90_909_091)));
        assert_eq!((row.step_ns_ci_hi, row.warnings.to_string().as_str()), (Some(111_111_111), "foreign"));
    }
}

#[test]
fn the_sharing_mode_is_kept_in_the_run_and_shown_to_the_policy() {
    let door = crate::door();
    door.write("t.csv", "name,submit_s,job,steps,step_ns\na,0,any,100,100000000\nb,0,any,100,100000000\n");
    // Starts each job on device 0 as soon as it arrives, and keeps what it is shown at first.
    door.write(
        "packs.py",
        "import json, sys\n\
         for turn in map(json.loads, sys.stdin):\n\
         \x20   if 'begin' in turn: open('begin.json', 'w').write(json.dumps(turn['begin']))\n\
         \x20   jobs = [job['job'] for job in turn['jobs'] if job['state'] == 'waiting']\n\
         \x20   start = [{'start': {'job': job, 'devices': [0]}} for job in jobs] if turn['turn'] < 9 else []\n\
         \x20   print(json.dumps({'turn': turn['turn'], 'actions': start}), flush=True)\n",
    );
    for (sharing, jobs_per_device, mean_s) in [("alone", 1, 15.0), ("step-gate:250ms", 2, 20.0)] {
        let mut command = door.command("sim t.csv --cluster 1x1 --switch-cost 0s --json");
        command.args(["--sharing", sharing, "--out", &jobs_per_device.to_string()]);
        let output = command.args(["--policy", "exec:python3 packs.py"]).output().expect("it starts");
        let said = Said::of(&output);
        let found: Vec<Totals> = rows::from_json(&said.out).unwrap_or_else(|_| panic!("{}", said.err));
        let jct_s = found[0].jct_ns_mean.unwrap() as f64 / 1e9;
        assert!((jct_s - mean_s).abs() < 1e-6, "{sharing}: {jct_s}");
        let begin = fs::read_to_string(door.path("begin.json")).unwrap();
        let shown = format!("\"sharing\": \"{sharing}\", \"jobs_per_device\": {jobs_per_device}");
        assert!(begin.contains(&shown), "{begin}");
        let run = RunDir::open(&door.path(&jobs_per_device.to_string())).unwrap();
        assert_eq!(run.manifest().unwrap().scheduling.unwrap().sharing.to_string(), sharing);
        let said = door.exits(0, &format!("replay {jobs_per_device} --yes"));
        assert!(said.out.contains("every decision as it was recorded"), "{}", said.out);
    }
    // Runs from before the option shared by time slices.
    let manifest = door.path("2/manifest.toml");
    let text = fs::read_to_string(&manifest).unwrap().replace("sharing = \"step-gate:250ms\"\n", "");
    fs::write(&manifest, text).unwrap();
    let run = RunDir::open(&door.path("2")).unwrap();
    assert_eq!(run.manifest().unwrap().scheduling.unwrap().sharing, Sharing::TIME_SLICE);
}
