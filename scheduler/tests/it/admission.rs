//! Jobs that can never run are not queued, and their rows have the reason.

use engine::{
    Engine, Settings,
    job::{JobRequest, Payload},
    topology::Topology,
};
use model::{Throughput, switch_costs::Named};
use record::rows::{ErrorKind, Status};
use schema::{device::Device, units::Nanos};

use crate::{
    scripts::turns,
    support::{Own, SECOND, World, asked, built},
};

fn job(devices: u32) -> JobRequest {
    asked(0, 0, devices, 1, SECOND)
}

#[test]
fn what_can_never_run_is_refused_with_the_reason() {
    let node =
        |name: &str, kind: &str, devices| (name.to_owned(), kind.to_owned(), vec![Device::Cuda(0); devices]);
    let topology = Topology::new([node("a", "large", 4), node("b", "large", 2), node("c", "small", 3)]);
    let plan = |spelling: &str| Some(spelling.parse().unwrap());
    let command = || Payload::Command(vec!["train".into()]);
    let cases = [
        (job(6), None),
        (job(7), Some("asks for 7 devices, and the cluster has 6 of one type")),
        (job(7).with(|request| request.elastic = true), None),
        (job(0), Some("asks for no device")),
        (
            job(8).with(|request| {
                request.elastic = true;
                request.min_devices = Some(7);
            }),
            Some("asks for at least 7 devices, and the cluster has 6 of one type"),
        ),
        (
            job(8).with(|request| {
                request.elastic = true;
                request.min_devices = Some(6);
            }),
            None,
        ),
        (job(3).with(|request| request.device_type = Some("small".into())), None),
        (
            job(4).with(|request| request.device_type = Some("small".into())),
            Some("asks for 4 devices, and the cluster has 3 of type small"),
        ),
        (
            job(1).with(|request| {
                request.device_type = Some("huge".into());
                request.elastic = true;
            }),
            Some("asks for at least 1 devices, and the cluster has 0 of type huge"),
        ),
        (job(4).with(|request| request.plan = plan("dp2")), Some("asks for 4 devices, and its plan takes 2")),
        (job(4).with(|request| request.plan = plan("dp2-tp2")), None),
        (job(2).with(|request| request.what = command()), None),
        (
            job(2).with(|request| {
                request.what = command();
                request.plan = plan("dp2");
            }),
            Some("is a command, which brings its own plan, and asks for dp2"),
        ),
    ];
    let model: &dyn Throughput = &Own { slowdown: 1.0 };
    for (job, why) in cases {
        let jobs = [job];
        let engine = Engine::new(&topology, &jobs, model, Settings::default());
        let outcome = engine.outcomes().next().expect("there is a job");
        assert_eq!(outcome.status == Status::Unsupported, why.is_some(), "{:?}", jobs[0]);
        if why.is_some() {
            assert_eq!((outcome.err, outcome.err_detail.as_deref()), (Some(ErrorKind::Unsupported), why));
            assert_eq!(
                (outcome.start_ns, outcome.end_ns, outcome.jct_ns, outcome.queued_ns),
                (None, None, None, None)
            );
        }
    }
}

/// Later jobs in the queue do not wait for it.
#[test]
fn the_others_run_as_if_it_were_not_there() {
    let topology = Topology::uniform(2, 2, "GPU");
    let jobs = [asked(0, 0, 3, 1, SECOND), asked(1, 5, 2, 1, SECOND)];
    let costs = Named::constant(Nanos::ZERO);
    let settings = launches::simulated::Settings::default();
    let world =
        World { topology: &topology, asked: &jobs, truth: Own { slowdown: 1.0 }, costs: &costs, settings };
    let (told, outcomes, error) = turns(&world, &mut *built("fifo"));
    assert!(error.is_none(), "{error:?}");
    assert_eq!(outcomes.iter().map(|row| row.status).collect::<Vec<_>>(), [Status::Unsupported, Status::Ok]);
    assert_eq!((outcomes[1].jct_ns, outcomes[1].queued_ns), (Some(SECOND), Some(0)));
    assert_eq!(told.len(), 4, "two arrive; one starts, settles and finishes");

    let mut engine = world.engine();
    engine.refuse(engine::cluster::JobId(1), "its estimate of memory is 90 GiB".into());
    let row = engine.outcomes().nth(1).expect("there are two jobs");
    assert_eq!(row.err_detail.as_deref(), Some("its estimate of memory is 90 GiB"));
}
