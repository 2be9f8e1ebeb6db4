//! Shares of time, growth and shrinking of Gandiva.

use formats::decision::{Action, Turn};

use super::{ends, rigid, simulated};

/// Equal jobs on fewer devices end at nearly the same time: every job takes turns on every device.
#[test]
fn equal_jobs_on_fewer_devices_have_equal_shares() {
    for (jobs, devices, length) in
        [(4, 3, 12_000), (3, 2, 12_000), (6, 4, 12_000), (5, 4, 6_000), (5, 3, 9_000), (7, 5, 9_000)]
    {
        let trace = rigid(&vec![(0, 1, length); jobs]);
        let due = (jobs as u64 * length) as f64 / f64::from(devices);
        for (cost, within) in [("1ms", 0.01), ("1s", 0.03)] {
            let arguments = format!("--policy gandiva:pack=off --cluster 1x{devices} --switch-cost {cost}");
            let ends = ends(&trace, &arguments);
            let (first, last) =
                (ends.iter().copied().fold(f64::MAX, f64::min), ends.iter().copied().fold(0.0, f64::max));
            assert!(
                last - first <= within * due && (last - due).abs() <= within * due,
                "{jobs} on {devices}, {cost}: {ends:?}"
            );
        }
    }
}

/// Two pairs that come to a fragmented cluster have a device of each node. They are 1.5 times as slow as on one node for as long as neither
/// has room to move: until the single jobs have ended, and with them the chance of free devices.
#[test]
fn two_spread_pairs_trade_devices() {
    let trace = rigid(&[(0, 1, 10), (0, 1, 100), (0, 1, 100), (5, 2, 3000), (20, 2, 3000)]);
    for reports in ["", " --progress-every 5s"] {
        let run = |policy: &str| {
            let spread = "--cluster 2x2 --switch-cost 1s --placement spread --spread-slowdown 1.5";
            ends(&trace, &format!("--policy {policy} {spread}{reports}"))[3..].to_vec()
        };
        let (stay, swap) = (run("gandiva:migrate=off"), run("gandiva"));
        // One comes at 10 s and one at 100 s, and each takes 4500 s.
        assert_eq!(stay, [4510.0, 4600.0], "{reports}");
        // A restart of 1 s is 3 % of 33 s. From the next turn on, at 180 s, each has a node.
        let spread_s = |begin: f64| 3000.0 + begin + 1.0 + (180.0 - begin) / 3.0;
        for (end, due) in swap.iter().zip([spread_s(10.0), spread_s(100.0)]) {
            assert!((end - due).abs() < 2.0, "{reports}: {end} and not {due}");
        }
    }
}

/// A job grows to four devices, and then another asks for some: it goes to the next plan that leaves them, and not to what it asked for.
#[test]
fn a_job_that_has_grown_gives_up_no_more_than_its_plans_need() {
    for (wanted, plan, left) in [(1, "dp1", 2), (2, "dp2", 2)] {
        let trace = format!(
            "name,submit_s,job,steps,devices,elastic\ne,0,gpt2-mini@b8@dp1,4000,1,true\nf,1000,gpt2-mini@b8@{plan},300,{wanted},false\n"
        );
        let arguments = "--policy gandiva --cluster 1x4 --switch-cost 1s --progress-every 5s --table GPU";
        let (door, _) = simulated(&trace, arguments);
        let journal = std::fs::read_to_string(door.path("r/decisions.jsonl")).expect("it was written");
        let turns: Vec<Turn> =
            journal.lines().map(|line| record::rows::from_json(line).expect("it is a turn")).collect();
        let starts: Vec<usize> = turns
            .iter()
            .flat_map(|turn| &turn.actions)
            .filter_map(|action| match action {
                Action::Start { job, devices, .. } if job.0 == 0 => Some(devices.len()),
                _ => None,
            })
            .collect();
        assert!(starts.starts_with(&[1, 2, 4, left]), "{wanted}: {starts:?}");
        assert!(!starts[3..].contains(&1), "{wanted}: {starts:?}");
    }
}

/// Both jobs are paused twice. A restart costs 10 s.
#[test]
fn a_resumption_costs_what_the_user_says_and_nothing_if_that_is_nothing() {
    let trace = rigid(&[(0, 1, 120), (0, 1, 120)]);
    let last = |more: &str| {
        let arguments =
            format!("--policy gandiva:pack=off --cluster 1x1 --suspend pause --switch-cost 10s{more}");
        ends(&trace, &arguments).into_iter().fold(0.0, f64::max)
    };
    assert_eq!(last(" --resume-cost 0s"), 240.0);
    assert!(last(" --resume-cost 1s") > 240.0 && last("") > last(" --resume-cost 1s"));
}
