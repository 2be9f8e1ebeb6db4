//! Runs that somebody has changed, read by `sched`.

use front_door::check_received;

use crate::fit::record;

#[test]
fn nothing_of_a_received_run_of_sched_is_started_or_leads_out_of_it() {
    let commands = [
        "fidelity run",
        "fidelity run --hindsight",
        "replay run",
        "explain run lstm-2",
        "trace curves run --out written",
        "run --resume run",
    ];
    check_received(&crate::door(), &record("20261124-epyc/testbed/tiresias"), &commands);
}

#[test]
fn nothing_of_received_tables_leads_out_of_them() {
    let (door, pairs) = (crate::door(), record("20261123-epyc/colocate/all-pairs-1"));
    door.write("lstm.csv", "exec_plan,placement,iter_time\nga,1,1.1\ngc,1,1.4\nga,2,0.7\n");
    door.exits(0, "fit --csv lstm.csv --workload lstm@b8 --out model.json");
    let commands = [
        "fit --interference run --out written",
        "sim run/measurements.csv --policy fifo --cluster 1x1 --switch-cost 0s --table run --out written",
        "predict --model model.json lstm@b8 --devices 1 --with lstm --table run",
        "trace make lstm --jobs 2 --every 1s --length fixed:20s --table run --out written",
    ];
    check_received(&door, &pairs, &commands);
}

#[test]
fn a_run_has_its_catalogs_with_it() {
    let door = crate::door();
    door.catalog("mine.toml", "mine", "step_us = 5000, busy_percent = 0");
    door.write("t.csv", "name,submit_s,job,steps,step_ns\na,0,mine@dp1,10,1000000\n");
    let sim = "sim t.csv --policy fifo --cluster 1x1 --switch-cost 0s --catalog mine.toml --out run";
    door.exits(0, sim);
    std::fs::remove_file(door.path("mine.toml")).expect("it was written");
    door.exits(0, "replay run");
    std::fs::remove_file(door.path("run/inputs/catalog-0.toml")).expect("it was copied");
    let said = door.exits(2, "replay run");
    assert!(said.err.contains("run/inputs/catalog-0.toml"), "{}", said.err);
}
