//! The memory of devices bounds what shares them: for policies, and for simulated launches.

use formats::rows::Outcome;
use front_door::Door;
use record::{
    group::Group,
    manifest::{Cell, DeviceFacts, Machine, Manifest, Settings},
    rows::{self, ErrorKind, Interference, Summary},
    run_dir::RunDir,
};
use schema::{FORMAT, device::Device, plan::Plan, sharing::Sharing};

const GIB: u64 = 1 << 30;

/// Writes a run that measured `lstm@b8@dp1` with a peak of 10 GiB: 100 ms for a step alone, and hardly longer beside another on the device.
fn write_pairs(door: &Door) {
    let device = Device::Cuda(0);
    let cell = Cell {
        name: "lstm@b8@dp1".into(),
        sharing: Sharing::Alone,
        job: "lstm@b8@dp1".into(),
        workload: "lstm".into(),
        command: None,
        all_reduce_bytes: None,
        global_batch: Some(8),
        plan: Some(Plan::default()),
        devices: vec![device.clone()],
        memory_estimate_bytes: None,
        unsupported: None,
        ..Cell::default()
    };
    let pair = Group {
        name: "pair".into(),
        sharing: Sharing::TIME_SLICE,
        members: vec![cell.name.clone(), cell.name.clone()],
        unsupported: None,
    };
    let facts = DeviceFacts {
        device,
        name: "GPU".into(),
        memory_bytes: None,
        peak_flops: Default::default(),
        capabilities: Default::default(),
        chip: Default::default(),
        topology: Default::default(),
    };
    let beside = |seat: u32| Interference {
        workload: "lstm".into(),
        plan: Some(Plan::default()),
        global_batch: Some(8),
        device: "cuda:0".into(),
        sharing: Sharing::TIME_SLICE,
        group: "pair".into(),
        seat,
        blocks: 3,
        slowdown: Some(1.1),
        slowdown_ci_lo: Some(1.09),
        slowdown_ci_hi: Some(1.11),
        ..Interference::default()
    };
    let run = RunDir::create(&door.path("pairs")).unwrap();
    run.write_manifest(&Manifest {
        format: FORMAT,
        started_utc: "2026-11-22T00:00:00Z".into(),
        command: vec!["profile".into()],
        version: "0.1.0".into(),
        git_revision: None,
        seed: 1,
        tags: Vec::new(),
        settings: Settings::default(),
        folder: None,
        machine: Machine::default(),
        devices: vec![facts],
        cells: vec![cell],
        groups: vec![pair],
        scheduling: None,
    })
    .unwrap();
    let alone: Summary = rows::from_json(&format!(
        r#"{{"run": "pairs", "job": "lstm@b8@dp1", "workload": "lstm", "plan": "dp1", "device": "cuda:0", "threads": 1,
        "sharing": "alone", "global_batch": 8, "repeats": 3, "repeats_failed": 0, "warnings": "", "step_ns_mean": 100000000,
        "step_ns_median": 100000000, "step_ns_median_ci_lo": 99000000, "step_ns_median_ci_hi": 101000000,
        "samples_per_s": 80.0, "peak_memory_bytes": {}, "status": "ok"}}"#,
        10 * GIB
    ))
    .unwrap();
    rows::write(&run.summary_path(), &[alone]).unwrap();
    rows::write(&run.interference_path(), &[0, 1].map(beside)).unwrap();
}

fn door_with(device_memory: &str) -> Door {
    let door = crate::door();
    write_pairs(&door);
    let cluster = format!(
        "[[nodes]]\ncount = 1\ndevices = 1\ndevice_type = \"GPU\"\ndevice_memory = \"{device_memory}\"\n"
    );
    door.write("cluster.toml", &cluster);
    let trace =
        "name,submit_s,job,steps,class\na,0,lstm@b8@dp1,1000,guaranteed\nb,1,lstm@b8@dp1,900,best-effort\n";
    door.write("t.csv", trace);
    door
}

fn outcomes(door: &Door, policy: &str) -> Vec<Outcome> {
    let arguments = "--cluster cluster.toml --table pairs --switch-cost 0s --out r";
    door.exits(0, &format!("sim t.csv --policy {policy} {arguments}"));
    let outcomes = rows::read(&door.path("r/outcomes.csv")).expect("it reads back");
    std::fs::remove_dir_all(door.path("r")).expect("it is there");
    outcomes
}

#[test]
fn no_policy_packs_jobs_that_need_more_memory_together_than_a_device_has() {
    let packed = |row: &Outcome| row.packed_ns.unwrap_or(0) > 0;
    for policy in ["packing-fifo", "antman"] {
        for (memory, packs) in [("12GiB", false), ("20GiB", true), ("24GiB", true)] {
            let outcomes = outcomes(&door_with(memory), policy);
            assert_eq!(outcomes.iter().all(packed), packs, "{policy} {memory}: {outcomes:?}");
            assert!(
                outcomes.iter().all(|row| row.err.is_none() && row.retries == 0),
                "{policy}: {outcomes:?}"
            );
        }
    }
}

/// Starts each job on device 0 as soon as it waits, and one after another once two did not fit.
const BOTH: &str = "import json, sys
jobs, apart = {}, False
for turn in map(json.loads, sys.stdin):
    jobs.update((job['job'], job['state']) for job in turn['jobs'])
    apart = apart or 'do_not_fit' in turn
    waits = [job for job in jobs if jobs[job] == 'waiting']
    is_free = all(state in ('waiting', 'ended') for state in jobs.values())
    starts = (waits[:1] if is_free else []) if apart else waits
    actions = [{'start': {'job': job, 'devices': [0], 'plan': 'dp1'}} for job in starts]
    print(json.dumps({'turn': turn['turn'], 'actions': actions}), flush=True)
";

#[test]
fn a_simulated_launch_that_does_not_fit_beside_another_runs_out_of_memory() {
    let run = |memory: &str| {
        let door = door_with(memory);
        door.write("both.py", BOTH);
        let arguments = "sim t.csv --cluster cluster.toml --table pairs --switch-cost 0s --out r --policy";
        let said = door.command(arguments).arg("exec:python3 both.py").output().expect("it starts");
        assert_eq!(said.status.code(), Some(0), "{}", String::from_utf8_lossy(&said.stderr));
        let outcomes: Vec<Outcome> = rows::read(&door.path("r/outcomes.csv")).expect("it reads back");
        let journal = std::fs::read_to_string(door.path("r/decisions.jsonl")).expect("it was written");
        (outcomes.iter().map(|row| (row.end_ns.unwrap_or(0) / 1_000_000_000, row.starts)).collect(), journal)
    };
    // Packed from 1 s on, a step takes 110 ms. The second job does 900 steps in 99 s.
    let (ends, journal): (Vec<(u64, u32)>, String) = run("20GiB");
    assert_eq!(ends, [(109, 1), (100, 1)]);
    let word = rows::to_json(&ErrorKind::OutOfMemory);
    assert!(!journal.contains(&word), "{journal}");
    // The second job fails at once, and runs when the first has ended.
    let (ends, journal) = run("12GiB");
    assert_eq!(ends, [(100, 1), (190, 2)]);
    assert!(journal.contains(&word), "{word}: {journal}");
    assert!(journal.contains("it needs 10.0 GiB beside 10.0 GiB of others"), "{journal}");
}
