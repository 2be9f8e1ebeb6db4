//! A testbed of synthetic jobs for tests.

use std::{collections::VecDeque, path::PathBuf, sync::Arc, time::Duration};

use engine::{
    cluster::{Action, Cluster as _, ClusterEvent, DeviceId, JobId, Settled},
    job::{JobRequest, Pausing, Payload, SharedRequest},
};
use formats::trace::Class;
use front_door::{LONG, definition, wait_until};
use jobs::plans::Estimates;
use launches::{LaunchCluster, ResumePoint};
use record::{
    manifest::{Cell, Machine, Manifest, Settings},
    rows::Appender,
    run_dir::RunDir,
    suspension::Suspension,
};
use rig::{Programs, Rig, device::DeviceReader, interrupt::Interrupt, sampler::Sampler};
use schema::{
    FORMAT,
    catalog::Catalog,
    device::Device,
    events::EventReader,
    plan::Plan,
    sharing::Sharing,
    units::Nanos,
    wire::{Event, EventLine},
};
use tempfile::TempDir;
use testbed::{
    checkpoints::Checkpoints,
    process::{ProcessLauncher, TestbedSetup},
};

/// The heartbeat time-out. Every job that does not hang reports something within this time.
const HANGS_AFTER: Duration = Duration::from_secs(10);

/// A job: its name in the catalog, or a command, and its steps.
pub(crate) enum Wanted {
    Training(&'static str, u64),
    Command(&'static [&'static str]),
}

/// The workloads of test jobs: steps of 2 ms, some with faults, `steady` with steps of 20 ms, and two that use all of a core for steps
/// of about 3 and 70 ms.
const WORKLOADS: [(&str, &str); 7] = [
    ("short", "step_us = 2000, busy_percent = 0"),
    ("steady", "step_us = 20000, busy_percent = 0"),
    ("busy-3", "step_us = 3000, busy_percent = 100"),
    ("busy-70", "step_us = 70000, busy_percent = 100"),
    ("hangs", "step_us = 2000, busy_percent = 0, fault.hang = { after_steps = 5 }"),
    ("heavy", "step_us = 2000, busy_percent = 0, memory_bytes = 60_000_000"),
    ("too-large", "step_us = 2000, busy_percent = 0, fault.out-of-memory = { after_steps = 5 }"),
];

/// Two devices, and the jobs of a test, which have not arrived. Removed at the end of the test.
pub(crate) struct Bench {
    pub(crate) run: RunDir,
    pub(crate) manifest: Manifest,
    pub(crate) testbed: LaunchCluster<ProcessLauncher>,
    pub(crate) told: Vec<ClusterEvent>,
    /// Events of the last turn that the test has not looked at.
    coming: VecDeque<ClusterEvent>,
    pub(crate) _folder: TempDir,
}

/// The launcher of the jobs of a test, and its run, which is removed with the folder.
pub(crate) struct Stage {
    pub(crate) run: RunDir,
    pub(crate) manifest: Manifest,
    pub(crate) launcher: ProcessLauncher,
    pub(crate) folder: TempDir,
}

impl Stage {
    /// A testbed with these devices and these readers, which are shared in this mode. Jobs are suspended by `pause`.
    pub(crate) fn new(
        jobs: &[Wanted],
        checkpoint_every: Option<Duration>,
        devices: Vec<Device>,
        readers: Vec<Box<dyn DeviceReader>>,
        sharing: &str,
    ) -> Stage {
        Stage::suspending(jobs, checkpoint_every, (devices, readers), sharing, Suspension::Pause)
    }

    fn suspending(
        jobs: &[Wanted],
        checkpoint_every: Option<Duration>,
        (devices, readers): (Vec<Device>, Vec<Box<dyn DeviceReader>>),
        sharing: &str,
        suspension: Suspension,
    ) -> Stage {
        let folder = tempfile::tempdir().unwrap();
        let mut catalog = Catalog::embedded();
        let definitions: String = WORKLOADS.iter().map(|(name, model)| definition(name, model)).collect();
        catalog.add("tests.toml", &definitions).unwrap();
        let run = RunDir::create(&folder.path().join("run")).unwrap();
        let manifest = manifest(jobs);
        run.write_manifest(&manifest).unwrap();
        let sampler = Sampler::start(
            readers,
            Appender::open(&run.devices_path()).unwrap(),
            Appender::open(&run.host_path()).unwrap(),
        );
        let own = PathBuf::from(env!("CARGO_BIN_EXE_sched"));
        let setup = TestbedSetup {
            run: run.clone(),
            manifest: manifest.clone(),
            catalog,
            devices,
            asked: asked(jobs),
            sharing: sharing.parse().unwrap(),
            suspension,
            checkpoint_every: checkpoint_every.map(Nanos::from),
            keeps_steps: false,
            checkpoints: Checkpoints::open(&run, jobs.len() as u32).unwrap(),
            estimates: Estimates::of_run(&manifest, Vec::new()),
            rig: Rig::new(Programs { own, torch_worker: None }).unwrap(),
            sampler: sampler.unwrap(),
            interrupt: Interrupt::default(),
        };
        Stage { run, manifest, launcher: ProcessLauncher::new(setup).unwrap(), folder }
    }
}

impl Bench {
    pub(crate) fn new(jobs: &[Wanted], checkpoint_every: Option<Duration>) -> Bench {
        Bench::watched(jobs, checkpoint_every, vec![Device::AllCores; 2], Vec::new())
    }

    /// See [`Stage::new`].
    pub(crate) fn watched(
        jobs: &[Wanted],
        checkpoint_every: Option<Duration>,
        devices: Vec<Device>,
        readers: Vec<Box<dyn DeviceReader>>,
    ) -> Bench {
        let stage = Stage::new(jobs, checkpoint_every, devices, readers, "time-slice");
        Bench::of(jobs, stage)
    }

    /// Devices that jobs share in this mode.
    pub(crate) fn sharing(jobs: &[Wanted], sharing: &str, devices: Vec<Device>) -> Bench {
        Bench::of(jobs, Stage::new(jobs, None, devices, Vec::new(), sharing))
    }

    /// Two sets of cores, on which jobs are suspended in this way.
    pub(crate) fn suspending(
        jobs: &[Wanted],
        checkpoint_every: Option<Duration>,
        suspension: Suspension,
    ) -> Bench {
        let pool = (vec![Device::AllCores; 2], Vec::new());
        Bench::of(jobs, Stage::suspending(jobs, checkpoint_every, pool, "time-slice", suspension))
    }

    fn of(jobs: &[Wanted], stage: Stage) -> Bench {
        let Stage { run, manifest, launcher, folder } = stage;
        let resume = ResumePoint { arrived: jobs.len(), ..ResumePoint::default() };
        let testbed = LaunchCluster::new(launcher, &asked(jobs), None, resume);
        Bench { run, manifest, testbed, told: Vec::new(), coming: VecDeque::new(), _folder: folder }
    }

    pub(crate) fn start(&mut self, job: u32, devices: &[u32], plan: &str) {
        let plan: Option<Plan> = (!plan.is_empty()).then(|| plan.parse().unwrap());
        let devices = devices.iter().copied().map(DeviceId).collect();
        self.apply(Action::Start { job: JobId(job), devices, cpus: None, plan }).unwrap();
    }

    pub(crate) fn pause(&mut self, job: u32) {
        self.apply(Action::Pause { job: JobId(job) }).unwrap();
    }

    pub(crate) fn resume(&mut self, job: u32) {
        self.apply(Action::Resume { job: JobId(job) }).unwrap();
    }

    pub(crate) fn stop(&mut self, job: u32, checkpoint: bool) {
        self.apply(Action::Stop { job: JobId(job), checkpoint }).unwrap();
    }

    /// The refusal of an action, as text.
    pub(crate) fn apply(&mut self, action: Action) -> Result<(), String> {
        self.testbed.apply(&action).map_err(|error| error.why)
    }

    pub(crate) fn next(&mut self) -> ClusterEvent {
        if self.coming.is_empty() {
            let deadline = self.testbed.now() + LONG.into();
            self.coming = self.testbed.next(Some(deadline)).unwrap().into();
        }
        let happened = self.coming.pop_front().expect("a turn has an event");
        assert_ne!(happened, ClusterEvent::Deadline, "nothing came: {:?}", self.told);
        self.told.push(happened.clone());
        happened
    }

    /// Waits until a switch of a job is over; returns its number of steps then.
    pub(crate) fn until_settled(&mut self, of: u32, at: Settled) -> u64 {
        loop {
            match self.next() {
                ClusterEvent::Settled { job, now, steps } if (job, now) == (JobId(of), at) => return steps,
                ClusterEvent::Failed { .. } => panic!("it failed: {:?}", self.told),
                _ => {}
            }
        }
    }

    /// Waits until a job trains from this step on. The reported number may be larger, but counts only steps in the event file of the job's
    /// last launch.
    pub(crate) fn until_trains_from(&mut self, of: u32, from: u64) {
        let steps = self.until_settled(of, Settled::Running);
        let said = self.steps_said(&self.launches_of(of).pop().expect("it was launched"), 0);
        assert!((from..=from + said).contains(&steps), "{steps}, from {from} on, of which {said} were said");
    }

    pub(crate) fn until_finished(&mut self, of: u32) -> u64 {
        loop {
            match self.next() {
                ClusterEvent::Finished { job, steps } if job == JobId(of) => return steps,
                ClusterEvent::Failed { .. } => panic!("it failed: {:?}", self.told),
                _ => {}
            }
        }
    }

    /// Runs the launches for this time and asserts that no event comes.
    pub(crate) fn wait(&mut self, time: Duration) {
        let until = self.testbed.now() + time.into();
        assert!(self.coming.is_empty(), "{:?}", self.coming);
        assert_eq!(self.testbed.next(Some(until)).unwrap(), [ClusterEvent::Deadline]);
    }

    /// Runs the launches until a condition holds, and asserts that no event comes before.
    pub(crate) fn wait_until(&mut self, what: &str, mut holds: impl FnMut(&Bench) -> bool) {
        wait_until(what, || {
            self.wait(Duration::from_millis(20));
            holds(self)
        });
    }

    /// Runs the launches until the first rank of one has reported this number of steps, and asserts that no event comes before.
    pub(crate) fn until_said(&mut self, launch: &str, steps: u64) {
        self.wait_until("the steps are said", |bench| bench.steps_said(launch, 0) >= steps);
    }

    /// The launches of a job, in order.
    pub(crate) fn launches_of(&self, job: u32) -> Vec<String> {
        let mut launches = self.run.launches().unwrap();
        launches.retain(|launch| self.run.spec(launch).unwrap().cell == format!("j{job}"));
        launches
    }

    /// The events of a rank of a launch so far.
    pub(crate) fn said(&self, launch: &str, rank: u32) -> Vec<EventLine> {
        let mut lines = Vec::new();
        EventReader::open(&self.run.events_path(launch, rank), rank).unwrap().poll(&mut lines).unwrap();
        lines
    }

    pub(crate) fn steps_said(&self, launch: &str, rank: u32) -> u64 {
        let is_step = |line: &&EventLine| matches!(line.event, Event::Step(_));
        self.said(launch, rank).iter().filter(is_step).count() as u64
    }
}

impl Wanted {
    fn steps(&self) -> Option<u64> {
        match self {
            Wanted::Training(_, steps) => Some(*steps),
            Wanted::Command(_) => None,
        }
    }
}

fn asked(jobs: &[Wanted]) -> Vec<JobRequest> {
    let asked = |(id, wanted): (u32, &Wanted)| JobRequest {
        id: JobId(id),
        name: format!("j{id}"),
        arrival: Nanos::ZERO,
        steps: wanted.steps(),
        part_ns: None,
        submitted_at: None,
        step_ns: None,
        shared: Arc::new(SharedRequest {
            what: match wanted {
                Wanted::Training(name, _) => {
                    Payload::Training { workload: (*name).into(), global_batch: Some(8) }
                }
                Wanted::Command(argv) => Payload::Command(argv.iter().map(|part| (*part).into()).collect()),
            },
            plan: None,
            devices: 1,
            device_type: None,
            cpus: None,
            elastic: true,
            min_devices: None,
            max_devices: None,
            steps_regex: None,
            takes_no_checkpoint: match wanted {
                Wanted::Training(..) => None,
                Wanted::Command(_) => Some("it is a command"),
            },
            steps_in_start: match wanted {
                Wanted::Training(..) => 0,
                Wanted::Command(_) => 2,
            },
            pausing: match wanted {
                Wanted::Training(..) => Pausing::FreesMemory,
                Wanted::Command(_) => Pausing::HoldsMemory,
            },
            user: String::new(),
            virtual_cluster: String::new(),
            class: Class::Guaranteed,
            priority: 0,
            weight: 1,
            recurring_job: None,
            search: None,
            learning_rate: None,
            loss_curve: None,
        }),
    };
    (0..).zip(jobs).map(asked).collect()
}

fn manifest(jobs: &[Wanted]) -> Manifest {
    let cell = |(id, wanted): (usize, &Wanted)| {
        let (workload, command) = match wanted {
            Wanted::Training(name, _) => ((*name).to_owned(), None),
            Wanted::Command(argv) => ("cmd".into(), Some(argv.iter().map(|part| (*part).into()).collect())),
        };
        let is_training = command.is_none();
        Cell {
            name: format!("j{id}"),
            sharing: Sharing::TIME_SLICE,
            job: workload.clone(),
            workload,
            command,
            all_reduce_bytes: None,
            global_batch: is_training.then_some(8),
            plan: is_training.then(|| "dp1".parse().unwrap()),
            devices: Vec::new(),
            memory_estimate_bytes: None,
            unsupported: None,
            ..Cell::default()
        }
    };
    let hangs = jobs.iter().any(|wanted| matches!(wanted, Wanted::Training("hangs", _)));
    let heartbeat = if hangs { HANGS_AFTER } else { LONG };
    Manifest {
        format: FORMAT,
        started_utc: "2026-11-22T00:00:00Z".into(),
        command: vec!["sched".into(), "run".into()],
        version: "0".into(),
        git_revision: None,
        seed: 1,
        tags: Vec::new(),
        settings: Settings {
            heartbeat_s: Some(heartbeat.as_secs_f64()),
            memory_bytes: Some(100_000_000),
            ..Settings::default()
        },
        folder: None,
        machine: Machine::default(),
        devices: Vec::new(),
        cells: jobs.iter().enumerate().map(cell).collect(),
        groups: Vec::new(),
        scheduling: None,
    }
}
