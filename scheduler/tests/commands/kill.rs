//! `kill -9` of the scheduler at any moment, also during a resumption.

use std::{collections::BTreeMap, time::Duration};

use formats::decision::{self, ClusterEvent, JobId};
use front_door::{Background, Door, has_cores, let_pass, wait_until};
use record::rows::Status;
use rustix::process::Signal;
use schema::{events::EventReader, wire::Event};

use crate::run::{ON_TWO, TRACE, door, outcomes, run};

/// Number of moments at which a run is killed: many in slow tests, few in the others.
fn moments() -> u32 {
    let is_slow = std::env::var_os("TANDEM_SLOW").is_some_and(|value| value == "1");
    if !is_slow {
        println!("2 of 50 moments: set TANDEM_SLOW=1 for all");
    }
    if is_slow { 50 } else { 2 }
}

#[test]
fn every_job_ends_once_with_all_its_steps_whenever_the_scheduler_is_killed() {
    if !has_cores(2) {
        return;
    }
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let mut chance = fastrand::Rng::with_seed(seed);
    let mut left = moments();
    while left > 0 {
        let door = door(TRACE);
        let mut arguments = format!("run trace.csv --policy srtf --checkpoint-every 200ms {ON_TWO}");
        loop {
            let mut sched = Background::start(door.command(&arguments));
            wait_until("the run can be gone on with", || door.path("r/manifest.toml").exists());
            if left == 0 {
                let (code, said) = sched.wait();
                assert_eq!(code, Some(0), "{said}");
            } else {
                let_pass(Duration::from_millis(chance.u64(20..1_500)), "it is killed at any moment");
                if !sched.has_ended() {
                    sched.send(Signal::KILL);
                    left -= 1;
                }
                sched.wait();
            }
            door.wait_until_nothing_is_left();
            arguments = "run --resume r".into();
            if door.path("r/outcomes.csv").exists() {
                break;
            }
        }
        check(&door);
    }
}

#[test]
fn a_policy_that_hangs_does_not_outlive_the_scheduler() {
    let door = crate::door();
    door.write("t.csv", "name,submit_s,job,steps,step_ns\na,0,any,5,7\n");
    // Ignores the end of its input.
    door.write("hang", "read line && touch asked\nexec sleep 1000\n");
    let mut command = door.command("sim t.csv --cluster 1x1 --switch-cost 0s --policy");
    command.arg("exec:sh hang");
    let mut sched = Background::start(command);
    wait_until("the policy is asked", || door.path("asked").exists());
    sched.send(Signal::KILL);
    sched.wait();
    door.wait_until_nothing_is_left();
}

/// Every job has ended once with all its steps, and repeated steps are counted.
fn check(door: &Door) {
    let run = run(door);
    let rows = outcomes(door);
    let asked = [700, 500, 120, 60, 200, 150];
    assert_eq!(rows.len(), asked.len());
    let mut ends = BTreeMap::<JobId, u32>::new();
    let turns = decision::read(&run.decisions_path()).expect("decisions.jsonl reads back");
    for happened in turns.iter().flat_map(|turn| &turn.events) {
        if let ClusterEvent::Finished { job, .. } = happened {
            *ends.entry(*job).or_default() += 1;
        }
    }
    let mut done = BTreeMap::<String, u64>::new();
    for launch in run.launches().expect("jobs/ is there") {
        let spec = run.spec(&launch).expect("it was told something");
        let of_rank = |rank| {
            let mut lines = Vec::new();
            if let Ok(mut reader) = EventReader::open(&run.events_path(&launch, rank), rank) {
                reader.poll(&mut lines).expect("what was killed has written whole lines");
            }
            lines.iter().filter(|line| matches!(line.event, Event::Step(_))).count() as u64
        };
        let least = (0..spec.devices.len() as u32).map(of_rank).min().unwrap_or(0);
        *done.entry(spec.cell).or_default() += least;
    }
    for (row, steps) in rows.iter().zip(asked) {
        assert_eq!((row.status, row.steps, ends.get(&row.job)), (Status::Ok, steps, Some(&1)), "{row:?}");
        assert_eq!(done[&row.name], steps + row.steps_lost, "{row:?}");
    }
}
