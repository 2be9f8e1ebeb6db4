//! Rows of groups, joined from what a run of `profile colocate` leaves.

use proptest::prelude::*;
use record::{
    calibration::{AllReduceRow, Calibration, CopyRow, Measured, MemoryRow, RestartRow, SpinRow, Switch},
    group::Group,
    manifest::{DeviceFacts, Machine, Settings},
    rows::{Definition, Direction, ErrorKind, Status, Warning},
};
use schema::{
    FORMAT, device::Device, footprint::Footprint, sharing::Sharing, spec::Collectives, wire::Timing,
};

use super::*;

fn core(core: u16) -> Device {
    Device::Cpu(vec![core])
}

fn cell(workload: &str, device: u16) -> Cell {
    Cell {
        name: format!("{workload}@b4@dp1@on=cpu:{device}"),
        sharing: Sharing::Alone,
        job: format!("{workload}@b4@dp1"),
        workload: workload.into(),
        command: None,
        all_reduce_bytes: None,
        global_batch: Some(4),
        plan: Some("dp1".parse().expect("canonical")),
        devices: vec![core(device)],
        memory_estimate_bytes: None,
        unsupported: None,
        ..Cell::default()
    }
}

fn group(sharing: &str, members: &[&Cell]) -> Group {
    let members: Vec<String> = members.iter().map(|cell| cell.name.clone()).collect();
    let sharing = sharing.parse().expect("canonical");
    Group { name: members.join("+"), sharing, members, unsupported: None }
}

/// A row of a cell that took `step_ns` a step in a block, and used this percentage of its device.
fn row(cell: &Cell, block: u32, step_ns: u64, util: f64) -> Measurement {
    Measurement {
        run: "r".into(),
        repeat: block,
        job: cell.job.clone(),
        workload: cell.workload.clone(),
        plan: cell.plan,
        device: jobs::cells::joined(&cell.devices),
        steps_used: 10,
        window_ns: Some(10 * step_ns),
        timing: Some(Timing::Host),
        device_util_percent_mean: Some(util),
        peak_memory_bytes: Some(1_000_000),
        ..Measurement::default()
    }
}

fn seated(group: &Group, seat: u32, row: Measurement) -> Measurement {
    Measurement { group: Some(group.name.clone()), seat: Some(seat), sharing: group.sharing.clone(), ..row }
}

fn source(cells: Vec<Cell>, groups: Vec<Group>, measurements: Vec<Measurement>) -> Source {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let facts = |device| DeviceFacts {
        device: core(device),
        name: "a core".into(),
        memory_bytes: Some(1 << 30),
        peak_flops: [("fp32".to_string(), 1e9)].into(),
        capabilities: BTreeMap::new(),
        chip: [("l2_cache_bytes".to_string(), 1 << 20)].into(),
        topology: BTreeMap::new(),
    };
    Source {
        run: RunDir::create(&folder.path().join("r")).expect("the folder is writable"),
        manifest: Manifest {
            format: FORMAT,
            started_utc: "2026-11-22T00:00:00Z".into(),
            command: vec!["profile".into()],
            version: "0.1.0".into(),
            git_revision: None,
            seed: 1,
            tags: Vec::new(),
            settings: Settings { loaders: 2, ..Settings::default() },
            folder: None,
            machine: Machine { cpu: Some("a CPU".into()), cores: Some(2), ..Machine::default() },
            devices: vec![facts(0), facts(1)],
            cells,
            groups,
            scheduling: None,
        },
        measurements,
        summaries: Vec::new(),
        interference: Vec::new(),
        specs: BTreeMap::new(),
        footprints: Vec::new(),
    }
}

fn exported(source: &Source) -> Vec<ExportRow> {
    source.rows(&Catalog::embedded(), None).expect("the manifest names all of them")
}

#[test]
fn a_seat_stands_beside_what_it_does_alone_and_who_it_ran_with() {
    let (gpt2, lstm) = (cell("gpt2", 0), cell("lstm", 0));
    let pair = group("step-gate:8:2/1", &[&gpt2, &lstm]);
    let mut source = source(
        vec![gpt2.clone(), lstm.clone()],
        vec![pair.clone()],
        vec![
            row(&gpt2, 0, 100, 90.0),
            row(&lstm, 0, 1_000, 40.0),
            seated(&pair, 0, row(&gpt2, 0, 300, 100.0)),
            seated(&pair, 1, row(&lstm, 0, 1_500, 100.0)),
            row(&gpt2, 0, 144, 94.0),
            row(&gpt2, 1, 999, 98.0),
        ],
    );
    source.interference = vec![Interference {
        group: pair.name.clone(),
        sharing: pair.sharing.clone(),
        seat: 1,
        blocks: 3,
        slowdown: Some(1.5),
        slowdown_ci_lo: Some(1.4),
        slowdown_ci_hi: Some(1.6),
        valid: true,
        ..Interference::default()
    }];
    let rows = exported(&source);
    let [first, _, one, other, ..] = &rows[..] else { panic!("a row each") };
    assert_eq!((first.group_size, first.step_ns_alone, &first.co_runners), (1, None, &None));

    assert_eq!((one.group_size, one.co_runners.as_deref()), (2, Some("lstm@b4@dp1@on=cpu:0")));
    // The geometric mean of both launches alone of the same block, and of no other.
    assert_eq!((one.step_ns_alone, one.slowdown_in_block), (Some(120), Some(2.5)));
    assert_eq!(one.alone_device_util_percent, Some(94.0), "over all blocks");
    assert_eq!(one.co_runners_alone_device_util_percent, Some(40.0));
    assert_eq!(one.co_runners_alone_peak_memory_bytes, Some(1_000_000));
    assert_eq!((one.alone_sm_util_percent, one.co_runners_alone_sm_util_percent), (None, None));
    assert_eq!((one.sharing_mode.as_str(), one.quantum_steps, one.quantum_ns), ("step-gate", Some(8), None));
    assert_eq!((one.weight_share, one.co_runners_on_device), (Some(2.0 / 3.0), Some(1)));
    assert_eq!((one.slowdown, one.valid), (None, false), "no ratio is known of this seat");

    assert_eq!(other.co_runner_workloads.as_deref(), Some("gpt2"));
    assert_eq!((other.blocks, other.slowdown, other.slowdown_ci_hi), (Some(3), Some(1.5), Some(1.6)));
    assert!(first.valid && other.valid);
    assert_eq!(one.split_key, other.split_key, "both seats of a group stand on one side");
    assert_ne!(one.split_key, first.split_key);
    assert_eq!(
        (one.family.as_deref(), one.hidden, one.definition),
        (Some("gpt2"), Some(768), Some(Definition::Catalog))
    );
    assert_eq!((one.device_peak_flops_per_s, one.device_l2_cache_bytes), (Some(1e9), Some(1 << 20)));
    assert_eq!((one.loaders, one.real_data, one.collectives), (Some(2), Some(false), None));
}

#[test]
fn a_job_may_be_in_a_group_twice_and_beside_itself_on_another_device() {
    let (here, there) = (cell("lstm", 0), cell("lstm", 1));
    let twice = group("time-slice", &[&here, &here, &there]);
    let seats =
        (0..3).map(|seat| seated(&twice, seat, row(if seat < 2 { &here } else { &there }, 0, 300, 50.0)));
    let source = source(vec![here.clone(), there.clone()], vec![twice.clone()], seats.collect());
    let rows = exported(&source);
    for (row, on_device) in rows.iter().zip([1, 1, 0]) {
        assert_eq!((row.group_size, row.co_runners_on_device), (3, Some(on_device)));
        assert_eq!(row.co_runner_workloads.as_deref(), Some("lstm;lstm"));
        assert_eq!((row.step_ns_alone, row.slowdown_in_block, row.weight_share), (None, None, None));
    }
}

#[test]
fn what_could_not_run_or_failed_keeps_its_features() {
    let (gpt2, vae) = (cell("gpt2", 0), cell("vae", 0));
    let pair = group("time-slice", &[&gpt2, &vae]);
    let refused = Measurement {
        status: Status::Unsupported,
        err: Some(ErrorKind::Unsupported),
        // The seat is known by the job where the row says nothing of it.
        seat: None,
        ..seated(
            &pair,
            1,
            Measurement { steps_used: 0, window_ns: None, timing: None, ..row(&vae, 0, 0, 0.0) },
        )
    };
    let failed = Measurement {
        status: Status::Failed,
        err: Some(ErrorKind::Contaminated),
        ..seated(&pair, 0, row(&gpt2, 0, 9, 9.0))
    };
    let alone = Measurement { status: Status::Failed, ..row(&gpt2, 0, 5, 5.0) };
    let rows = exported(&source(vec![gpt2, vae], vec![pair], vec![refused, failed, alone]));
    assert_eq!(
        (rows[0].status, rows[0].image, rows[0].co_runner_workloads.as_deref()),
        (Status::Unsupported, Some(28), Some("gpt2"))
    );
    assert_eq!(
        (rows[1].status, rows[1].err, rows[1].layers),
        (Status::Failed, Some(ErrorKind::Contaminated), Some(12))
    );
    assert_eq!(rows[1].step_ns_alone, None, "a launch that failed is no time to hold another against");
    assert_eq!(rows[0].split_key, rows[1].split_key);
}

#[test]
fn a_job_alone_is_valid_where_nothing_makes_its_numbers_doubtful() {
    let lstm = cell("lstm", 0);
    let good = row(&lstm, 0, 100, 90.0);
    let with = |warning| Measurement { warnings: [warning].into_iter().collect(), ..good.clone() };
    let failed = Measurement { status: Status::Failed, ..good.clone() };
    let rows = vec![good.clone(), with(Warning::Unread), with(Warning::Foreign), failed];
    let exported = exported(&source(vec![lstm], vec![], rows));
    assert_eq!(exported.iter().map(|row| row.valid).collect::<Vec<_>>(), [true, true, false, false]);
}

#[test]
fn a_group_or_a_cell_that_the_manifest_does_not_name_is_an_error() {
    let (gpt2, vae) = (cell("gpt2", 0), cell("vae", 0));
    let pair = group("time-slice", &[&gpt2, &vae]);
    let other_mode = Measurement {
        sharing: "sequential".parse().expect("canonical"),
        ..seated(&pair, 0, row(&gpt2, 0, 9, 9.0))
    };
    let (both, one) = (vec![gpt2.clone(), vae.clone()], vec![gpt2.clone()]);
    for (cells, measurement, message) in [
        (&one, row(&vae, 0, 1, 1.0), "manifest.toml has no such cell"),
        (&both, other_mode, "has no group 'gpt2@b4@dp1@on=cpu:0+vae@b4@dp1@on=cpu:0' under sequential"),
        (&both, seated(&pair, 2, row(&gpt2, 0, 9, 9.0)), "has no such member"),
        (&one, seated(&pair, 0, row(&gpt2, 0, 9, 9.0)), "manifest.toml has no cell 'vae@b4@dp1@on=cpu:0'"),
    ] {
        let source = source(cells.clone(), vec![pair.clone()], vec![measurement]);
        let error = source.rows(&Catalog::default(), None).expect_err("nothing is guessed");
        assert!(format!("{error:#}").contains(message), "{error:#}");
    }
}

#[test]
fn activations_are_those_of_the_plan_that_was_measured() {
    let lstm = cell("lstm", 0);
    let mut source = source(vec![lstm.clone()], vec![], vec![row(&lstm, 0, 100, 90.0)]);
    let known = |plan: &str, stage: u32, bytes: u64| MeasuredFootprint {
        workload: "lstm".into(),
        plan: plan.parse().expect("canonical"),
        stage,
        device: core(0),
        threads: 1,
        footprint: Footprint {
            micro_batches: [2, 4],
            parameters: 1,
            model_bytes: 44,
            data_bytes: 0,
            persistent_bytes: 0,
            building_bytes: 0,
            forward_bytes: [100 + 2 * bytes, 100 + 4 * bytes],
            gradient_bytes: 0,
            peak: vec![],
        },
    };
    source.footprints =
        vec![known("dp2-ga2-gc", 0, 7), known("dp1", 0, 30), known("pp2-ga3", 0, 8), known("pp2-ga3", 1, 9)];
    let plan = |spelling: &str| Some(spelling.parse().expect("canonical"));
    for (spelling, bytes) in
        [("dp1", Some(30)), ("ga4", None), ("dp2-ga4-gc", Some(7)), ("pp2-ga8", Some(9)), ("bf16", None)]
    {
        source.manifest.cells[0].plan = plan(spelling);
        assert_eq!(exported(&source)[0].activation_bytes_per_sample, bytes, "{spelling}");
    }
}

fn no_calibration(source: &Source) -> Calibration {
    Calibration {
        format: FORMAT,
        measured_utc: String::new(),
        command: vec![],
        version: String::new(),
        git_revision: None,
        seed: 1,
        run: None,
        pool: vec![core(0), core(1)],
        machine: source.manifest.machine.clone(),
        spin: vec![],
        memory: vec![],
        copy: vec![],
        all_reduce: vec![],
        restart: vec![],
        suspend: vec![],
        not_measured: vec![],
    }
}

#[test]
fn a_calibration_is_of_the_devices_of_the_row() {
    let (here, there) = (cell("lstm", 0), cell("vae", 1));
    let pair = group("time-slice", &[&here, &there]);
    let rows = vec![row(&here, 0, 100, 90.0), seated(&pair, 1, row(&there, 0, 100, 90.0))];
    let source = source(vec![here, there], vec![pair], rows);
    let copy = |bytes, bytes_per_s| CopyRow {
        device: core(1),
        direction: Direction::HostToDevice,
        bytes,
        bytes_per_s: Measured { value: bytes_per_s, interval: Some([1, 3]) },
        repeats: 2,
    };
    let restart = |part, ns| RestartRow {
        job: "vae@b4@dp1".into(),
        devices: vec![core(1)],
        part,
        ns: Measured { value: ns, interval: Some([1, 2]) },
        bytes: None,
        repeats: 2,
    };
    let triad = MemoryRow {
        devices: vec![core(0)],
        array_bytes: 1,
        bytes_per_s: Measured { value: 20, interval: Some([19, 21]) },
        repeats: 2,
    };
    let spin = |devices, ratio| SpinRow {
        devices,
        cores: [0, 1],
        ratio: Measured { value: ratio, interval: Some([1.0, 1.5]) },
        repeats: 2,
    };
    let calibration = Calibration {
        spin: vec![
            spin([core(0), core(1)], 1.25),
            spin([core(1), core(0)], 1.125),
            spin([core(1), core(2)], 2.0),
        ],
        memory: vec![triad],
        copy: vec![copy(1, 9), copy(1 << 20, 2)],
        restart: vec![restart(Switch::Start, 5), restart(Switch::Total, 6)],
        ..no_calibration(&source)
    };
    assert!(is_of(&calibration, source.manifest()));
    let rows = source.rows(&Catalog::embedded(), Some(&calibration)).expect("the manifest names both");
    let [alone, beside] = &rows[..] else { panic!("a row each") };
    assert_eq!((alone.triad_bytes_per_s, alone.triad_bytes_per_s_ci_hi), (Some(20), Some(21)));
    assert_eq!((beside.triad_bytes_per_s, beside.host_to_device_bytes_per_s), (None, Some(2)));
    assert_eq!((alone.spin_ratio, beside.spin_ratio, beside.spin_ratio_ci_lo), (None, Some(1.25), Some(1.0)));
    assert_eq!((alone.restart_ns, beside.restart_ns, beside.all_reduce_latency_ns), (None, Some(6), None));

    let elsewhere = Machine { cores: Some(64), ..calibration.machine.clone() };
    assert!(!is_of(&Calibration { machine: elsewhere, ..calibration }, source.manifest()));
}

#[test]
fn latency_is_of_the_smallest_all_reduce_between_the_devices_and_bandwidth_of_the_largest() {
    let both = vec![core(0), core(1)];
    let on_both =
        Cell { plan: Some("dp2".parse().expect("canonical")), devices: both.clone(), ..cell("lstm", 0) };
    let rows = vec![row(&on_both, 0, 100, 90.0)];
    let mut source = source(vec![on_both], vec![], rows);
    let all_reduce = |devices: &[Device], collectives, bytes, time_ns| AllReduceRow {
        devices: devices.to_vec(),
        collectives,
        bytes,
        time_ns: Measured { value: time_ns, interval: Some([time_ns - 1, time_ns + 1]) },
        algorithm_bytes_per_s: Measured { value: 1, interval: Some([1, 1]) },
        bus_bytes_per_s: Measured { value: bytes * 10, interval: Some([bytes * 9, bytes * 11]) },
        repeats: 2,
    };
    let calibration = Calibration {
        all_reduce: vec![
            all_reduce(&both, Collectives::Gloo, 1 << 20, 900),
            all_reduce(&both, Collectives::Gloo, 1 << 10, 30),
            all_reduce(&both, Collectives::Nccl, 1 << 9, 20),
            all_reduce(&both, Collectives::Nccl, 1 << 21, 200),
            all_reduce(&[core(0), core(2)], Collectives::Gloo, 1, 1),
        ],
        ..no_calibration(&source)
    };
    for (named, latency_ns, bytes) in
        [(None, 20, 1 << 21), (Some(Collectives::Gloo), 30, 1 << 20), (Some(Collectives::Nccl), 20, 1 << 21)]
    {
        source.manifest.settings.collectives = named;
        let rows = source.rows(&Catalog::embedded(), Some(&calibration)).expect("the manifest names it");
        let row = &rows[0];
        assert_eq!(row.collectives, named);
        assert_eq!(
            (row.all_reduce_latency_ns, row.all_reduce_latency_ns_ci_hi),
            (Some(latency_ns), Some(latency_ns + 1))
        );
        assert_eq!(
            (row.all_reduce_bus_bytes_per_s, row.all_reduce_bus_bytes_per_s_ci_lo),
            (Some(bytes * 10), Some(bytes * 9)),
            "{named:?}"
        );
    }
}

#[test]
fn threads_of_the_optimizer_on_the_host_are_those_of_plans_with_offload() {
    for (spelling, threads) in [("dp1", None), ("offload", Some(3))] {
        let cell = Cell { plan: Some(spelling.parse().expect("canonical")), ..cell("lstm", 0) };
        let rows = vec![row(&cell, 0, 100, 90.0)];
        let mut source = source(vec![cell], vec![], rows);
        source.manifest.settings.offload_threads = Some(3);
        let rows = source.rows(&Catalog::embedded(), None).expect("the manifest names it");
        assert_eq!(rows[0].offload_threads, threads, "{spelling}");
    }
}

proptest! {
    /// Runs of other groups, orders, devices and sharing modes: rows of one workload beside the same ones share their key.
    #[test]
    fn no_split_by_the_key_parts_rows_of_the_same_company(
        groups in prop::collection::vec(
            (prop::collection::vec((prop::sample::select(vec!["lstm", "vae", "gpt2"]), 0u16..2), 2..5), any::<bool>()),
            1..8,
        ),
    ) {
        let mut seen: BTreeMap<(String, Vec<String>), u32> = BTreeMap::new();
        for (members, in_turns) in groups {
            let cells: Vec<Cell> = members.iter().map(|(workload, device)| cell(workload, *device)).collect();
            let of_group = group(if in_turns { "sequential" } else { "time-slice" }, &cells.iter().collect::<Vec<_>>());
            let seats = cells.iter().enumerate().map(|(seat, cell)| seated(&of_group, seat as u32, row(cell, 0, 5, 5.0)));
            let source = source(cells.clone(), vec![of_group.clone()], seats.collect());
            for row in source.rows(&Catalog::default(), None).expect("the manifest names all of them") {
                let mut others: Vec<String> =
                    row.co_runner_workloads.iter().flat_map(|joined| joined.split(';')).map(String::from).collect();
                others.sort();
                others.dedup();
                let known = *seen.entry((row.workload.clone(), others)).or_insert(row.split_key);
                prop_assert_eq!(known, row.split_key, "{} beside {:?}", row.workload, row.co_runner_workloads);
            }
        }
    }
}
