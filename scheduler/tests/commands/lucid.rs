//! Lucid on a described cluster with nodes on which jobs are profiled.

use formats::rows::Outcome;
use record::rows::{self};

const CLUSTER: &str = "[[nodes]]\ncount = 1\ndevices = 1\nvirtual_cluster = \"a\"\nprofiling = true\n\n\
    [[nodes]]\ncount = 1\ndevices = 1\nvirtual_cluster = \"b\"\n\n\
    [[nodes]]\ncount = 1\ndevices = 1\nvirtual_cluster = \"a\"\n";

/// The first job outlives the stage and the second ends there. The nodes are in the manifest, so that the run is decided again from it.
#[test]
fn jobs_of_all_virtual_clusters_are_profiled_and_the_run_can_be_replayed() {
    let door = crate::door();
    door.write("cluster.toml", CLUSTER);
    let trace =
        "name,submit_s,job,steps,step_ns,vc\nlong,0,any,300,1000000000,b\nshort,1,any,50,1000000000,a\n";
    door.write("trace.csv", trace);
    let sim = |policy: &str, out: &str| {
        door.exits(
            0,
            &format!("sim trace.csv --policy {policy} --cluster cluster.toml --switch-cost 0s --out {out}"),
        );
        let outcomes: Vec<Outcome> = rows::read(&door.path(out).join("outcomes.csv")).expect("it reads back");
        outcomes.iter().filter_map(|row| Some(row.end_ns? / 1_000_000_000)).collect::<Vec<_>>()
    };
    assert_eq!(sim("lucid", "r"), [500, 250]);
    assert_eq!(sim("fifo", "plain"), [300, 51]);
    door.exits(0, "replay r");
    let said = door.exits(0, "explain r long --turn 3");
    for part in [
        "lucid: it is in the profiler stage",
        "its class is not known before it is profiled",
        "(to be profiled: long)",
    ] {
        assert!(said.out.contains(part), "{part}\n{}", said.out);
    }
}
