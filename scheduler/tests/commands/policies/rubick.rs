//! Who waits under Rubick, and for how long.

use formats::rows::Outcome;

use super::simulated;

const ON: &str = "--cluster 1x4 --table GPU";

/// The time from the arrival of a job to its first start, in seconds.
fn waited(row: &Outcome) -> f64 {
    (row.start_ns.expect("it started") - row.submit_ns) as f64 / 1e9
}

fn jobs(jobs: &[(u64, u64, &str)]) -> String {
    let mut trace = "name,submit_s,job,steps,devices,elastic,class\n".to_owned();
    for (number, (submit_s, steps, class)) in jobs.iter().enumerate() {
        trace += &format!("j{number},{submit_s},gpt2-mini@b8@dp1,{steps},1,true,{class}\n");
    }
    trace
}

/// The first job grows to all four devices. The others ask for one each, and none of them is worth its loss and its restart.
#[test]
fn a_job_that_has_grown_gives_way_to_jobs_that_wait() {
    for (length, other, restart_s) in
        [(3_000, 3_000, 78.0), (20_000, 20_000, 78.0), (3_000, 300, 10.0), (20_000, 300, 400.0)]
    {
        for class in ["best-effort", "guaranteed"] {
            let trace = jobs(&[(0, length, class), (100, other, class), (200, 300, class)]);
            for policy in ["rubick", "rubick:restarts=0%", "rubick:only=resources"] {
                let arguments = format!("--policy {policy} {ON} --switch-cost {restart_s}s");
                let (_, outcomes) = simulated(&trace, &arguments);
                // The job that gives way may itself be in a switch, which is not broken off.
                for row in &outcomes[1..] {
                    assert!(
                        waited(row) <= 2.0 * restart_s + 1.0,
                        "{policy} {class} {length} {other}: {row:?}"
                    );
                }
            }
        }
    }
}

/// A job that has given way has what it asked for, and is not stopped for the growth of others.
#[test]
fn no_job_is_stopped_for_the_growth_of_another() {
    let trace = jobs(&[(0, 20_000, "best-effort"), (100, 4_000, "best-effort")]);
    let (_, outcomes) = simulated(&trace, &format!("--policy rubick {ON} --switch-cost 1s"));
    assert!(waited(&outcomes[1]) <= 2.0, "{:?}", outcomes[1]);
    assert_eq!(
        outcomes[1].queued_ns.map(|ns| ns / 1_000_000_000),
        Some(waited(&outcomes[1]) as u64),
        "{:?}",
        outcomes[1]
    );
}

/// The first job ends at about 60 s, and the other could then have both devices. It has about 250 s of work left.
#[test]
fn a_restart_that_costs_more_than_it_gains_is_made_by_slopes_alone() {
    let trace = "name,submit_s,job,steps,devices,elastic,class\n\
        first,0,gpt2-mini@b8@dp1,100,1,false,guaranteed\nother,0,gpt2-mini@b8@dp1,500,1,true,guaranteed\n";
    let stops = |policy: &str, restart_s: u32| {
        let arguments = format!("--policy {policy} --cluster 1x2 --table GPU --switch-cost {restart_s}s");
        simulated(trace, &arguments).1[1].stops
    };
    assert_eq!(stops("rubick", 1), Some(1), "a short restart pays");
    assert_eq!(stops("rubick", 1000), Some(0));
    assert_eq!(stops("rubick:exchange=slope", 1000), Some(1));
    assert_eq!(stops("rubick:exchange=slope:most-restarts=0", 1000), Some(0));
}

/// Jobs of two devices keep arriving at more than the cluster can do. A job of four is not passed by them for ever.
#[test]
fn a_large_guaranteed_job_waits_for_the_bound_and_the_jobs_that_run_then() {
    let mut trace =
        "name,submit_s,job,steps,devices,elastic,class\ns,0,gpt2-mini@b8@dp2,190,2,false,guaranteed\n\
        big,10,gpt2-mini@b8@dp4,300,4,false,guaranteed\n"
            .to_owned();
    for number in 1..100 {
        trace += &format!("s{number},{},gpt2-mini@b8@dp2,190,2,false,guaranteed\n", number * 50);
    }
    for (setting, most_s) in [("", 600.0), (":bound=100s", 100.0), (":bound=30m", 1_800.0)] {
        let (_, outcomes) = simulated(&trace, &format!("--policy rubick{setting} {ON} --switch-cost 1s"));
        let big = outcomes.iter().find(|row| row.name == "big").expect("it is in the trace");
        // A job of two devices takes 119 s, and rounds are held each minute.
        assert!(waited(big) <= most_s + 60.0 + 125.0, "{setting}: {}", waited(big));
    }
    let (_, outcomes) = simulated(&trace, &format!("--policy rubick:bound=never {ON} --switch-cost 1s"));
    let big = outcomes.iter().find(|row| row.name == "big").expect("it is in the trace");
    assert!(waited(big) > 4_900.0, "{}", waited(big));
}
