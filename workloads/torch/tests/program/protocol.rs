//! The worker protocol, through the program itself.

use std::io::Write;

use crate::support::{Worker, failure, launch, run_to_end, steps};
use schema::{
    device::Device,
    spec::{Collectives, LaunchSpec, Program},
    units::Nanos,
    wire::{Command, Event, EventLine, FailureKind, PROTOCOL, Timing},
};

#[test]
fn a_job_trains_as_far_as_its_grant_goes() {
    let before_start = Nanos::monotonic_now();
    let mut worker = Worker::start(&launch("neumf", 32, "dp1", Some(5)));
    let started = Nanos::monotonic_now();
    worker.wait_for(|event| matches!(event, Event::Ready(_)));
    worker.grant.extend_to(2);
    worker.wait_for(|event| matches!(event, Event::Held { index: 2 }));
    let granted = Nanos::monotonic_now();
    worker.grant.extend_to(4);
    worker.wait_for(|event| matches!(event, Event::Held { index: 4 }));
    worker.grant.extend_to(100);
    let (said, status) = worker.finish();
    assert!(status.success());

    let Event::Hello(hello) = &said[0].event else { panic!("hello is not first: {said:#?}") };
    assert_eq!((hello.protocol, hello.worker.as_str()), (PROTOCOL, "torch-worker"));
    assert_eq!(hello.libtorch.as_deref(), Some("2.11.0"));
    let Event::Ready(ready) = &said[1].event else { panic!("ready is not second: {said:#?}") };
    assert!(ready.parameters > Some(0) && ready.model_bytes >= ready.parameters.map(|count| 4 * count));
    assert!(ready.peak_bytes >= ready.model_bytes);
    // The age of a process has a resolution of 10 ms.
    let resolution = Nanos(10_000_000);
    let (at_hello, at_ready) = (said[0].mono_ns.saturating_sub(started), said[1].mono_ns - before_start);
    assert!(ready.startup_ns + resolution >= at_hello, "{} for {at_hello}", ready.startup_ns);
    assert!(ready.startup_ns <= at_ready + resolution, "{} for {at_ready}", ready.startup_ns);

    let steps = steps(&said);
    assert_eq!(steps.iter().map(|step| step.index).collect::<Vec<_>>(), [0, 1, 2, 3, 4]);
    for step in &steps {
        assert_eq!(step.samples, Some(32));
        assert!(step.loss.unwrap().is_finite());
        let phases = step.phases.as_ref().unwrap();
        let parts = [phases.data_ns, phases.forward_ns, phases.backward_ns, phases.optimizer_ns];
        let sum = parts.into_iter().map(|part| part.expect("this plan has the phase")).sum::<Nanos>();
        assert!(sum <= step.dur_ns, "phases are parts of the step");
        assert_eq!(step.timing, Timing::Host);
        assert_eq!((phases.sync_total_ns, phases.sync_exposed_ns, phases.offload_ns), (None, None, None));
    }
    let third = said.iter().find(|line| matches!(&line.event, Event::Step(step) if step.index == 2));
    let third_begins = third.expect("it was trained").mono_ns - steps[2].dur_ns;
    assert!(third_begins >= granted, "the time held belongs to no step");
    let last = &said.last().unwrap().event;
    assert!(matches!(last, Event::Finished { steps: 5, samples: Some(160), loss: Some(_) }), "{last:?}");
    let memory = said.iter().find_map(|line| match &line.event {
        Event::Memory(memory) => Some(memory),
        _ => None,
    });
    let memory = memory.expect("memory is said now and then");
    assert!(memory.peak_bytes >= memory.allocated_bytes && Some(memory.allocated_bytes) >= ready.model_bytes);
    let of_a_gpu = (memory.reserved_bytes, memory.host_bytes, memory.allocator_retries);
    assert_eq!(of_a_gpu, (None, None, None), "a CPU has none of these");
}

/// A worker that rests, with nothing granted, or one that trains.
fn granted_worker(granted: u64) -> Worker {
    let mut worker = Worker::start(&launch("neumf", 32, "dp1", None));
    worker.wait_for(|event| matches!(event, Event::Ready(_)));
    worker.grant.extend_to(granted);
    if granted > 0 {
        worker.wait_for(|event| matches!(event, Event::Step(_)));
    }
    worker
}

#[test]
fn it_leaves_when_stdin_ends_at_rest_and_while_it_trains() {
    for granted in [0, u64::MAX] {
        let mut worker = granted_worker(granted);
        worker.stdin = None;
        let (said, status) = worker.finish();
        assert!(status.success());
        let done = steps(&said).len() as u64;
        let last = &said.last().unwrap().event;
        assert!(matches!(last, Event::Finished { steps, .. } if *steps == done), "{last:?}");
    }
}

#[test]
fn it_leaves_when_told_to_stop_at_rest() {
    let mut worker = Worker::start(&launch("neumf", 32, "dp1", None));
    worker.grant.extend_to(3);
    worker.wait_for(|event| matches!(event, Event::Held { index: 3 }));
    worker.command(&Command::Stop {});
    let (said, status) = worker.finish();
    assert!(status.success());
    assert!(matches!(
        said.last().unwrap().event,
        Event::Finished { steps: 3, samples: Some(96), loss: Some(_) }
    ));
}

#[test]
fn a_line_that_is_no_command_is_a_failure_at_rest_and_while_it_trains() {
    for granted in [0, u64::MAX] {
        let mut worker = granted_worker(granted);
        writeln!(worker.stdin.as_mut().expect("it was not closed"), "no command").unwrap();
        // stdin stays open: the bad line alone ends the job.
        let (said, status) = worker.finish();
        assert_eq!(status.code(), Some(1));
        let (kind, error) = failure(&said);
        assert_eq!(kind, FailureKind::Internal);
        assert!(error.contains("not a command"), "{error}");
    }
}

#[test]
fn what_it_cannot_execute_is_refused_before_anything_is_built() {
    let mut two_devices = launch("neumf", 32, "dp1", Some(1));
    two_devices.devices = vec![Device::Cpu(vec![0]), Device::Cpu(vec![1])];
    let mut no_such_device = launch("neumf", 32, "dp1", Some(1));
    no_such_device.devices = vec![Device::Cuda(63)];
    let mut command = launch("neumf", 32, "dp1", Some(1));
    command.program = Program::Command(vec!["true".into()]);
    let mut no_such_axis = launch("neumf", 32, "dp1", Some(1));
    let Program::Training(training) = &mut no_such_axis.program else { unreachable!() };
    training.plan = "tp2".parse().unwrap();
    let mut nccl_on_cpus = launch("neumf", 32, "dp2", Some(1));
    let Program::Training(training) = &mut nccl_on_cpus.program else { unreachable!() };
    training.collectives = Some(Collectives::Nccl);
    nccl_on_cpus.devices = vec![Device::Cpu(vec![0]), Device::Cpu(vec![1])];
    let on = |devices| LaunchSpec { devices, ..launch("neumf", 32, "dp2", Some(1)) };

    for (spec, words) in [
        (
            no_such_axis,
            "plan 'tp2': neumf runs no plans with tp because only attention and its feed-forward networks have a \
             tensor-parallel form; it runs dp, pp, zero, ga, gc, offload, bf16",
        ),
        (launch("neumf", 33, "ga2", Some(1)), "plan 'ga2': a batch of 33 cannot be cut into 2"),
        (two_devices, "plan 'dp1': it takes 1 device(s), and the launch names 2"),
        (launch("neumf", 32, "dp2", Some(1)), "plan 'dp2': it takes 2 device(s), and the launch names 1"),
        (launch("td3-pendulum", 256, "dp2", Some(1)), "plan 'dp2': td3-pendulum runs no plans with dp"),
        (nccl_on_cpus, "plan 'dp2': NCCL moves tensors between GPUs alone; use --collectives gloo"),
        (
            on(vec![Device::Cuda(0), Device::Cpu(vec![0])]),
            "on GPUs and on CPU devices; name devices of one kind",
        ),
        (on(vec![Device::Cuda(0), Device::Cuda(0)]), "cuda:0 has several; use --collectives gloo"),
        (no_such_device, "cuda:63: "),
        (command, "runs no commands"),
        (launch("synthetic-spin", 1, "dp1", Some(1)), "is for the program 'synthetic'"),
    ] {
        let (said, status) = run_to_end(&spec);
        assert_eq!(status.code(), Some(1));
        let (kind, error) = failure(&said);
        assert_eq!((kind, said.len()), (FailureKind::Unsupported, 2), "hello and failed: {said:#?}");
        assert!(error.contains(words), "{error}");
    }
}

#[test]
fn memory_that_runs_out_is_a_failure_of_its_kind() {
    // Libtorch itself takes one to five of these eight gigabytes, the first activation alone wants thirteen.
    let worker = Worker::start_with_address_space(8 << 30, &launch("gpt2-mini", 100_000, "dp1", Some(1)));
    worker.grant.extend_to(1);
    let (said, status) = worker.finish();
    assert_eq!(status.code(), Some(1));
    let (kind, error) = failure(&said);
    assert_eq!(kind, FailureKind::OutOfMemory, "{error}");
    assert!(error.contains("out of memory"), "{error}");
}

#[test]
fn data_that_cannot_be_read_is_a_failure_of_its_kind() {
    let mut spec = launch("resnet18-cifar", 4, "dp1", Some(1));
    let Program::Training(training) = &mut spec.program else { unreachable!() };
    training.data = Some("no/such/folder".into());
    let (said, status) = run_to_end(&spec);
    assert_eq!(status.code(), Some(1));
    let (kind, error) = failure(&said);
    assert_eq!(kind, FailureKind::Data, "{error}");
    assert!(error.contains("no/such/folder"), "{error}");
}

#[test]
fn one_seed_gives_the_same_losses_to_the_bit() {
    let losses = |seed| {
        let mut spec = launch("gpt2-mini", 2, "ga2-bf16", Some(4));
        spec.seed = seed;
        let (said, status) = run_to_end(&spec);
        assert!(status.success(), "{said:#?}");
        steps(&said).iter().map(|step| step.loss.unwrap().to_bits()).collect::<Vec<_>>()
    };
    let first = losses(5);
    assert_eq!(first.len(), 4);
    assert_eq!(first, losses(5));
    assert_ne!(first, losses(6));
}

#[test]
fn offload_changes_no_loss_and_has_a_phase_of_its_own() {
    let said = |plan: &str, offload_threads| {
        let mut spec = launch("neumf", 32, plan, Some(4));
        let Program::Training(training) = &mut spec.program else { unreachable!() };
        training.offload_threads = offload_threads;
        let (said, status) = run_to_end(&spec);
        assert!(status.success(), "{said:#?}");
        said
    };
    let losses =
        |said: &[EventLine]| steps(said).iter().map(|step| step.loss.unwrap().to_bits()).collect::<Vec<_>>();
    let expected = losses(&said("ga2", None));
    assert_eq!(expected.len(), 4);
    for threads in [None, Some(2)] {
        let said = said("ga2-offload", threads);
        assert_eq!(losses(&said), expected, "{threads:?} threads");
        for step in steps(&said) {
            assert!(step.phases.as_ref().unwrap().offload_ns > Some(Nanos::ZERO), "{step:?}");
        }
    }
}
