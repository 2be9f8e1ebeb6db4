//! Lost devices on a testbed.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use engine::{
    Engine,
    cluster::{Action, ClusterError, ClusterEvent, DeviceId, JobId, Settled},
    journal::Unrecorded,
    topology::Topology,
    view::{Change, View},
};
use formats::decision::Turn;
use launches::{LaunchCluster, ResumePoint, simulated};
use model::switch_costs::Named;
use record::{
    manifest::DeviceFacts,
    rows::{DeviceSample, ErrorKind, Status, Tier},
};
use rig::device::{CpuReader, DeviceReader, allowed_cores};
use schema::{device::Device, units::Nanos};

use crate::{
    bench::{Bench, Wanted},
    scripted::Scripted,
    scripts::{FromView, Script, events, start},
    support::{Own, SECOND, World, asked, built},
    switches::Constants,
};

fn lost(device: u32) -> ClusterEvent {
    ClusterEvent::DeviceLost { device: DeviceId(device) }
}

/// A job on the device fails before the loss is reported, and continues elsewhere. A start on the device is
/// refused.
#[test]
fn jobs_of_a_lost_device_go_on_elsewhere() {
    let topology = Topology::uniform(2, 2, "GPU");
    let (truth, costs) = (Own { slowdown: 1.0 }, Named::constant(Nanos::ZERO));
    let jobs: Vec<_> = (0..3).map(|id| asked(id, 0, 1, 10, SECOND)).collect();
    let mut scripted = Scripted::new(&topology, &jobs, &truth, &costs);
    scripted.losses.push_back((Nanos(4 * SECOND + SECOND / 2), DeviceId(1)));
    let mut testbed = LaunchCluster::new(scripted, &jobs, None, ResumePoint::default());
    let mut engine = Engine::new(&topology, &jobs, &truth, engine::Settings::default());
    let mut turns = Vec::new();
    let outcomes =
        engine::run(&mut engine, &mut testbed, &mut *built("fifo"), &mut turns).expect("every job ends");
    let at_loss: Vec<_> = turns.iter().filter(|turn| turn.at_ns == Nanos(4 * SECOND + SECOND / 2)).collect();
    let [turn] = &at_loss[..] else { panic!("{at_loss:?}") };
    let (job, detail) = (JobId(1), "lost its device".to_owned());
    let failed = ClusterEvent::Failed { job, steps: 0, kind: ErrorKind::DeviceLost, detail };
    assert_eq!(turn.events, [ClusterEvent::Progress { job, steps: 4, loss: None }, failed, lost(1)]);
    assert_eq!((turn.actions.len(), turn.refused.len()), (0, 0), "the first in the queue cannot have it");
    let ends: Vec<_> = outcomes.iter().map(|row| (row.status, row.end_ns.map(|end| end / SECOND))).collect();
    assert_eq!(ends, [10, 20, 30].map(|end| (Status::Ok, Some(end))));
    assert_eq!((outcomes[1].retries, outcomes[1].steps_lost), (0, 4), "a loss costs no retry");
}

/// Two jobs share the device, and one is paused there. The failure of the first lets the second train at another pace.
#[test]
fn jobs_of_a_lost_device_fail_in_their_order_in_a_simulation() {
    let (topology, costs) = (Topology::uniform(1, 1, "GPU"), Named::constant(Nanos::ZERO));
    let jobs: Vec<_> = (0..3).map(|id| asked(id, 0, 1, 1_000, SECOND)).collect();
    let faults = simulated::Faults {
        device_mtbf_ns: Some(100e9),
        device_repair_ns: 1e9,
        ..simulated::Faults::default()
    };
    let settings = simulated::Settings { faults, ..simulated::Settings::default() };
    let world =
        World { topology: &topology, asked: &jobs, truth: Own { slowdown: 1.5 }, costs: &costs, settings };
    let start = |job| Action::Start { job: JobId(job), devices: vec![DeviceId(0)], cpus: None, plan: None };
    let mut nth = 0;
    let mut policy = FromView(|view: &View<'_>| {
        nth += 1;
        match nth {
            1 => vec![start(2)],
            2 => vec![Action::Pause { job: JobId(2) }, start(0), start(1)],
            _ if view.changes.contains(&Change::Lost(DeviceId(0))) => {
                (0..3).map(|job| Action::End { job: JobId(job) }).collect()
            }
            _ => vec![],
        }
    });
    let mut turns: Vec<Turn> = Vec::new();
    world.run(&mut policy, &mut turns).expect("the policy ends every job");
    let failed: Vec<u32> = events(&turns)
        .filter_map(|(_, happened)| match happened {
            ClusterEvent::Failed { job, kind: ErrorKind::DeviceLost, .. } => Some(job.0),
            _ => None,
        })
        .collect();
    assert_eq!(failed, [0, 1, 2]);
}

/// After a loss, the head of the queue needs more devices than there are. The others do not wait for it.
#[test]
fn a_job_that_is_too_wide_after_a_loss_holds_up_no_other() {
    let topology = Topology::uniform(2, 2, "GPU");
    let (truth, costs) = (Own { slowdown: 1.0 }, Named::constant(Nanos::ZERO));
    let jobs = [(0, 1), (1, 2), (2, 1)].map(|(id, devices)| asked(id, 0, devices, 10, SECOND));
    for policy in ["fifo", "sjf", "packing-fifo"] {
        let mut scripted = Scripted::new(&topology, &jobs, &truth, &costs);
        scripted.losses.push_back((Nanos(4 * SECOND), DeviceId(1)));
        let mut testbed = LaunchCluster::new(scripted, &jobs, None, ResumePoint::default());
        let mut engine = Engine::new(&topology, &jobs, &truth, engine::Settings::default());
        let ended = engine::run(&mut engine, &mut testbed, &mut *built(policy), &mut Unrecorded);
        assert!(matches!(ended, Err(ClusterError::Stuck { waiting: 1 })), "{policy}: {ended:?}");
        let ends: Vec<_> = engine.outcomes().map(|row| row.end_ns).collect();
        assert_eq!(ends, [Some(10 * SECOND), None, Some(20 * SECOND)], "{policy}");
    }
}

/// Of two jobs on a lost device, one ends a second before the other. Until both have ended, the engine does not know of the loss,
/// and the cluster refuses a start there.
#[test]
fn a_start_on_a_device_that_is_being_lost_is_refused() {
    let topology = Topology::uniform(2, 2, "GPU");
    let (truth, costs) = (Own { slowdown: 1.0 }, Named::constant(Nanos::ZERO));
    let jobs = [asked(0, 0, 1, 10, SECOND), asked(1, 0, 1, 10, SECOND)];
    let mut scripted = Scripted::new(&topology, &jobs, &truth, &costs);
    scripted.losses.push_back((Nanos(4 * SECOND), DeviceId(0)));
    scripted.falls_for = Nanos::SECOND;
    let mut testbed = LaunchCluster::new(scripted, &jobs, None, ResumePoint::default());
    let mut engine = Engine::new(&topology, &jobs, &truth, engine::Settings::default());
    let mut turns = Vec::new();
    let both_on = |device| vec![start(0, &[device]), start(1, &[device])];
    let mut policy = Script(vec![both_on(0), vec![], vec![start(0, &[0])], both_on(1)]);
    let outcomes = engine::run(&mut engine, &mut testbed, &mut policy, &mut turns).expect("the jobs end");
    let refused: Vec<_> = turns.iter().flat_map(|turn| &turn.refused).map(|refused| &*refused.why).collect();
    assert_eq!((turns[2].at_ns, &refused[..]), (Nanos(5 * SECOND), &["device 0 is lost"][..]));
    assert_eq!(turns[3].events.last(), Some(&lost(0)));
    let ends: Vec<_> = outcomes.iter().map(|row| row.end_ns).collect();
    assert_eq!(ends, [Some(16 * SECOND); 2]);
}

/// A job waits for another to leave a device that is lost. It was not at fault, as if it had run there.
#[test]
fn a_job_that_waits_for_a_lost_device_keeps_its_retries() {
    let topology = Topology::uniform(2, 2, "GPU");
    let (truth, costs) = (Own { slowdown: 1.0 }, Constants(Nanos::ZERO));
    let jobs = [asked(0, 0, 1, 100, SECOND), asked(1, 15 * SECOND, 1, 10, SECOND)];
    let mut scripted = Scripted::new(&topology, &jobs, &truth, &costs);
    scripted.losses.push_back((Nanos(17 * SECOND), DeviceId(0)));
    let mut testbed = LaunchCluster::new(scripted, &jobs, None, ResumePoint::default());
    let mut engine = Engine::new(&topology, &jobs, &truth, engine::Settings::default());
    let start = |job, device| Action::Start {
        job: JobId(job),
        devices: vec![DeviceId(device)],
        cpus: None,
        plan: None,
    };
    let mut turns = Vec::new();
    let stop = Action::Stop { job: JobId(0), checkpoint: false };
    let mut policy = Script(vec![vec![start(0, 0)], vec![], vec![stop, start(1, 0)], vec![start(1, 1)]]);
    let ended = engine::run(&mut engine, &mut testbed, &mut policy, &mut turns);
    assert!(matches!(ended, Err(ClusterError::Stuck { waiting: 1 })), "job 0 waits: {ended:?}");
    let failed: Vec<_> = events(&turns)
        .filter_map(|(at, happened)| match happened {
            ClusterEvent::Failed { job, kind, .. } => Some((at.0 / SECOND, job.0, *kind)),
            _ => None,
        })
        .collect();
    assert_eq!(failed, [(17, 0, ErrorKind::DeviceLost), (17, 1, ErrorKind::DeviceLost)]);
    let row = engine.outcomes().nth(1).expect("there are two jobs");
    assert_eq!((row.status, row.starts, row.retries), (Status::Ok, 2, 0));
}

/// A launch that is ready at the instant in which its device is lost has failed. That it was ready is no event of the next launch.
#[test]
fn an_event_of_a_lost_launch_is_none_of_the_next() {
    let topology = Topology::uniform(2, 2, "GPU");
    let (truth, costs) = (Own { slowdown: 1.0 }, Constants(Nanos::ZERO));
    let jobs = [asked(0, 0, 1, 10, SECOND)];
    let mut scripted = Scripted::new(&topology, &jobs, &truth, &costs);
    scripted.losses.push_back((Nanos(10 * SECOND), DeviceId(0)));
    let mut testbed = LaunchCluster::new(scripted, &jobs, None, ResumePoint::default());
    let mut engine = Engine::new(&topology, &jobs, &truth, engine::Settings::default());
    let (job, mut turns) = (JobId(0), Vec::new());
    let mut policy = Script(vec![vec![start(0, &[0])], vec![start(0, &[1])]]);
    engine::run(&mut engine, &mut testbed, &mut policy, &mut turns).expect("the job ends");
    let told: Vec<_> = events(&turns).map(|(at, happened)| (at.0 / SECOND, happened.clone())).collect();
    let detail = "lost its device".to_owned();
    assert_eq!(
        told,
        [
            (0, ClusterEvent::Arrived { job }),
            (10, ClusterEvent::Failed { job, steps: 0, kind: ErrorKind::DeviceLost, detail }),
            (10, lost(0)),
            (20, ClusterEvent::Settled { job, now: Settled::Running, steps: 0 }),
            (30, ClusterEvent::Finished { job, steps: 10 }),
        ]
    );
}

/// A device that is present until it is removed.
struct Fragile {
    reader: CpuReader,
    is_lost: Arc<AtomicBool>,
}

impl DeviceReader for Fragile {
    fn device(&self) -> &Device {
        self.reader.device()
    }

    fn facts(&self) -> &DeviceFacts {
        self.reader.facts()
    }

    fn period(&self, tier: Tier) -> Option<std::time::Duration> {
        self.reader.period(tier)
    }

    fn sample(&mut self, tier: Tier) -> DeviceSample {
        self.reader.sample(tier)
    }

    fn is_lost(&self) -> bool {
        self.is_lost.load(Ordering::Relaxed)
    }
}

/// One job trains on the device, one is paused there, one waits for these two to leave it, and one is
/// elsewhere.
#[test]
fn a_device_that_stops_answering_takes_its_jobs_with_it() {
    let is_lost = Arc::new(AtomicBool::new(false));
    let reader = CpuReader::open(&allowed_cores().unwrap()).unwrap();
    let devices = vec![Device::AllCores, reader.device().clone()];
    let readers: Vec<Box<dyn DeviceReader>> = vec![Box::new(Fragile { reader, is_lost: is_lost.clone() })];
    let job = |steps| Wanted::Training("short", steps);
    let mut bench = Bench::watched(&[job(100_000), job(100_000), job(100)], None, devices, readers);
    bench.start(0, &[1], "dp1");
    bench.until_settled(0, Settled::Running);
    bench.pause(0);
    bench.until_settled(0, Settled::Paused);
    bench.start(1, &[1], "dp1");
    bench.until_settled(1, Settled::Running);
    bench.start(2, &[0], "dp1");
    bench.until_settled(2, Settled::Running);
    is_lost.store(true, Ordering::Relaxed);
    let told_from = bench.told.len();
    while bench.told.last() != Some(&lost(1)) {
        bench.next();
    }
    let failed = |job: u32| {
        bench.told[told_from..].iter().any(|happened| match happened {
            ClusterEvent::Failed { job: of, steps: 0, kind: ErrorKind::DeviceLost, detail } => {
                *of == JobId(job) && detail.contains("lost its device")
            }
            _ => false,
        })
    };
    assert!(failed(0) && failed(1) && !failed(2), "{:?}", bench.told);
    let start = Action::Start { job: JobId(0), devices: vec![DeviceId(1)], cpus: None, plan: None };
    assert_eq!(bench.apply(start), Err("device 1 is lost".into()));
    if !bench.told.iter().any(|told| matches!(told, ClusterEvent::Finished { .. })) {
        assert_eq!(bench.until_finished(2), 100);
    }
}
