//! Pausing and going on, through the program itself.

use schema::wire::{Command, Event};

use crate::support::{Worker, launch, restored, run_to_end, steps};

#[test]
fn a_paused_job_goes_on_to_the_bit_and_trains_nothing_meanwhile() {
    let folder = tempfile::tempdir().unwrap();
    for workload in ["bert-mini", "lstm"] {
        let place = folder.path().join(workload);
        let spec = launch(workload, 2, "dp1", Some(6));
        let (said, _) = run_to_end(&spec);
        let losses = |said| steps(said).iter().map(|step| step.loss.unwrap()).collect::<Vec<_>>();
        let whole = losses(&said);

        let mut worker = Worker::start(&spec);
        worker.train_to(3);
        let paused = worker.ask(&Command::Pause {});
        assert!(matches!(paused, Event::Paused { dur_ns, .. } if dur_ns.0 > 0), "{paused:?}");
        let again = worker.ask(&Command::Pause {});
        assert!(matches!(again, Event::Paused { dur_ns, bytes_freed: 0 } if dur_ns.0 == 0), "{again:?}");
        worker.grant.extend_to(6);
        worker.checkpoint(&place);
        std::thread::sleep(std::time::Duration::from_millis(200));
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
