//! Commands to a launch at rest, and its start from a checkpoint.

use std::{fs, path::Path};

use record::rows::ErrorKind;
use rig::{Member, RigEvent, StopMode};
use schema::{
    spec::Program,
    units::Nanos,
    wire::{Command, Event},
};

use crate::bench::{Bench, PATIENT, step_indices, training};

#[test]
fn commands_wait_until_the_job_rests() {
    let mut bench = Bench::new();
    let job = bench.add_job(None, 1, PATIENT);
    let checkpoint = bench.dir.path().join("checkpoint");
    bench.rig.extend(job, 20);
    bench.rig.command(job, Command::Pause {});
    bench.rig.command(job, Command::Checkpoint { path: checkpoint.to_str().unwrap().into() });
    bench.rig.command(job, Command::Resume {});
    bench.until(job, |event| matches!(event, Event::Resumed { .. }).then_some(()));
    bench.rig.extend(job, 25);
    bench.until_held(job, 25);
    bench.rig.command(job, Command::Stop {});
    assert_eq!(bench.until_ended(job).err, None);
    let order: Vec<String> = bench
        .said(job)
        .iter()
        .filter_map(|event| match event {
            Event::Held { index } => Some(format!("held {index}")),
            Event::Paused { bytes_freed, .. } => Some(format!("paused {bytes_freed}")),
            Event::Checkpointed { bytes, .. } => Some(format!("checkpointed {bytes}")),
            Event::Resumed { .. } => Some("resumed".into()),
            Event::Finished { steps, .. } => Some(format!("finished {steps}")),
            _ => None,
        })
        .collect();
    let expected = ["held 20", "paused 1048576", "checkpointed 10", "resumed", "held 25", "finished 25"];
    assert_eq!(order, expected);
    assert_eq!(fs::read_to_string(checkpoint).unwrap(), "step = 20\n");
}

/// The answers of two ranks to commands, with the durations that they report.
fn answers(bench: &Bench, job: Member) -> [Vec<(&'static str, Nanos, Nanos)>; 2] {
    [0, 1].map(|rank| {
        let of_rank = |event: &RigEvent| match event {
            RigEvent::Said { member, rank: of, at, event } if *member == job && *of == rank => match event {
                Event::Paused { dur_ns, .. } => Some(("paused", *at, *dur_ns)),
                Event::Resumed { dur_ns } => Some(("resumed", *at, *dur_ns)),
                Event::Checkpointed { dur_ns, .. } => Some(("checkpointed", *at, *dur_ns)),
                _ => None,
            },
            _ => None,
        };
        bench.seen.iter().filter_map(of_rank).collect()
    })
}

#[test]
fn every_rank_answers_each_command_before_the_next_is_given() {
    let mut bench = Bench::new();
    let job = bench.add_job(None, 2, PATIENT);
    let checkpoint = bench.dir.path().join("checkpoint");
    bench.rig.extend(job, 3);
    bench.rig.command(job, Command::Pause {});
    bench.rig.command(job, Command::Checkpoint { path: checkpoint.to_str().unwrap().into() });
    bench.rig.command(job, Command::Resume {});
    while answers(&bench, job).iter().any(|answers| answers.len() < 3) {
        bench.next();
    }
    bench.rig.remove(job, StopMode::AtStepBoundary);
    assert_eq!(bench.until_ended(job).err, None);
    let [zero, one] = answers(&bench, job);
    for (i, name) in ["paused", "checkpointed", "resumed"].into_iter().enumerate() {
        for (answer, at, dur) in [zero[i], one[i]] {
            assert_eq!(answer, name);
            assert!(dur > Nanos::ZERO && dur < at, "what it took is passed on: {zero:?}, {one:?}");
        }
        if i > 0 {
            let begun = [zero[i], one[i]].map(|(_, at, dur)| at - dur).into_iter().min().unwrap();
            let answered = zero[i - 1].1.max(one[i - 1].1);
            assert!(answered <= begun, "no rank gets a command before both have answered: {zero:?}, {one:?}");
        }
    }
    assert_eq!(fs::read_to_string(checkpoint).unwrap(), "step = 3\n", "one rank writes it");
}

#[test]
fn a_launch_goes_on_from_a_checkpoint_or_says_why_it_cannot() {
    let mut bench = Bench::new();
    let [first, second, missing] = ["first", "second", "missing"].map(|name| bench.dir.path().join(name));
    let restoring = |from: &Path| {
        let mut program = training(None, 1, None);
        let Program::Training(training) = &mut program else { unreachable!("it is one") };
        training.restore = Some(from.to_path_buf());
        program
    };
    let write = |bench: &mut Bench, job, steps, to: &Path| {
        bench.rig.extend(job, steps);
        bench.rig.command(job, Command::Checkpoint { path: to.to_str().unwrap().into() });
        bench.until(job, |event| matches!(event, Event::Checkpointed { .. }).then_some(()));
        bench.rig.remove(job, StopMode::AtStepBoundary);
        assert_eq!(bench.until_ended(job).err, None);
    };
    let job = bench.add_job(None, 1, PATIENT);
    write(&mut bench, job, 20, &first);
    let asked = Nanos::monotonic_now();
    let job = bench.add(restoring(&first), 1, PATIENT);
    bench.until_ready(job);
    let Some(RigEvent::Said { at, event: Event::Ready(ready), .. }) = bench.seen.last() else {
        panic!("it was just said: {:?}", bench.seen)
    };
    // The worker measures both between the request and the event.
    let longest = *at - asked;
    let restored = ready.restore_ns.expect("it restored");
    assert!(Nanos::ZERO < restored && restored <= longest, "{restored} of {longest}");
    assert!(Nanos::ZERO < ready.startup_ns && ready.startup_ns <= longest, "{ready:?} in {longest}");
    write(&mut bench, job, 3, &second);
    assert_eq!(step_indices(&bench.said(job)), [0, 1, 2], "steps are counted from 0 in each launch");
    let loss = bench.said(job).iter().find_map(|event| match event {
        Event::Step(step) => Some(step.loss),
        _ => None,
    });
    assert_eq!(loss, Some(Some(1.5)), "and training from its beginning: this is the loss of step 20");
    assert_eq!(fs::read_to_string(second).unwrap(), "step = 23\n");

    let job = bench.add(restoring(&missing), 1, PATIENT);
    let end = bench.until_ended(job);
    assert_eq!(end.err, Some(ErrorKind::Data));
    assert!(end.err_detail.unwrap().contains("missing: No such file"));
}

#[test]
fn a_job_that_refuses_a_command_rests_on_and_obeys_the_next() {
    let mut bench = Bench::new();
    let (taken, free) = (bench.dir.path().join("taken"), bench.dir.path().join("free"));
    fs::write(&taken, "").unwrap();
    let job = bench.add_job(None, 1, PATIENT);
    bench.rig.extend(job, 20);
    for place in [&taken, &free] {
        bench.rig.command(job, Command::Checkpoint { path: place.to_str().unwrap().into() });
    }
    bench.rig.remove(job, StopMode::AtStepBoundary);
    assert_eq!(bench.until_ended(job).err, None);
    let answers: Vec<_> = bench
        .said(job)
        .into_iter()
        .filter(|event| matches!(event, Event::Refused { .. } | Event::Checkpointed { .. }))
        .collect();
    let [Event::Refused { error }, Event::Checkpointed { .. }] = &answers[..] else { panic!("{answers:?}") };
    assert!(error.contains("taken: File exists"), "{error}");
}
