//! Simulations at the times of measured tables.

use front_door::Door;
use record::{
    group::Group,
    manifest::{Cell, DeviceFacts, Machine, Manifest, Settings},
    rows::{self, Interference, Summary},
    run_dir::RunDir,
};
use schema::{FORMAT, device::Device, plan::Plan, sharing::Sharing};

use super::totals;

fn core(number: u16) -> Device {
    Device::Cpu(vec![number])
}

fn lstm_on(device: Device) -> Cell {
    Cell {
        name: format!("lstm@b8@dp1@on={device}"),
        sharing: Sharing::Alone,
        job: "lstm@b8@dp1".into(),
        workload: "lstm".into(),
        command: None,
        all_reduce_bytes: None,
        global_batch: Some(8),
        plan: Some(Plan::default()),
        devices: vec![device],
        memory_estimate_bytes: None,
        unsupported: None,
        ..Cell::default()
    }
}

/// A run that measured `lstm@b8@dp1` alone on a core, ten batches per second, and slower by a quarter beside another job on the
/// next core.
pub(crate) fn measured(door: &Door, name: &str) {
    measured_at(door, name, 80.0);
}

/// The same with another rate alone.
pub(crate) fn measured_at(door: &Door, name: &str, samples_per_s: f64) {
    let facts = |device| DeviceFacts {
        device,
        name: "CPU".into(),
        memory_bytes: None,
        peak_flops: Default::default(),
        capabilities: Default::default(),
        chip: Default::default(),
        topology: Default::default(),
    };
    let members = [lstm_on(core(0)), lstm_on(core(1))];
    let neighbours = Group {
        name: "neighbours".into(),
        sharing: Sharing::TIME_SLICE,
        members: members.each_ref().map(|cell| cell.name.clone()).into(),
        unsupported: None,
    };
    let beside = |seat: u32| Interference {
        workload: "lstm".into(),
        plan: Some(Plan::default()),
        global_batch: Some(8),
        device: format!("cpu:{seat}"),
        sharing: Sharing::TIME_SLICE,
        group: "neighbours".into(),
        seat,
        blocks: 3,
        slowdown: Some(1.25),
        slowdown_ci_lo: Some(1.2),
        slowdown_ci_hi: Some(1.3),
        ..Interference::default()
    };
    let run = RunDir::create(&door.path(name)).unwrap();
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
        devices: [0, 1].map(core).map(facts).into(),
        cells: members.into(),
        groups: vec![neighbours],
        scheduling: None,
    })
    .unwrap();
    let mut summary: Summary = rows::from_json(
        r#"{"run": "r", "job": "lstm@b8@dp1", "workload": "lstm", "plan": "dp1", "device": "cpu:0", "threads": 1,
        "sharing": "alone", "global_batch": 8, "repeats": 3, "repeats_failed": 0, "warnings": "",
        "step_ns_median": 99000000, "samples_per_s": 80.0, "status": "ok"}"#,
    )
    .unwrap();
    summary.samples_per_s = Some(samples_per_s);
    rows::write(&run.summary_path(), &[summary]).unwrap();
    rows::write(&run.interference_path(), &[0, 1].map(beside)).unwrap();
}

#[test]
fn what_was_measured_says_how_long_jobs_take_and_what_was_not_is_told() {
    let door = crate::door();
    measured(&door, "alone");
    door.write("t.csv", "name,submit_s,job,steps\na,0,lstm@b8@dp1,100\n");
    let alone = totals(&door, "t.csv --policy fifo --cluster 1x1 --switch-cost 0s --table alone");
    let jct_s = alone[0].jct_ns_mean.unwrap() as f64 / 1e9;
    assert!((jct_s - 10.0).abs() < 1e-6, "{jct_s}: the mean of steps counts, and not their median");

    // As neighbours both are slower to the end, and on nodes of their own neither is.
    door.write("t.csv", "name,submit_s,job,steps\na,0,lstm@b8@dp1,100\nb,0,lstm@b8@dp1,100\n");
    for (nodes, expected) in [("1x2", 12.5), ("2x1", 10.0)] {
        let arguments = format!("t.csv --policy fifo --cluster {nodes} --switch-cost 0s --table alone");
        let jct_s = totals(&door, &arguments)[0].jct_ns_mean.unwrap() as f64 / 1e9;
        assert!((jct_s - expected).abs() < 1e-6, "{nodes}: {jct_s}");
    }

    // A duration of 20 s is this number of its steps.
    let made = door.exits(0, "trace make lstm@b8 --jobs 2 --every 1s --length fixed:20s --table alone");
    assert_eq!(made.out.matches(",200,").count(), 2, "{}", made.out);

    door.write("t.csv", "name,submit_s,job,steps\na,0,lstm@b16@dp1,100\n");
    let arguments = "sim t.csv --policy fifo --cluster 1x1 --switch-cost 0s --table alone";
    let said = door.exits(1, arguments);
    let lacks = "jobs wait (1), and the policy starts none of them; a: the time of a step of lstm under dp1 on 1 device alone is not known; \
         run `profile single lstm@b16@dp1 --out runs/more` first, and give --table runs/more as well";
    assert!(said.err.contains(lacks), "a batch of 16 was not measured: {}", said.err);
    // A policy that decides in rounds asks again in each round.
    for policy in ["las", "themis", "gittins", "srtf:every=300s", "sia", "gavel", "optimus"] {
        let said = door.exits(1, &arguments.replace("fifo", policy));
        assert!(
            said.err.contains("jobs wait (1), and the policy starts none of them"),
            "{policy}: {}",
            said.err
        );
    }
}
