//! A rig that launches synthetic jobs and programs, for the tests of launches.

use std::{path::PathBuf, time::Duration};

use front_door::LONG;
use record::{launch_end::LaunchEnd, run_dir::RunDir};
use rig::{Isolation, LaunchRequest, Member, Programs, Rig, RigEvent, Timeouts};
use schema::{
    catalog::{Catalog, Fault, Model, Synthetic, Workload},
    device::Device,
    spec::{LaunchSpec, Program, Training},
    units::Nanos,
    wire::Event,
};
use tempfile::TempDir;

/// Far longer than anything here takes, even on a busy machine.
pub(crate) const PATIENT: Timeouts =
    Timeouts { heartbeat: LONG, startup: LONG, first_step: LONG, save: LONG, grace: LONG, death: LONG };

pub(crate) const PLENTY: u64 = 1_000_000;

/// A rig with its own run, removed at the end of the test.
pub(crate) struct Bench {
    pub(crate) dir: TempDir,
    pub(crate) run: RunDir,
    pub(crate) rig: Rig,
    /// All events in order of arrival.
    pub(crate) seen: Vec<RigEvent>,
    launches: u32,
}

impl Bench {
    pub(crate) fn new() -> Bench {
        Bench::with_own(PathBuf::from(env!("CARGO_BIN_EXE_profile")))
    }

    /// A bench with another program for its leashes instead of `profile`.
    pub(crate) fn with_own(own: PathBuf) -> Bench {
        let dir = tempfile::tempdir().unwrap();
        let run = RunDir::create(&dir.path().join("run")).unwrap();
        let rig = Rig::new(Programs { own, torch_worker: None }).unwrap();
        Bench { dir, run, rig, seen: Vec::new(), launches: 0 }
    }

    pub(crate) fn add(&mut self, program: Program, ranks: usize, timeouts: Timeouts) -> Member {
        self.launches += 1;
        let spec = spec(self.launches, program, vec![Device::AllCores; ranks]);
        self.rig.add(LaunchRequest { run: self.run.clone(), spec, timeouts, isolation: Isolation::default() })
    }

    /// A synthetic job with steps of 1 ms that runs until the order to stop.
    pub(crate) fn add_job(&mut self, fault: Option<Fault>, ranks: usize, timeouts: Timeouts) -> Member {
        self.add(training(fault, ranks, None), ranks, timeouts)
    }

    pub(crate) fn add_command(&mut self, argv: &[&str], timeouts: Timeouts) -> Member {
        self.add(Program::Command(argv.iter().map(|a| a.to_string()).collect()), 1, timeouts)
    }

    pub(crate) fn next(&mut self) -> RigEvent {
        let deadline = Nanos::monotonic_now() + LONG.into();
        let event = self.rig.next(Some(deadline)).unwrap_or_else(|| panic!("nothing came: {:?}", self.seen));
        self.seen.push(event.clone());
        event
    }

    /// Waits until a member reports an event for which `wanted` returns a value.
    pub(crate) fn until<T>(&mut self, of: Member, wanted: impl Fn(&Event) -> Option<T>) -> T {
        loop {
            match self.next() {
                RigEvent::Said { member, event, .. } if member == of => {
                    if let Some(found) = wanted(&event) {
                        return found;
                    }
                }
                RigEvent::Ended { member, end, .. } if member == of => panic!("it ended: {end:?}"),
                _ => {}
            }
        }
    }

    pub(crate) fn until_ready(&mut self, member: Member) {
        self.until(member, |event| matches!(event, Event::Ready(_)).then_some(()));
    }

    pub(crate) fn until_held(&mut self, member: Member, at: u64) {
        self.until(member, |event| matches!(event, Event::Held { index } if *index == at).then_some(()));
    }

    pub(crate) fn until_started(&mut self, of: Member) -> i32 {
        let [pid] = self.until_all_started([of]);
        pid
    }

    /// Waits for launches of one rank in any order; returns process ids in order of members.
    pub(crate) fn until_all_started<const N: usize>(&mut self, members: [Member; N]) -> [i32; N] {
        let pid_of = |seen: &[RigEvent], of: Member| {
            seen.iter().find_map(|event| match event {
                RigEvent::Started { member, pid, .. } if *member == of => Some(*pid as i32),
                _ => None,
            })
        };
        while members.iter().any(|member| pid_of(&self.seen, *member).is_none()) {
            self.next();
        }
        members.map(|member| pid_of(&self.seen, member).expect("just waited for"))
    }

    /// Waits for a member's end, and checks that it is equal to the one on file.
    pub(crate) fn until_ended(&mut self, of: Member) -> LaunchEnd {
        let end = loop {
            if let RigEvent::Ended { member, end, .. } = self.next()
                && member == of
            {
                break end;
            }
        };
        let launch = format!("{:04}-test", of.0 + 1);
        assert_eq!(self.run.launch_end(&launch).unwrap().as_ref(), Some(&end));
        assert!(!self.run.control_path(&launch).exists() && !self.run.rendezvous_path(&launch).exists());
        end
    }

    pub(crate) fn said(&self, of: Member) -> Vec<&Event> {
        let mut said = Vec::new();
        for event in &self.seen {
            match event {
                RigEvent::Said { member, event, .. } if *member == of => said.push(event),
                _ => {}
            }
        }
        said
    }
}

pub(crate) fn training(fault: Option<Fault>, ranks: usize, steps: Option<u64>) -> Program {
    training_of(Duration::from_millis(1), fault, ranks, steps)
}

/// The spec of launch number `launch` of a run.
pub(crate) fn spec(launch: u32, program: Program, devices: Vec<Device>) -> LaunchSpec {
    let launch = format!("{launch:04}-test");
    LaunchSpec { seed: 7, ..LaunchSpec::new(launch, "test@b32@dp1", program, devices) }
}

/// A synthetic job whose steps sleep for this time.
pub(crate) fn training_of(step: Duration, fault: Option<Fault>, ranks: usize, steps: Option<u64>) -> Program {
    let model = Synthetic {
        step_us: step.as_micros() as u64,
        busy_percent: 0,
        noise_percent: 0.0,
        warmup_steps: 0,
        memory_bytes: 1 << 20,
        fault,
    };
    synthetic(model, ranks, steps)
}

/// A synthetic job that ends after this number of steps, or on the order to stop.
pub(crate) fn synthetic(model: Synthetic, ranks: usize, steps: Option<u64>) -> Program {
    let catalog = Catalog::embedded();
    let workload = catalog.get("synthetic-sleep").unwrap();
    let workload = Workload { model: Model::Synthetic(model), ..workload.clone() };
    let plan = format!("dp{ranks}").parse().unwrap();
    Program::Training(Box::new(Training { steps, ..Training::new(workload, 32, plan) }))
}

pub(crate) fn step_indices(events: &[&Event]) -> Vec<u64> {
    let index = |event: &&Event| if let Event::Step(step) = event { Some(step.index) } else { None };
    events.iter().filter_map(index).collect()
}

/// A zombie has ended, and waits for its adoptive parent.
pub(crate) fn runs(pid: i32) -> bool {
    let stat = procfs::process::Process::new(pid).and_then(|process| process.stat());
    stat.is_ok_and(|stat| !matches!(stat.state, 'Z' | 'X'))
}
