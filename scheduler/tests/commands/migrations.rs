//! Counts of preemptions and migrations, and the time of the first steps.

use std::fs;

use formats::rows::{Outcome, Totals};
use record::rows::{self};

/// Job a leaves its device to c after a second, and goes on where b was, with 290 of its steps left. Job b has 50 steps.
#[test]
fn a_preempted_job_that_goes_on_elsewhere_has_migrated() {
    let door = crate::door();
    let jobs = "a,0,any,300,100000000\nb,0,any,50,100000000\nc,1,any,100,100000000\n";
    door.write("t.csv", &format!("name,submit_s,job,steps,step_ns\n{jobs}"));
    for more in ["", " --progress-every 3s"] {
        let out = format!("run{}", more.len());
        let simulated =
            format!("sim t.csv --policy srtf --cluster 1x2 --switch-cost 0s{more} --out {out} --json");
        let found: Vec<Totals> =
            rows::from_json(&door.exits(0, &simulated).out).expect("it is rows of totals");
        assert_eq!((found[0].preemptions, found[0].migrations), (Some(1), Some(1)));
        let outcomes: Vec<Outcome> = rows::read(&door.path(&out).join("outcomes.csv")).unwrap();
        let s = |ns: Option<u64>| ns.map(|ns| (ns as f64 / 1e9).round() as u64);
        let first: Vec<_> =
            outcomes.iter().map(|row| (s(row.first_100_ns), row.stops, row.migrations)).collect();
        assert_eq!(
            first,
            [(Some(14), Some(1), Some(1)), (None, Some(0), Some(0)), (Some(10), Some(0), Some(0))]
        );
        assert_eq!((s(found[0].first_100_ns_mean), s(outcomes[0].end_ns)), (Some(12), Some(34)));
        let said = door.exits(0, &format!("fidelity {out} {out}"));
        assert!(said.out.contains("first 100 steps, average"), "{}", said.out);
    }
    // Files of earlier versions lack these columns, and nothing is made up for them.
    let text = fs::read_to_string(door.path("run0/outcomes.csv")).unwrap();
    let mut lines = text.lines().map(|line| line.split(',').collect::<Vec<_>>());
    let header = lines.next().unwrap();
    let new = ["first_100_ns", "stops", "migrations"];
    let kept = |cells: Vec<&str>| {
        let of = header.iter().zip(cells).filter(|(column, _)| !new.contains(column));
        of.map(|(_, cell)| cell).collect::<Vec<_>>().join(",")
    };
    let old = kept(header.clone()) + "\n" + &lines.map(kept).collect::<Vec<_>>().join("\n") + "\n";
    door.write("old.csv", &old);
    let said = door.exits(0, "fidelity old.csv old.csv");
    assert!(said.out.contains("makespan") && !said.out.contains("first 100 steps"), "{}", said.out);
    let rows: Vec<Outcome> = rows::read(&door.path("old.csv")).unwrap();
    let of_old = outcomes::totals::totals("srtf", &rows, 2);
    assert_eq!((of_old.preemptions, of_old.migrations, of_old.first_100_ns_mean), (None, None, None));
}
