//! The finish-time fairness that the program prints, against the events of the journal.

use std::{collections::BTreeMap, fs};

use formats::{
    decision::{self, ClusterEvent, JobId},
    rows::{Fidelity, Outcome, Totals},
    trace::Trace,
};
use front_door::Door;
use record::{
    rows::{self},
    run_dir::RunDir,
};

use crate::sim::measured_at;

fn totals(door: &Door, arguments: &str) -> Vec<Totals> {
    rows::from_json(&door.exits(0, &format!("sim {arguments} --json")).out).expect("it is rows of totals")
}

/// When each job of a run arrived and ended, in nanoseconds.
fn stays(door: &Door, run: &str) -> BTreeMap<JobId, (u64, u64)> {
    let run = RunDir::open(&door.path(run)).unwrap();
    let turns = decision::read(&run.decisions_path()).unwrap();
    let events = || turns.iter().flat_map(|turn| turn.events.iter().map(|event| (turn.at_ns.0, event)));
    let end = |job| {
        events().find(|(_, event)| matches!(event, ClusterEvent::Finished { job: of, .. } if *of == job))
    };
    let arrived = events().filter_map(|(at, event)| match event {
        ClusterEvent::Arrived { job } => Some((*job, at)),
        _ => None,
    });
    arrived.map(|(job, at)| (job, (at, end(job).expect("it finished").0))).collect()
}

/// The mean number of jobs during the stay of a job: the sum of the times that it has in common with each, over its own.
fn present(stays: &BTreeMap<JobId, (u64, u64)>, job: JobId) -> f64 {
    let (from, to) = stays[&job];
    let common = |(since, until): &(u64, u64)| (*until).min(to).saturating_sub((*since).max(from)) as f64;
    stays.values().map(common).sum::<f64>() / (to - from) as f64
}

#[test]
fn rho_follows_from_the_events_of_the_journal() {
    let door = crate::door();
    let make = "trace make one=2 two@dp2=1 --jobs 50 --length exponential:60s --step-time 250ms --every 40s --out t.csv";
    door.exits(0, make);
    let found = totals(&door, "t.csv --policy fifo,srtf --cluster 1x2,1x1 --switch-cost 5s --out r");
    let trace = Trace::read(&door.path("t.csv")).unwrap();
    for (policy, totals) in ["fifo", "srtf"].iter().zip(&found) {
        let stays = stays(&door, &format!("r/{policy}"));
        let outcomes: Vec<Outcome> = rows::read(&door.path("r").join(policy).join("outcomes.csv")).unwrap();
        let mut all = Vec::new();
        for (row, asked) in outcomes.iter().zip(&trace.rows) {
            let alone_s = asked.steps.unwrap() as f64 * 0.25;
            let devices = f64::from(asked.devices());
            let fair_s = alone_s * (devices * present(&stays, row.job) / 3.0).max(1.0);
            let (from, to) = stays[&row.job];
            let rho = (to - from) as f64 / 1e9 / fair_s;
            let printed = row.jct_ns.unwrap() as f64 / row.fair_ns.unwrap() as f64;
            assert!((printed / rho - 1.0).abs() < 1e-6, "{policy} {}: {printed} is not {rho}", row.name);
            assert_eq!(row.alone_ns, Some((alone_s * 1e9) as u64));
            all.push(rho);
        }
        all.sort_by(f64::total_cmp);
        let of = totals.fairness.expect("all times are known");
        let near = |found: f64, expected: f64| assert!((found / expected - 1.0).abs() < 1e-6, "{of:?}");
        near(of.rho_mean, all.iter().sum::<f64>() / 50.0);
        near(of.rho_median, f64::midpoint(all[24], all[25]));
        near(of.rho_p99, all[49]);
        near(of.rho_max, all[49]);
        let unfair = all.iter().filter(|rho| **rho > 1.0 + 5e-6).count();
        near(of.unfair_percent, unfair as f64 / 50.0 * 100.0);
        assert!(unfair > 5 && unfair < 50, "{unfair}");
    }
    let said = door.exits(0, "sim t.csv --policy fifo --cluster 1x3 --switch-cost 5s");
    assert!(said.out.contains("finish-time fairness") && said.out.contains("mean rho"), "{}", said.out);
    let said = door.exits(0, "fidelity r/fifo r/srtf --json");
    let both: Fidelity = rows::from_json(&said.out).unwrap();
    let fairness = both.fairness.expect("both sides have the column");
    assert_eq!((Some(fairness.predicted), Some(fairness.measured)), (found[0].fairness, found[1].fairness));
    assert!(door.exits(0, "fidelity r/fifo r/srtf").out.contains("rho, p99"));
}

#[test]
fn a_share_of_each_type_and_of_the_own_virtual_cluster_is_fair() {
    let door = crate::door();
    // A step takes 100 ms on one type and 25 ms on the other.
    for (name, rate) in [("slow", 80.0), ("fast", 320.0)] {
        measured_at(&door, name, rate);
        let manifest = door.path(name).join("manifest.toml");
        let text = fs::read_to_string(&manifest).unwrap();
        fs::write(&manifest, text.replace("name = \"CPU\"", &format!("name = \"{name}\""))).unwrap();
    }
    let header = "name,submit_s,job,steps,device_type\n";
    door.write("t.csv", &format!("{header}any,0,lstm@b8@dp1,1200,\nslow,0,lstm@b8@dp1,1200,slow\n"));
    let arguments =
        "t.csv --policy fifo --cluster 1x3:slow,1x1:fast --switch-cost 0s --table slow --table fast --out r";
    totals(&door, arguments);
    let outcomes: Vec<Outcome> = rows::read(&door.path("r/outcomes.csv")).unwrap();
    // Alone, three slow devices and a fast one are 3 * 10 + 40 steps in a second for four devices.
    let alone = outcomes.iter().map(|row| row.alone_ns.unwrap()).collect::<Vec<_>>();
    assert!(alone[0].abs_diff((1200.0 / 70.0 * 4.0 * 1e9) as u64) < 10, "{alone:?}");
    assert_eq!(alone[1], 120_000_000_000);

    // Two jobs in one virtual cluster of a device, and one in another.
    let node = |vc: &str| format!("[[nodes]]\ncount = 1\ndevices = 1\nvirtual_cluster = \"{vc}\"\n");
    door.write("cluster.toml", &format!("{}{}", node("a"), node("b")));
    let row = |name: &str, vc: &str| format!("{name},0,any,100,{vc},100000000\n");
    let jobs = [row("first", "a"), row("second", "a"), row("alone", "b")].concat();
    door.write("vc.csv", &format!("name,submit_s,job,steps,vc,step_ns\n{jobs}"));
    let found = totals(&door, "vc.csv --policy fifo --cluster cluster.toml --switch-cost 0s --out vc");
    let outcomes: Vec<Outcome> = rows::read(&door.path("vc/outcomes.csv")).unwrap();
    // The first has a companion throughout, and the second for half of its stay.
    let fair: Vec<u64> = outcomes.iter().map(|row| row.fair_ns.unwrap() / 1_000_000_000).collect();
    assert_eq!(fair, [20, 15, 10]);
    assert!((found[0].fairness.unwrap().unfair_percent - 100.0 / 3.0).abs() < 1e-9, "{found:?}");
}

/// Files of older versions lack the columns, and then nothing is printed.
#[test]
fn without_the_columns_the_fairness_is_not_known() {
    let door = crate::door();
    let record = std::path::Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../reports/record/20261122-epyc/testbed-20/tiresias-1");
    let said = door.exits(0, &format!("fidelity {} --json", record.display()));
    let found: Fidelity = rows::from_json(&said.out).unwrap();
    assert_eq!(found.fairness, None);
    assert!(!door.exits(0, &format!("fidelity {}", record.display())).out.contains("rho"));
}
