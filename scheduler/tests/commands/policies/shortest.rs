//! Policies that stop a job for a shorter one count what the running job has done since its last report.

use formats::rows::Outcome;
use record::rows::{self};

use super::{ends, rigid, write_table};

/// A device, and a job with 10 s left when a job of 50 s comes. A stop and a start take 60 s.
#[test]
fn a_job_that_is_almost_done_is_stopped_by_no_policy() {
    let trace = rigid(&[(0, 1, 100), (90, 1, 50)]);
    for policy in [
        "srtf",
        "srsf",
        "srtf:every=10s",
        "srsf:every=10s",
        "elastic-fifo",
        "optimus",
        "rubick",
        "fifo",
        "tandem",
    ] {
        let ends = ends(&trace, &format!("--policy {policy} --cluster 1x1 --switch-cost 60s"));
        assert_eq!(ends[0], 100.0, "{policy}: {ends:?}");
        assert!((ends[1] - 150.0).abs() <= 60.0, "{policy}: {ends:?}");
    }
    for policy in ["srtf", "srsf", "tandem"] {
        let ends = ends(&trace, &format!("--policy {policy} --cluster 1x1 --switch-cost 60s"));
        assert_eq!(ends, [100.0, 150.0], "{policy}");
    }
}

/// With reports and without, the same decisions.
#[test]
fn reports_of_exact_progress_change_no_decision() {
    let jobs: Vec<(u64, u32, u64)> = (0..24)
        .map(|number| (number * 37, [1, 2, 1, 4][number as usize % 4], 40 + number * 53 % 290))
        .collect();
    let trace = rigid(&jobs);
    for policy in ["srtf", "srsf"] {
        let of =
            |more: &str| ends(&trace, &format!("--policy {policy} --cluster 1x4 --switch-cost 3s{more}"));
        assert_eq!(of(""), of(" --progress-every 1s"), "{policy}");
    }
}

/// The first job has two devices and 60 s left at 40 s: 120 s of service. The second has 100 s. At 55 s the first has 90 s left, which is
/// less than the 100 s of the third.
#[test]
fn remaining_service_falls_with_the_number_of_devices() {
    let at_40 = ends(&rigid(&[(0, 2, 100), (40, 1, 100)]), "--policy srsf --cluster 1x2 --switch-cost 0s");
    assert_eq!(at_40, [200.0, 140.0]);
    let at_55 = ends(&rigid(&[(0, 2, 100), (55, 1, 100)]), "--policy srsf --cluster 1x2 --switch-cost 0s");
    assert_eq!(at_55, [100.0, 200.0]);
}

/// The second job has the slow device, where it has done 30 of 100 steps when a job of 50 steps comes: it has 70 s left on what it asks
/// for, and gives way. The first has 40 s left, and stays.
#[test]
fn a_job_that_is_slower_where_it_is_has_done_less() {
    let door = crate::door();
    write_table(&door, "V100", &[("dp1", 1, 1.0)]);
    write_table(&door, "K80", &[("dp1", 1, 0.5)]);
    let jobs = [("a", 0, 100), ("b", 0, 100), ("c", 60, 50)];
    let rows = jobs.map(|(name, submit_s, steps)| format!("{name},{submit_s},gpt2-mini@b8@dp1,{steps}\n"));
    door.write("t.csv", &format!("name,submit_s,job,steps\n{}", rows.concat()));
    for policy in ["srtf", "srsf"] {
        let arguments = "--cluster 1x1:V100,1x1:K80 --table V100 --table K80 --switch-cost 0s --out r";
        door.exits(0, &format!("sim t.csv --policy {policy} {arguments}"));
        let outcomes: Vec<Outcome> = rows::read(&door.path("r/outcomes.csv")).expect("it reads back");
        let ends: Vec<u64> = outcomes.iter().filter_map(|row| Some(row.end_ns? / 1_000_000_000)).collect();
        assert_eq!(ends, [100, 170, 160], "{policy}");
        std::fs::remove_dir_all(door.path("r")).expect("it is there");
    }
}
