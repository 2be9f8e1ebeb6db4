//! Launches of all-reduces and nothing else, through the program itself.

use schema::{
    device::Device,
    spec::{AllReduce, Collectives, LaunchSpec, Program},
    wire::{Command, Event, FailureKind, Timing},
};

use crate::support::{Worker, cores, failure, launch, run_to_end, steps};

fn all_reduces(devices: Vec<Device>, bytes: u64, collectives: Option<Collectives>) -> LaunchSpec {
    let program = Program::AllReduce(AllReduce { bytes, collectives, rendezvous: None });
    LaunchSpec { program, devices, job: format!("all-reduce-{bytes}"), ..launch("neumf", 1, "dp1", None) }
}

#[test]
fn a_step_is_an_all_reduce_and_commands_find_nothing_to_keep() {
    for ranks in [2, 3] {
        let mut workers = Worker::start_ranks(&all_reduces(cores(ranks), 1 << 20, None));
        workers[0].grant.extend_to(40);
        for worker in &mut workers {
            worker.wait_for(|event| matches!(event, Event::Held { index: 40 }));
            worker.command(&Command::Stop {});
        }
        for worker in workers {
            let (said, status) = worker.finish();
            assert!(status.success(), "{said:#?}");
            let Event::Ready(ready) = &said[1].event else { panic!("ready is not second: {said:#?}") };
            assert_eq!(
                (ready.parameters, ready.model_bytes, ready.restore_ns),
                (Some(0), Some(1 << 20), None)
            );
            let steps = steps(&said);
            assert_eq!(steps.len(), 40);
            let sent_bytes = 2 * ((1 << 20) * u64::from(ranks - 1) / u64::from(ranks));
            for step in steps {
                assert_eq!((step.samples, step.loss, step.sent_bytes), (Some(0), None, Some(sent_bytes)));
                let phases = step.phases.as_ref().expect("it has one");
                assert_eq!((step.timing, phases.forward_ns), (Timing::Host, None));
                assert!(phases.sync_exposed_ns.is_some_and(|sync| sync <= step.dur_ns), "{step:?}");
            }
            let last = &said.last().expect("it said something").event;
            assert_eq!(*last, Event::Finished { steps: 40, samples: Some(0), loss: None });
        }
    }
}

#[test]
fn what_is_not_between_steps_cannot_be_paused() {
    let mut workers = Worker::start_ranks(&all_reduces(cores(2), 1 << 10, None));
    for worker in &mut workers {
        worker.wait_for(|event| matches!(event, Event::Ready(_)));
        worker.command(&Command::Pause {});
    }
    for worker in workers {
        let (said, status) = worker.finish();
        assert_eq!(status.code(), Some(1));
        let (kind, error) = failure(&said);
        assert_eq!(kind, FailureKind::Unsupported);
        assert!(error.contains("nothing to pause"), "{error}");
    }
}

#[test]
fn devices_without_a_process_group_in_common_are_refused() {
    let mixed = vec![Device::Cpu(vec![0]), Device::Cuda(0)];
    for (spec, words) in [
        (all_reduces(mixed, 1 << 10, None), "name devices of one kind"),
        (
            all_reduces(cores(2), 1 << 10, Some(Collectives::Nccl)),
            "all-reduce: NCCL moves tensors between GPUs alone",
        ),
    ] {
        let (said, status) = run_to_end(&spec);
        assert_eq!(status.code(), Some(1));
        let (kind, error) = failure(&said);
        assert_eq!((kind, said.len()), (FailureKind::Unsupported, 2), "hello and failed: {said:#?}");
        assert!(error.contains(words), "{error}");
    }
}
