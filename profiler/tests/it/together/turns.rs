//! Members that take turns: their order and their durations.

use std::process::Command;

use rig::StopRule;
use schema::{
    events,
    group::{Turn, Visit},
    units::Nanos,
    wire::Event,
};

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

/// Time of the first seat's steps over that of the second's, as the median over the ratios after each turn
/// in the second half of a visit, because the last turn may be unpredictably long.
fn ratio_of_times(visit: &Visit, seats: &[Vec<Step>]) -> f64 {
    let time_until = |steps: &[Step], at: Nanos| -> f64 {
        steps.iter().filter(|(end, _)| *end <= at).map(|(_, dur)| dur.0 as f64).sum()
    };
    let ends: Vec<Nanos> =
        visit.turns.iter().filter(|turn| turn.seat == 1).map(|turn| turn.end_mono_ns).collect();
    let after = |at: &Nanos| time_until(&seats[0], *at) / time_until(&seats[1], *at);
    let mut ratios: Vec<f64> = ends[ends.len() / 2..].iter().map(after).collect();
    ratios.sort_by(f64::total_cmp);
    ratios[ratios.len() / 2]
}

#[test]
fn members_take_turns_as_long_as_their_weights_say() {
    let long = Job::new(30, 100);
    // By steps, and by a time that is no whole number of steps.
    for (mode, jobs, by_time) in
        [("step-gate:8:2/1", [SPIN, SPIN], false), ("step-gate:50ms:2/1", [SPIN, long], true)]
    {
        let mut visits = Visits::new();
        let visit = visits.visit(mode, &jobs, StopRule::Seconds(if by_time { 3.0 } else { 1.0 }));
        visits.assert_all_ended_well(&visit);
        let seats = assert_one_at_a_time(&visits, &visit);
        if by_time {
            let ratio = ratio_of_times(&visit, &seats);
            assert!((ratio - 2.0).abs() <= 0.1, "{ratio}");
        } else {
            assert_eq!(seats[0].len(), 2 * seats[1].len());
        }
        // A step has its intended CPU time, even if other programs want the core.
        for (launch, job) in visit.launches.iter().flatten().zip(jobs) {
            let all = events::read(&visits.bench.run.events_path(launch, 0), 0).unwrap();
            let steps = all.iter().filter(|line| matches!(line.event, Event::Step(_))).count() as f64;
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
