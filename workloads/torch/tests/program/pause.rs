//! Pausing and going on, through the program itself.

use std::time::Duration;

use front_door::let_pass;
use schema::wire::{Command, Event};

use crate::support::{
    Worker, difference, launch, launch_ranks, losses, mean_losses, restored, run_to_end, with_sgd,
};

#[test]
fn a_paused_job_goes_on_to_the_bit_and_trains_nothing_meanwhile() {
    let folder = tempfile::tempdir().unwrap();
    for workload in ["bert-mini", "lstm"] {
        let place = folder.path().join(workload);
        let spec = with_sgd(launch(workload, 2, "dp1", Some(6)), 0.1);
        let (said, _) = run_to_end(&spec);
        let whole = losses(&said);

        let mut worker = Worker::start(&spec);
        worker.train_to(3);
        let paused = worker.ask(&Command::Pause {});
        assert!(matches!(paused, Event::Paused { dur_ns, .. } if dur_ns.0 > 0), "{paused:?}");
        let again = worker.ask(&Command::Pause {});
        assert!(matches!(again, Event::Paused { dur_ns, bytes_freed: 0 } if dur_ns.0 == 0), "{again:?}");
        worker.grant.extend_to(6);
        worker.checkpoint(&place);
        let_pass(
            Duration::from_millis(200),
            "a job that is paused must not train, though it is granted steps",
        );
        let resumed = worker.ask(&Command::Resume {});
        assert!(matches!(resumed, Event::Resumed { .. }), "{resumed:?}");
        let (said, status) = worker.finish();
        assert!(status.success(), "{said:#?}");
        let order: Vec<_> = said
            .iter()
            .filter_map(|line| match line.event {
                Event::Step(_) => Some("step"),
                Event::Paused { .. } => Some("paused"),
                Event::Resumed { .. } => Some("resumed"),
                _ => None,
            })
            .collect();
        let expected = ["step", "step", "step", "paused", "paused", "resumed", "step", "step", "step"];
        assert_eq!(order, expected);
        assert_eq!(losses(&said), whole, "{workload}");
        let (said, _) = run_to_end(&restored(&spec, &place, "dp1", 3));
        assert_eq!(losses(&said), whole[3..], "{workload}: its checkpoint was written while it was paused");
    }
}

/// While ranks are paused they have no memory to sum gradients in, or to gather parameters in.
#[test]
fn ranks_that_were_paused_go_on_as_one_process_does_on_the_whole_batch() {
    const RATE: f64 = 0.1;
    const TOLERANCE: f64 = 1e-4;
    let whole = with_sgd(launch("gpt2-mini", 4, "dp1", Some(4)), RATE);
    let (said, _) = run_to_end(&whole);
    let alone = losses(&said);
    let (said, _) = run_to_end(&with_sgd(whole, 2.0 * RATE));
    let doubled = difference(&losses(&said)[3..], &alone[3..]);
    assert!(doubled > 100.0 * TOLERANCE, "gradients that are twice as large show: {doubled}");

    for plan in ["dp2", "dp2-ga2", "dp2-zero1", "dp2-zero3"] {
        let spec = with_sgd(launch_ranks(2, "gpt2-mini", 4, plan, Some(4)), RATE);
        let mut workers = Worker::start_ranks(&spec);
        workers[0].grant.extend_to(2);
        for worker in &mut workers {
            worker.wait_for(|event| matches!(event, Event::Held { index: 2 }));
        }
        for command in [Command::Pause {}, Command::Resume {}] {
            for worker in &mut workers {
                let answer = worker.ask(&command);
                assert!(matches!(answer, Event::Paused { .. } | Event::Resumed { .. }), "{plan}: {answer:?}");
            }
        }
        workers[0].grant.extend_to(4);
        let mut of_ranks = Vec::new();
        for worker in workers {
            let (said, status) = worker.finish();
            assert!(status.success(), "{said:#?}");
            of_ranks.push(losses(&said));
        }
        let apart = difference(&mean_losses(&of_ranks), &alone);
        assert!(apart < TOLERANCE, "{plan} is {apart} apart: {of_ranks:?}, alone {alone:?}");
    }
}

#[test]
fn a_job_that_is_not_paused_has_nothing_to_bring_back_and_a_paused_one_can_stop() {
    let mut worker = Worker::start(&launch("neumf", 8, "dp1", None));
    worker.wait_for(|event| matches!(event, Event::Ready(_)));
    let resumed = worker.ask(&Command::Resume {});
    assert!(matches!(resumed, Event::Resumed { dur_ns } if dur_ns.0 == 0), "{resumed:?}");
    worker.train_to(2);
    worker.ask(&Command::Pause {});
    worker.command(&Command::Stop {});
    let (said, status) = worker.finish();
    assert!(status.success());
    assert!(matches!(said.last().unwrap().event, Event::Finished { steps: 2, .. }), "{said:#?}");
}
