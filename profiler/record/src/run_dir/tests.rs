use std::{os::unix::fs::symlink, sync::Barrier, thread};

use proptest::prelude::*;
use schema::{
    FORMAT,
    catalog::Catalog,
    device::Device,
    sharing::Sharing,
    spec::{AllReduce, Collectives, Program, Seat, Training},
    surroundings::Surroundings,
    units::Nanos,
};

use super::*;
use crate::{
    folder::{Folder, SourceTree},
    group::{Group, Turn},
    launch_end::RankEnd,
    manifest::{
        AlikeNodes, Cell, DeviceFacts, FastForward, FittedFile, Machine, NodeFacts, ObserverCost, Scheduling,
        Settings, Simulated, SizeOfError, SwitchCostFrom,
    },
    placement::Placement,
    rows::ErrorKind,
    suspension::Suspension,
};

fn run() -> (tempfile::TempDir, RunDir) {
    let dir = crate::folder_for_many_files();
    let run = RunDir::create(&dir.path().join("r")).unwrap();
    (dir, run)
}

fn manifest(text: &str, number: f64, seed: u64) -> Manifest {
    Manifest {
        format: FORMAT,
        started_utc: "2026-11-20T10:13:40Z".into(),
        command: vec!["profile".into(), text.into()],
        version: "0.1.0".into(),
        git_revision: Some(text.into()),
        seed,
        tags: Vec::new(),
        settings: Settings {
            repeats: 3,
            seconds: Some(number),
            steps: None,
            ci_percent: Some(number),
            budget_s: None,
            heartbeat_s: Some(number),
            first_step_timeout_s: Some(number),
            threads: Some(1),
            cpus_per_job: None,
            data: Some(text.into()),
            loaders: 3,
            offload_threads: Some(2),
            collectives: Some(Collectives::Gloo),
            steps_regex: Some(text.into()),
            input: Some("input.txt".into()),
            operators: Some(7),
            memory_bytes: Some(seed),
            stressors: vec![text.into()],
            catalogs: vec![text.into()],
            surroundings: Some(Surroundings {
                cwd: Some(text.into()),
                environment: [(text.to_string(), text.to_string())].into(),
                prepare: Some(text.into()),
                cleanup: Some(text.into()),
            }),
        },
        folder: Some(Folder {
            blake3: text.into(),
            programs: [(text.to_string(), text.to_string())].into(),
            source_tree: Some(SourceTree { revision: text.into(), dirty: true }),
            source_trees: [(text.to_string(), SourceTree { revision: text.into(), dirty: false })].into(),
        }),
        machine: Machine {
            cpu: Some(text.into()),
            environment: [(text.to_string(), text.to_string())].into(),
            ..Machine::default()
        },
        devices: vec![DeviceFacts {
            device: Device::Cpu(vec![0, 1]),
            name: text.into(),
            memory_bytes: Some(seed),
            peak_flops: [("bf16".to_string(), number)].into(),
            chip: [(text.to_string(), seed)].into(),
            capabilities: Default::default(),
            topology: Default::default(),
        }],
        cells: vec![Cell {
            name: text.into(),
            sharing: Sharing::Alone,
            job: text.into(),
            workload: text.into(),
            command: Some(vec![text.into(), String::new()]),
            folder: Some(text.into()),
            all_reduce_bytes: Some(seed),
            global_batch: Some(8),
            plan: Some("ga4-bf16".parse().unwrap()),
            devices: vec![Device::Cuda(0)],
            vary: [(text.to_string(), text.to_string())].into(),
            memory_estimate_bytes: Some(seed),
            unsupported: Some(text.into()),
        }],
        groups: vec![Group {
            name: text.into(),
            sharing: "step-gate:250ms:2/1".parse().unwrap(),
            members: vec![text.into(), text.into()],
            unsupported: Some(text.into()),
        }],
        scheduling: Some(Scheduling {
            policy: text.into(),
            lacking: Vec::new(),
            placement: Placement::Consolidated,
            sharing: Sharing::TIME_SLICE,
            suspension: Suspension::StepGate,
            tables: 1,
            history: true,
            model: Some(vec![0]),
            fitted: vec![FittedFile { name: text.into(), blake3: text.into() }],
            fitted_model: vec![0],
            any_device: true,
            refit: true,
            belief_error: Some(SizeOfError { sigma: number, bias: -number }),
            spread_slowdown: Some(number),
            switch_cost_s: None,
            checkpoint_every_s: Some(number),
            progress_every_s: Some(number),
            jobs_per_device: 2,
            retries: 3,
            counts_cpus: true,
            host_cores: Some(16),
            switch_cost_from: vec![SwitchCostFrom { devices: 9, cost_s: number }],
            resume_cost_s: Some(number),
            start_cost_s: Some(number),
            fast_forward: Some(FastForward { window_s: number, window_steps: 30, error_percent: number }),
            simulated: Some(Simulated {
                truth: Some(Vec::new()),
                fitted_truth: vec![0],
                noise_percent: number,
                nodes: vec![AlikeNodes {
                    nodes: 2,
                    devices: 8,
                    device_type: text.into(),
                    virtual_cluster: Some(text.into()),
                    facts: NodeFacts { memory_bytes: Some(seed), ..NodeFacts::default() },
                }],
                ..Simulated::default()
            }),
        }),
    }
}

proptest! {
    #[test]
    fn manifest_and_end_round_trip(text in "\\PC{0,20}", number in 0.0..1e9f64, seed in 0..i64::MAX as u64) {
        let (_dir, run) = run();
        let manifest = manifest(&text, number, seed);
        run.write_manifest(&manifest).unwrap();
        prop_assert_eq!(run.manifest().unwrap(), manifest);
        let end = End {
            format: FORMAT,
            ended_utc: text.clone(),
            exit_code: 130,
            missing: vec![text],
            observer: ObserverCost { wall_ns: seed, ..ObserverCost::default() },
        };
        prop_assert_eq!(run.end().unwrap(), None);
        run.write_end(&end).unwrap();
        prop_assert_eq!(run.end().unwrap(), Some(end));
        let footprints = Footprints { format: FOOTPRINTS_FORMAT, measured: vec![] };
        prop_assert_eq!(run.footprints().unwrap(), None);
        run.write_footprints(&footprints).unwrap();
        prop_assert_eq!(run.footprints().unwrap(), Some(footprints));
    }

    #[test]
    fn a_launch_round_trips(text in "\\PC{0,20}", seed in any::<u64>(), steps in any::<Option<u64>>()) {
        let (_dir, run) = run();
        let workload = Catalog::embedded().iter().next().unwrap().clone();
        let training = Training {
            steps,
            rendezvous: Some(text.clone().into()),
            ..Training::new(workload, 8, "dp2".parse().unwrap())
        };
        let all_reduce = AllReduce { bytes: seed, collectives: Some(Collectives::Nccl), rendezvous: None };
        for program in [
            Program::Command(vec![text.clone()]),
            Program::Training(Box::new(training)),
            Program::AllReduce(all_reduce),
        ] {
            let devices = vec![Device::Cpu(vec![0]), Device::Cpu(vec![1])];
            let spec = LaunchSpec {
                block: 3,
                steps_regex: Some(text.clone()),
                sharing: Sharing::TIME_SLICE,
                seat: Some(Seat { group: text.clone(), visit: "0003".into(), number: 1 }),
                threads_named: true,
                memory_bytes: steps,
                seed,
                ..LaunchSpec::new("0001-a", &text, program, devices)
            };
            run.write_spec(&spec).unwrap();
            prop_assert_eq!(run.spec("0001-a").unwrap(), spec);
        }
        prop_assert_eq!(run.launch_end("0001-a").unwrap(), None);
        let end = LaunchEnd {
            format: FORMAT,
            mono_ns: Nanos(seed),
            enough_mono_ns: steps.map(Nanos),
            err: Some(ErrorKind::Hung),
            err_detail: Some(text.clone()),
            killed_after: None,
            notes: Default::default(),
            ranks: vec![RankEnd { signal: Some(9), ..RankEnd::default() }],
        };
        run.write_launch_end("0001-a", &end).unwrap();
        prop_assert_eq!(run.launch_end("0001-a").unwrap(), Some(end));
        prop_assert_eq!(run.launches().unwrap(), ["0001-a"]);
        prop_assert_eq!(run.visit("0003").unwrap(), None);
        let visit = Visit {
            format: FORMAT,
            group: "a+a".into(),
            sharing: Sharing::Sequential,
            block: 3,
            part: 1,
            barrier_mono_ns: Some(Nanos(seed)),
            end_mono_ns: None,
            launches: vec![vec!["0001-a".into(), "0003-a".into()], vec!["0002-a".into()]],
            turns: vec![Turn { seat: 1, start_mono_ns: Nanos(seed), end_mono_ns: Nanos(seed) }],
            not_shared: Some(text),
        };
        run.write_visit("0003", &visit).unwrap();
        prop_assert_eq!(run.visit("0003").unwrap(), Some(visit));
        prop_assert_eq!(run.visits().unwrap(), ["0003"]);
    }
}

#[test]
fn a_run_is_created_once_and_a_newer_one_is_refused_by_name() {
    let (dir, run) = run();
    assert!(RunDir::open(run.path()).unwrap_err().to_string().ends_with("it has no manifest.toml"));
    run.write_manifest(&manifest("x", 1.0, 0)).unwrap();
    let again = RunDir::create(&dir.path().join("r")).unwrap_err().to_string();
    assert!(again.contains("already holds a run"), "{again}");
    let text = fs::read_to_string(run.manifest_path()).unwrap();
    for (from, to, message) in [
        ("format = 1", "format = 2\nunknown = 3", "format 2 is newer than this program"),
        ("format = 1", "colour = 1", "has no 'format'"),
        ("seed = 0", "seed = \"x\"", "line 6: invalid type"),
    ] {
        fs::write(run.manifest_path(), text.replace(from, to)).unwrap();
        let error = run.manifest().unwrap_err().to_string();
        assert!(error.contains(message) && error.contains("manifest.toml"), "{error}");
    }
}

#[test]
fn a_run_begins_in_a_new_or_an_empty_directory() {
    let dir = tempfile::tempdir().unwrap();
    RunDir::create(dir.path()).unwrap();

    let project = dir.path().join("project");
    fs::create_dir(&project).unwrap();
    fs::write(project.join("summary.csv"), "mine").unwrap();
    let refused = RunDir::create(&project).unwrap_err().to_string();
    assert!(refused.contains("project already holds summary.csv"), "{refused}");
    let entries: Vec<_> = fs::read_dir(&project).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(entries, ["summary.csv"]);
}

#[test]
fn the_beginning_of_a_killed_run_is_called_so() {
    let dir = tempfile::tempdir().unwrap();
    RunDir::create(dir.path()).unwrap();
    let refused = || RunDir::create(dir.path()).unwrap_err().to_string();
    assert!(refused().contains("holds the beginning of a run that was killed before"), "{}", refused());
    fs::write(dir.path().join("manifest.toml.new"), "form").unwrap();
    fs::create_dir(dir.path().join("inputs")).unwrap();
    assert!(refused().contains("holds the beginning of a run"), "{}", refused());
    fs::write(dir.path().join("best.pt"), "mine").unwrap();
    assert!(refused().contains("already holds best.pt"), "{}", refused());
}

#[test]
fn one_of_several_runs_that_begin_in_one_directory_has_it() {
    let dir = tempfile::tempdir().unwrap();
    for round in 0..50 {
        let path = dir.path().join(round.to_string());
        let barrier = Barrier::new(4);
        let begin = || {
            barrier.wait();
            RunDir::create(&path).is_ok()
        };
        let begun = thread::scope(|scope| {
            let threads = [(); 4].map(|()| scope.spawn(begin));
            threads.map(|thread| thread.join().unwrap())
        });
        assert_eq!(begun.iter().filter(|begun| **begun).count(), 1, "{begun:?}");
    }
}

#[test]
fn room_is_checked_without_writing_through_a_link() {
    let (dir, run) = run();
    let victim = dir.path().join("victim");
    fs::write(&victim, "mine").unwrap();
    symlink(&victim, run.path().join("jobs/space.new")).unwrap();
    run.check_space().unwrap();
    assert_eq!(fs::read_to_string(&victim).unwrap(), "mine");
    assert_eq!(fs::read_dir(run.path().join("jobs")).unwrap().count(), 0);
}

#[test]
fn room_is_found_by_all_who_check_at_once() {
    let (_dir, run) = run();
    let check = || (0..50).try_for_each(|_| run.check_space());
    thread::scope(|scope| {
        let threads = [(); 8].map(|()| scope.spawn(check));
        threads.into_iter().for_each(|thread| thread.join().unwrap().unwrap());
    });
    assert_eq!(fs::read_dir(run.path().join("jobs")).unwrap().count(), 0);
}

#[test]
fn names_that_lead_out_of_a_run_are_refused_by_the_file_that_has_them() {
    let (_dir, run) = run();
    let program = Program::Command(vec!["true".into()]);
    for name in ["../0001-a", "/etc/0001-a", "a/b", "..", ".", "", "a/"] {
        let mut spec = LaunchSpec::new(name, "a", program.clone(), Vec::new());
        write_json(&run.spec_path("0001-a"), &spec).unwrap();
        let error = run.spec("0001-a").unwrap_err().to_string();
        assert!(error.contains("0001-a.json") && error.contains("no name of a file"), "{error}");
        spec.launch = "0001-a".into();
        spec.seat = Some(Seat { group: "a+b".into(), visit: name.into(), number: 0 });
        write_json(&run.spec_path("0001-a"), &spec).unwrap();
        assert!(matches!(run.spec("0001-a"), Err(RunError::Name { .. })), "{name}");
    }
    run.write_manifest(&manifest("x", 1.0, 0)).unwrap();
    assert!(matches!(run.write_manifest(&manifest("x", 1.0, 0)), Err(RunError::Exists { .. })));
}

#[test]
fn links_to_grant_pages_are_accepted_beside_the_files_of_launches() {
    let (_dir, run) = run();
    run.write_manifest(&manifest("x", 1.0, 0)).unwrap();
    fs::create_dir_all(run.checkpoint_path("0001-a-1").join("below")).unwrap();
    symlink("/proc/0/fd/0", run.control_path("0001-a")).unwrap();
    RunDir::open(run.path()).unwrap();
    for refused in ["0001-a.control", "events/0001-a.control", "checkpoints/0001-a-1/below/0001-a.control"] {
        let refused = run.path().join(refused);
        symlink("/proc/0/fd/0", &refused).unwrap();
        let error = RunDir::open(run.path()).unwrap_err().to_string();
        assert!(error.starts_with(&format!("{} is a symbolic link", refused.display())), "{error}");
        fs::remove_file(refused).unwrap();
    }
}
