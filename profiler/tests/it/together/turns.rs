//! Members that take turns: their order and their durations.

use std::{collections::VecDeque, process::Command, time::Duration};

use colocate::turns::Turns;
use record::group::{Turn, Visit};
use rig::{StopRule, pace::Pace};
use schema::{sharing::Sharing, wire};

use super::{Job, SLEEP, SPIN, Step, Visits};

/// Asserts that each step after the barrier is in a turn of its seat, and that turns do not overlap;
/// returns the steps of each seat.
fn assert_one_at_a_time(visits: &Visits, visit: &Visit) -> Vec<Vec<Step>> {
    let turns = &visit.turns;
    assert!(turns.is_sorted_by(|a, b| a.end_mono_ns <= b.start_mono_ns), "{turns:?}");
    let of_seats = visit.launches.iter().enumerate().map(|(seat, launches)| {
        let steps = visits.steps(visit, &launches[0]);
        for (end, dur) in &steps {
            let holds = |turn: &&Turn| turn.start_mono_ns <= *end - *dur && *end <= turn.end_mono_ns;
            let turn = turns.iter().find(holds).unwrap_or_else(|| panic!("{end} is in no turn: {turns:?}"));
            assert_eq!(turn.seat as usize, seat);
        }
        steps
    });
    of_seats.collect()
}

/// Replays the recorded step times through [`Turns`] and returns the seat and the number of steps of each turn. The unit tests of
/// `colocate` check that turns are as long as the weights ask.
fn turns_of(visits: &Visits, visit: &Visit) -> Vec<(usize, u64)> {
    let Sharing::StepGate { quantum, weights } = &visit.sharing else { panic!("{visit:?}") };
    let mut turns = Turns::new(*quantum, Duration::MAX);
    let (mut paces, mut to_come) = (Vec::new(), Vec::new());
    for (seat, launches) in visit.launches.iter().enumerate() {
        let steps = visits.said_of_steps(&launches[0]);
        let warm_up = steps.partition_point(|(end, _)| *end < visit.barrier_mono_ns.unwrap());
        let mut pace = Pace::default();
        steps[..warm_up].iter().for_each(|(_, step)| pace.count(step));
        paces.push(pace);
        to_come.push(steps.into_iter().skip(warm_up).map(|(_, step)| step).collect::<VecDeque<wire::Step>>());
        turns.join(seat, &[0], weights.of(seat), true);
    }
    let mut replayed_turns = Vec::new();
    loop {
        let (seat, steps) = turns.begin(|seat| &paces[seat]).expect("all of them rest");
        let (mut left, mut taken) = (Some(steps), 0);
        while let Some(steps) = left {
            for _ in 0..steps {
                let Some(step) = to_come[seat].pop_front() else { return replayed_turns };
                paces[seat].count(&step);
                taken += 1;
            }
            left = turns.rested(seat, &paces[seat]);
        }
        replayed_turns.push((seat, taken));
    }
}

#[test]
fn members_take_turns_as_long_as_their_weights_say() {
    let long = Job::new(30, 100);
    // By steps, and by a time that is no whole number of steps.
    for (mode, jobs, by_time) in
        [("step-gate:8:2/1", [SPIN, SPIN], false), ("step-gate:50ms:2/1", [SPIN, long], true)]
    {
        let mut visits = Visits::new();
        let visit = visits.visit(mode, &jobs, StopRule::Seconds(1.0));
        visits.assert_all_ended_well(&visit);
        let seats = assert_one_at_a_time(&visits, &visit);
        assert!(by_time || seats[0].len() == 2 * seats[1].len(), "{seats:?}");
        let had = visit.turns.iter().map(|turn| {
            let is_within = |(end, _): &&Step| turn.start_mono_ns <= *end && *end <= turn.end_mono_ns;
            (turn.seat as usize, seats[turn.seat as usize].iter().filter(is_within).count() as u64)
        });
        assert_eq!(had.collect::<Vec<_>>(), turns_of(&visits, &visit), "{mode}");
        // A step has its intended CPU time, even if other programs want the core.
        for (launch, job) in visit.launches.iter().flatten().zip(jobs) {
            let steps = visits.said_of_steps(launch).len() as f64;
            let cpu_ms = visits.end(launch).ranks[0].cpu_ns.unwrap() as f64 / 1e6;
            let of_steps_ms = steps * job.step_ms as f64;
            assert!(
                cpu_ms >= of_steps_ms && cpu_ms <= 1.1 * of_steps_ms + 50.0,
                "{cpu_ms} for {of_steps_ms}"
            );
        }
    }
}

/// Repeats a step of 5 ms with the fake PyTorch.
const HOOKED: &str = "PYTHONPATH=$PYTHONPATH:../workloads/python/tests/fake exec python3 -c '
import time, torch
optimizer = torch.optim.SGD([torch.Parameter(8)])
while True:
    time.sleep(0.005)
    optimizer.step()'";

#[test]
fn a_program_with_the_hook_takes_its_turns() {
    if !Command::new("python3").arg("-V").output().is_ok_and(|output| output.status.success()) {
        return schema::skips::skipped("python3", "there is no python3");
    }
    let mut visits = Visits::new();
    let jobs = [SLEEP, Job { script: Some(HOOKED), ..SLEEP }];
    let visit = visits.visit("step-gate:20", &jobs, StopRule::Seconds(1.0));
    visits.assert_all_ended_well(&visit);
    let seats = assert_one_at_a_time(&visits, &visit);
    assert_eq!(seats[0].len(), seats[1].len());
}

#[test]
fn one_after_the_other_has_one_turn_each() {
    let mut visits = Visits::new();
    let visit = visits.visit("sequential", &[SLEEP, SLEEP, SLEEP], StopRule::Steps(40));
    visits.assert_all_ended_well(&visit);
    assert_one_at_a_time(&visits, &visit);
    assert_eq!(visit.turns.iter().map(|turn| turn.seat).collect::<Vec<_>>(), [0, 1, 2]);
    for launch in visit.launches.iter().flatten() {
        assert!(visits.steps(&visit, launch).len() >= 40);
    }
}
