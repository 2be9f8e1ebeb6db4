//! How long a report of a large run takes: a launch of a million steps, and a trace of a hundred thousand jobs on 64 devices. Reading,
//! drawing and writing are included. `peak` prints the most memory that the process has held so far.

use std::{
    cmp::Reverse,
    collections::{BinaryHeap, VecDeque},
    path::{Path, PathBuf},
    time::Duration,
};

use criterion::{Criterion, SamplingMode, criterion_group, criterion_main};
use formats::{
    decision::{Action, ClusterEvent, DeviceId, JobId, Settled, Turn, TurnWriter},
    rows::Outcome,
    trace::Class,
};
use record::{
    manifest::{AlikeNodes, DeviceFacts, Machine, Manifest, Scheduling, Settings, Simulated},
    placement::Placement,
    rows::{self, Measurement, Status},
    run_dir::RunDir,
    suspension::Suspension,
};
use reports::{files, report::Report};
use schema::{
    FORMAT,
    device::Device,
    events::EventWriter,
    sharing::Sharing,
    spec::{LaunchSpec, Program},
    units::Nanos,
    wire::{Event, Step, Timing},
};

const STEPS: u64 = 1_000_000;
const JOBS: u32 = 100_000;
const DEVICES: u32 = 64;
const SECOND: u64 = 1_000_000_000;

fn manifest(scheduling: Option<Scheduling>) -> Manifest {
    let cpu = |core| DeviceFacts {
        device: Device::Cpu(vec![core]),
        name: "a core".into(),
        memory_bytes: None,
        peak_flops: Default::default(),
        capabilities: Default::default(),
        chip: Default::default(),
        topology: Default::default(),
    };
    Manifest {
        format: FORMAT,
        started_utc: "2026-01-01T00:00:00Z".into(),
        command: vec!["bench".into()],
        version: "0".into(),
        git_revision: None,
        seed: 1,
        tags: Vec::new(),
        settings: Settings::default(),
        folder: None,
        machine: Machine::default(),
        devices: if scheduling.is_none() { vec![cpu(0)] } else { Vec::new() },
        cells: Vec::new(),
        groups: Vec::new(),
        scheduling,
    }
}

/// A run of one launch with a million steps of about 2 ms.
fn steps(folder: &Path) -> PathBuf {
    let path = folder.join("steps");
    let run = RunDir::create(&path).expect("the folder is writable");
    run.write_manifest(&manifest(None)).expect("the folder is writable");
    let launch = "0001-program";
    let program = Program::Command(vec!["program".into()]);
    run.write_spec(&LaunchSpec::new(launch, "program", program, vec![Device::Cpu(vec![0])]))
        .expect("writable");
    let mut events = EventWriter::create(&run.events_path(launch, 0), 0).expect("writable");
    let mut random = fastrand::Rng::with_seed(1);
    let mut now = Nanos(0);
    for index in 0..STEPS {
        let dur_ns = Nanos(2_000_000 + random.u64(..200_000) + if index < 1_000 { 500_000 } else { 0 });
        now += dur_ns;
        let step = Step {
            index,
            dur_ns,
            samples: Some(8),
            loss: Some(1.0),
            phases: None,
            sent_bytes: None,
            timing: Timing::Hook,
        };
        events.say_at(now, Event::Step(step)).expect("writable");
    }
    let row = Measurement {
        run: "steps".into(),
        launch: launch.into(),
        job: "program".into(),
        workload: "program".into(),
        device: "cpu:0".into(),
        threads: 1,
        steps_total: STEPS,
        steps_used: STEPS - 1_000,
        warmup_steps: Some(1_000),
        steady: Some(true),
        step_ns_median: Some(2_100_000),
        ..Measurement::default()
    };
    rows::write(&run.measurements_path(), &[row]).expect("writable");
    path
}

/// A simulation of first come, first served: the journal and the outcomes that `sched sim` writes.
fn jobs(folder: &Path) -> PathBuf {
    let path = folder.join("jobs");
    let run = RunDir::create(&path).expect("the folder is writable");
    let nodes = vec![AlikeNodes {
        nodes: DEVICES / 8,
        devices: 8,
        device_type: "GPU".into(),
        ..AlikeNodes::default()
    }];
    run.write_manifest(&manifest(Some(Scheduling {
        policy: "fifo".into(),
        lacking: Vec::new(),
        placement: Placement::Spread,
        sharing: Sharing::TIME_SLICE,
        suspension: Suspension::default(),
        tables: 0,
        history: false,
        model: None,
        fitted: Vec::new(),
        fitted_model: Vec::new(),
        any_device: false,
        refit: false,
        belief_error: None,
        spread_slowdown: None,
        switch_cost_s: Some(0.0),
        checkpoint_every_s: None,
        progress_every_s: None,
        jobs_per_device: 1,
        retries: 0,
        counts_cpus: false,
        host_cores: None,
        switch_cost_from: Vec::new(),
        resume_cost_s: None,
        start_cost_s: None,
        fast_forward: None,
        simulated: Some(Simulated { nodes, ..Simulated::default() }),
    })))
    .expect("the folder is writable");
    let mut random = fastrand::Rng::with_seed(1);
    let mut journal = Journal { writer: TurnWriter::open(&run.decisions_path()).expect("writable"), turn: 0 };
    let mut free: VecDeque<u32> = (0..DEVICES).collect();
    let mut waiting: VecDeque<(u32, u64)> = VecDeque::new();
    let mut running: BinaryHeap<Reverse<(u64, u32, u32)>> = BinaryHeap::new();
    let mut outcomes = Vec::new();
    let mut arrival = 0;
    let (mut next, mut arrived) = (0, 0);
    while next < JOBS || !running.is_empty() {
        let end = running.peek().map(|Reverse((end, ..))| *end);
        let event = match end {
            Some(end) if next == JOBS || end <= arrival => {
                let Some(Reverse((now, job, device))) = running.pop() else { break };
                free.push_back(device);
                (now, ClusterEvent::Finished { job: JobId(job), steps: 1 })
            }
            _ => {
                waiting.push_back((next, arrival));
                let event = (arrival, ClusterEvent::Arrived { job: JobId(next) });
                arrived = arrival;
                arrival += random.u64(1..12 * SECOND);
                next += 1;
                event
            }
        };
        let now = event.0.max(arrived);
        let mut actions = Vec::new();
        let mut started = Vec::new();
        while let (Some(&(job, submit)), Some(&device)) = (waiting.front(), free.front()) {
            waiting.pop_front();
            free.pop_front();
            actions.push(Action::Start {
                job: JobId(job),
                devices: vec![DeviceId(device)],
                cpus: None,
                plan: None,
            });
            started.push(ClusterEvent::Settled { job: JobId(job), now: Settled::Running, steps: 0 });
            let length = random.u64(SECOND..700 * SECOND);
            running.push(Reverse((now + length, job, device)));
            outcomes.push(outcome(job, submit, now, length));
        }
        journal.write(now, vec![event.1], actions);
        if !started.is_empty() {
            journal.write(now, started, Vec::new());
        }
    }
    outcomes.sort_by_key(|row| row.job);
    rows::write(&run.outcomes_path(), &outcomes).expect("writable");
    path
}

struct Journal {
    writer: TurnWriter,
    turn: u64,
}

impl Journal {
    fn write(&mut self, now: u64, events: Vec<ClusterEvent>, actions: Vec<Action>) {
        let turn = Turn {
            turn: self.turn,
            at_ns: Nanos(now),
            model_version: None,
            events,
            actions,
            refused: Vec::new(),
            wake_at_ns: None,
            reason: "first in the queue".into(),
            explain: Default::default(),
            view_hash: "0123456789abcdef".into(),
        };
        self.writer.write(&turn).expect("the folder is writable");
        self.turn += 1;
    }
}

fn outcome(job: u32, submit: u64, start: u64, length: u64) -> Outcome {
    Outcome {
        job: JobId(job),
        name: format!("job-{job}"),
        workload: ["lstm", "resnet50", "gpt2"][job as usize % 3].into(),
        global_batch: None,
        plan: None,
        devices: 1,
        user: format!("user-{}", job % 17),
        vc: String::new(),
        class: Class::Guaranteed,
        recurring_job: None,
        submit_utc: None,
        submit_ns: submit,
        start_ns: Some(start),
        end_ns: Some(start + length),
        jct_ns: Some(start + length - submit),
        queued_ns: Some(start - submit),
        switching_ns: Some(0),
        starting_ns: Some(0),
        running_ns: Some(length),
        packed_ns: Some(0),
        paused_ns: Some(0),
        device_time_ns: Some(length),
        busy_share_ns: Some(length),
        alone_ns: Some(length),
        fair_ns: Some(length),
        first_100_ns: None,
        starts: 1,
        pauses: 0,
        stops: Some(0),
        migrations: Some(0),
        retries: 0,
        steps: 1,
        steps_asked: Some(1),
        steps_lost: 0,
        loss: None,
        steps_skipped: 0,
        skipped_ns: 0,
        predicted_jct_ns: None,
        status: Status::Ok,
        err: None,
        err_detail: None,
    }
}

/// The most memory that this process has held, in MiB.
fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok()).unwrap_or(0) / 1024
}

fn size(folder: &Path) -> u64 {
    let entries = std::fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok);
    entries
        .map(|entry| {
            if entry.path().is_dir() { size(&entry.path()) } else { entry.metadata().map_or(0, |m| m.len()) }
        })
        .sum()
}

fn large(criterion: &mut Criterion) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut group = criterion.benchmark_group("report");
    // The fewest that criterion takes, of as few runs as can be.
    group.sample_size(10).sampling_mode(SamplingMode::Flat);
    group.warm_up_time(Duration::from_millis(100)).measurement_time(Duration::from_secs(1));
    for (name, path) in
        [("a million steps", steps(folder.path())), ("a hundred thousand jobs", jobs(folder.path()))]
    {
        let before = peak();
        let out = folder.path().join("out");
        group.bench_function(name, |bencher| {
            bencher.iter(|| {
                let report = Report::of(std::slice::from_ref(&path), |_| true).expect("it is a run");
                files::write(&report, &out, || ()).expect("the folder is writable");
            });
        });
        println!(
            "{name}: peak memory {} MiB, {before} before; folder {:.1} MB",
            peak(),
            size(&out) as f64 / 1e6
        );
    }
    group.finish();
}

criterion_group!(benches, large);
criterion_main!(benches);
