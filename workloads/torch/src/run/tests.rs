//! A job on a device with scripted times.

use std::{path::PathBuf, thread};

use front_door::wait_until;
use schema::{
    events,
    mesh::Mesh,
    plan::Plan,
    wire::{EventLine, Timing},
};
use tch::Device;
use tempfile::TempDir;

use super::*;
use crate::{
    clock::scripted::Scripted,
    launch::tests::training,
    step::{Execution, tests::trainer},
};

const MS: u64 = 1_000_000;

/// The files of a launch.
struct Files(TempDir);

impl Files {
    fn new() -> (Self, Grant) {
        let files = Self(tempfile::tempdir().unwrap());
        let grant = Grant::create(&files.0.path().join("control")).unwrap();
        (files, grant)
    }

    fn events(&self) -> PathBuf {
        self.0.path().join("events")
    }

    /// Trains on `device` as `run` does, with this number of micro-batches per step; returns the outcome
    /// and the events.
    fn train(
        &self,
        device: &Scripted,
        micro_batches: usize,
        steps: Option<u64>,
    ) -> (Result<Progress, Failure>, Vec<EventLine>) {
        let launch = Launch {
            training: Training { steps, ..training("neumf", 1, "dp1") },
            execution: Execution { micro_batches, ..Execution::plain(Device::Cpu, 1) },
            rank: 0,
            mesh: Mesh::of(&Plan::default()),
            collectives: None,
            threads: 1,
            memory_bytes: None,
            seed: 1,
        };
        let mut writer = EventWriter::create(&self.events(), 0).unwrap();
        let mut job = Job {
            launch: Some(&launch),
            group: Group::alone(),
            device: Device::Cpu,
            events: &mut writer,
            grant: Grant::open(&self.0.path().join("control")).unwrap(),
            commands: Commands::none(),
            memory_said: Nanos::ZERO,
            recording: None,
        };
        let outcome = job.train(&mut trainer(device, 1, micro_batches));
        (outcome, events::read(&self.events(), 0).unwrap())
    }
}

/// The steps and rests among the events: the end in ms, or that the job was held.
fn course(said: &[EventLine]) -> Vec<Option<u64>> {
    said.iter()
        .filter_map(|line| match &line.event {
            Event::Step(step) => {
                assert_eq!(step.timing, Timing::DeviceEvent);
                Some(Some(line.mono_ns.0 / MS))
            }
            Event::Held { .. } => Some(None),
            _ => None,
        })
        .collect()
}

/// No work precedes the first marks of the clock and of the training.
fn device() -> Scripted {
    let device = Scripted::at(0);
    device.will_work(&[0, 0]);
    device
}

/// Each step occupies the device for 100 ms.
fn slow_device() -> Scripted {
    let device = device();
    for _ in 0..10 {
        device.will_work(&[0, 0, 0, 100 * MS]);
    }
    device
}

#[test]
fn the_host_runs_ahead_by_a_little_time_and_by_a_step_at_least() {
    for (dur_ms, steps) in [(0, 4), (1, 4), (25, 4), (40, 2), (99, 1), (5_000, 1)] {
        let progress = Progress { dur: Nanos(dur_ms * MS), ..Progress::default() };
        assert_eq!(progress.steps_in_flight(), steps, "{dur_ms} ms");
    }
}

#[test]
fn a_grant_that_grows_while_its_steps_are_in_flight_leaves_no_gap() {
    let (files, grant) = Files::new();
    grant.extend_to(2);
    let device = slow_device();
    device.meanwhile(150 * MS, move || grant.extend_to(4));
    let (outcome, said) = files.train(&device, 1, Some(4));
    assert_eq!(outcome.unwrap().steps, 4);
    assert_eq!(course(&said), [100, 200, 300, 400].map(Some), "{said:#?}");
}

#[test]
fn a_job_is_held_when_the_device_has_done_all_that_was_granted() {
    let (files, grant) = Files::new();
    grant.extend_to(2);
    let events = files.events();
    let harness = thread::spawn(move || {
        wait_until("the job says that it is held", || {
            std::fs::read_to_string(&events).is_ok_and(|said| said.contains("held"))
        });
        grant.extend_to(3);
    });
    let (outcome, said) = files.train(&slow_device(), 1, Some(3));
    harness.join().unwrap();
    assert_eq!(outcome.unwrap().steps, 3);
    let course = course(&said);
    assert_eq!(course[..3], [Some(100), Some(200), None], "{said:#?}");
    assert_eq!(course.len(), 4, "{said:#?}");
}

#[test]
fn steps_in_flight_are_said_before_a_job_fails() {
    let (files, grant) = Files::new();
    grant.extend_to(u64::MAX);
    let device = device();
    device.will_work(&[MS; 2 * (3 * 8 + 1)]);
    // There are samples for two and a half steps.
    let (outcome, said) = files.train(&device, 8, None);
    let failure = outcome.err().expect("samples run out");
    assert_eq!((failure.kind, &*failure.message), (FailureKind::Data, "reading a batch: no more numbers"));
    assert_eq!(course(&said), [Some(25), Some(50)]);
}

#[test]
fn a_device_that_breaks_ends_the_job_after_the_steps_it_did() {
    let (files, grant) = Files::new();
    grant.extend_to(u64::MAX);
    let device = slow_device();
    device.break_from(150 * MS);
    let (outcome, said) = files.train(&device, 1, None);
    let failure = outcome.err().expect("the device breaks");
    assert_eq!(failure.kind, FailureKind::Internal);
    assert!(failure.message.starts_with("waiting for the device: "), "{failure}");
    assert_eq!(course(&said), [Some(100)]);
}
