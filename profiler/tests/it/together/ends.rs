//! Members that end, and the effect on the others.

use std::{thread, time::Duration};

use front_door::wait_until;
use record::rows::ErrorKind;
use rig::{Isolation, LaunchRequest, StopRule, interrupt::Interrupt};
use schema::{catalog::Fault, sharing::Sharing};

use super::{Job, SLEEP, SPIN, Visits, request, steps_so_far};

#[test]
fn a_rank_that_cannot_join_what_it_should_is_not_started() {
    let mut visits = Visits::new();
    let request = LaunchRequest {
        isolation: Isolation { cgroup: Some("/no/such/cgroup".into()), ..Isolation::default() },
        ..request(&visits.bench.run, 1, 0, SPIN.program(), &Sharing::TIME_SLICE)
    };
    visits.bench.rig.add(request);
    while visits.bench.rig.next(None).is_some() {}
    let end = visits.end("0001-test");
    assert_eq!(end.err, Some(ErrorKind::Start));
    assert!(end.err_detail.unwrap().contains("cannot join /no/such/cgroup: No such file"));
}

#[test]
fn a_member_that_comes_to_its_end_is_started_again() {
    let mut visits = Visits::new();
    // The second program runs until the first has been started again.
    let again = visits.bench.run.spec_path("0003-test");
    let waits = format!("until [ -e '{}' ]; do sleep 0.01; done", again.display());
    let jobs =
        [Job { steps: Some(250), ..SLEEP }, Job { script: Some(waits.leak()), outside: true, ..SLEEP }];
    let visit = visits.visit("time-slice", &jobs, StopRule::End);
    visits.assert_all_ended_well(&visit);
    assert!(visit.launches[0].len() >= 2, "{:?}", visit.launches);
    assert_eq!(visit.launches[1].len(), 1, "its end is the end: {:?}", visit.launches);
}

#[test]
fn a_program_that_obeys_no_grant_is_there_from_the_barrier_on() {
    let mut visits = Visits::new();
    let runs = visits.bench.dir.path().join("runs");
    let counts = format!("echo run >> '{}'", runs.display());
    // The program runs until the other has been started for the third time.
    let waits = format!("until [ $(cat '{}' | wc -l) -ge 3 ]; do sleep 0.01; done", runs.display());
    let outside = |script: String| Job { script: Some(script.leak()), outside: true, ..SLEEP };
    let jobs = [Job { steps: Some(250), ..SLEEP }, outside(counts), outside(waits)];
    let visit = visits.visit("time-slice", &jobs, StopRule::End);
    visits.assert_all_ended_well(&visit);
    assert!(visit.launches[1].len() >= 3, "{:?}", visit.launches);
    for launches in &visit.launches[1..] {
        let end = visits.end(&launches[0]);
        let began = end.mono_ns.0 - end.ranks[0].wall_ns.unwrap();
        assert!(began >= visit.barrier_mono_ns.unwrap().0, "{end:?}");
    }
    let error = visits.try_visit("step-gate", &jobs, StopRule::End, &Interrupt::default()).unwrap_err();
    assert_eq!(error.to_string(), "step-gate needs steps of each member, and one of them shows none");
}

#[test]
fn a_member_that_dies_contaminates_the_others() {
    let dies = Job { fault: Some(Fault::RankDies { rank: 0, after_steps: 300 }), ..SLEEP };
    let never = Job { fault: Some(Fault::CrashBeforeHello), ..SLEEP };
    for mode in ["time-slice", "step-gate:100ms"] {
        let mut visits = Visits::new();
        let visit = visits.visit(mode, &[SLEEP, dies], StopRule::Seconds(60.0));
        let [alive, dead] = [0, 1].map(|seat| visits.end(&visit.launches[seat][0]));
        assert_eq!((alive.err, dead.err), (Some(ErrorKind::Contaminated), Some(ErrorKind::Killed)), "{mode}");
        let detail = alive.err_detail.unwrap();
        assert!(detail.contains("0002-test, of the same group, had failed"), "{detail}");
        assert!(visit.barrier_mono_ns.is_some());
    }
    let mut visits = Visits::new();
    let visit = visits.visit("time-slice", &[SLEEP, never, SLEEP], StopRule::Seconds(60.0));
    assert_eq!(visit.launches, [vec!["0001-test".to_owned()], vec!["0002-test".into()], vec![]]);
    assert_eq!(visit.barrier_mono_ns, None, "nothing was shared");
    let ends = [0, 1].map(|seat| visits.end(&visit.launches[seat][0]).err);
    assert_eq!(ends, [Some(ErrorKind::Contaminated), Some(ErrorKind::NoHello)]);
}

#[test]
fn a_program_that_takes_no_step_as_it_did_alone_is_not_waited_for_without_end() {
    let mut visits = Visits::new();
    let silent = Job { script: Some("sleep 1000"), first_step: Duration::from_secs(1), ..SLEEP };
    let visit = visits.visit("step-gate", &[SLEEP, silent], StopRule::Seconds(60.0));
    let [waited, waited_for] = [0, 1].map(|seat| visits.end(&visit.launches[seat][0]));
    assert_eq!(waited.err, Some(ErrorKind::Contaminated));
    assert_eq!(waited_for.err, None, "it did nothing wrong");
    assert_eq!(visit.barrier_mono_ns, None);
}

#[test]
fn an_interrupted_visit_leaves_nothing_behind() {
    // While members warm up, and while they share: the number of steps that a launch has then taken.
    for (mode, launch, steps, launches) in [
        ("time-slice", "0001-test", 1, 1),
        ("time-slice", "0002-test", 250, 2),
        ("step-gate:100ms", "0002-test", 250, 2),
        ("sequential", "0001-test", 250, 2),
    ] {
        let mut visits = Visits::new();
        let interrupt = Interrupt::default();
        let (events, user) = (visits.bench.run.events_path(launch, 0), interrupt.clone());
        let asks = thread::spawn(move || {
            wait_until("the launch has taken its steps", || steps_so_far(&events) > steps);
            user.ask();
        });
        let visit = visits.try_visit(mode, &[SLEEP, SLEEP], StopRule::Seconds(60.0), &interrupt).unwrap();
        asks.join().unwrap();
        assert_eq!(visit, None, "{mode}");
        let begun = visits.bench.run.launches().unwrap();
        assert!(begun.len() >= launches);
        for launch in begun {
            assert_eq!(visits.end(&launch).err, Some(ErrorKind::Interrupted), "{mode}");
        }
    }
}
