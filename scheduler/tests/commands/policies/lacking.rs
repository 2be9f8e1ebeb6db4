//! What a run lacks that its policy uses.

use formats::rows::Totals;
use front_door::Door;
use record::rows;

use super::write_table;
use crate::fit::record;

const INELASTIC: &str = "no job is elastic; it changes no plan and no number of devices";
const UNSTOPPED: &str = "no job takes a checkpoint; it stops none";
const NO_HISTORY: &str =
    "no history was given (--history); it estimates jobs by those of this run that have ended";
const NO_CLASS: &str = "the class of no job is known; it packs none; fit a model with `sched fit --interference` and name it with --model";
const NO_USE: &str = "no model says what a job uses alone; it packs none; fit one with `sched fit --interference` and name it with --model";
const NO_PAIR: &str = "the time of no job beside another one is known; it packs none; measure pairs with `profile colocate`, and name the run with --table";
const NO_CORES: &str = "cores are not counted; it chooses none for a job";
const ONE_TYPE: &str = "all devices are of one type; it only divides time among jobs";

/// What each policy lacks in a simulation, and what the terminal shows of it.
fn lacking(door: &Door, policies: &str, arguments: &str) -> Vec<(String, Vec<String>)> {
    let simulate = format!("sim t.csv --policy {policies} {arguments}");
    let json = door.exits(0, &format!("{simulate} --json"));
    let shown = door.exits(0, &simulate).out;
    let totals: Vec<Totals> = rows::from_json(&json.out).expect("rows of totals");
    for row in &totals {
        let said: Vec<String> = shown
            .lines()
            .filter_map(|line| line.strip_prefix(&format!("{}: ", row.policy)))
            .map(Into::into)
            .collect();
        assert_eq!(said, row.lacking, "{}", row.policy);
    }
    totals.into_iter().map(|row| (row.policy, row.lacking)).collect()
}

#[test]
fn commands_of_twenty_seconds_leave_policies_little_to_decide() {
    let door = crate::door();
    door.write("t.csv", "name,submit_s,command,steps,step_ns\na,0,x,20,1000000000\nb,0,y,20,1000000000\n");
    let of_300_s = "a round of 300 s is 15.0 times the mean job of 20.0 s";
    let of_360_s = "a round of 360 s is 18.0 times the mean job of 20.0 s";
    let of_60_s = "a round of 60.0 s is 3.0 times the mean job of 20.0 s";
    let expected: [(&str, &[&str]); 25] = [
        ("fifo", &[]),
        ("fifo-backfill", &[]),
        ("sjf", &[]),
        ("qssf", &[NO_HISTORY]),
        ("qssf-backfill", &[NO_HISTORY]),
        ("srtf", &[UNSTOPPED]),
        ("srsf", &[UNSTOPPED]),
        ("srtf:every=10s", &[UNSTOPPED]),
        ("las", &[UNSTOPPED, of_300_s]),
        ("las:every=20s", &[UNSTOPPED]),
        ("gittins", &[NO_HISTORY, UNSTOPPED, of_300_s]),
        ("themis", &[UNSTOPPED, of_360_s]),
        ("gavel", &[UNSTOPPED, of_360_s, ONE_TYPE]),
        ("tiresias", &[UNSTOPPED]),
        ("horus-stand-in", &[NO_USE]),
        ("packing-fifo", &[NO_PAIR]),
        ("synergy", &[NO_CORES]),
        ("antman", &["no job is best effort; jobs share no device"]),
        ("elastic-fifo", &[INELASTIC]),
        ("optimus", &[INELASTIC, of_60_s]),
        ("pollux-fixed-batch", &[INELASTIC, of_60_s]),
        ("rubick", &[INELASTIC]),
        ("lucid", &[NO_HISTORY, NO_CLASS]),
        ("gandiva", &[INELASTIC]),
        ("tandem", &[UNSTOPPED, INELASTIC, NO_PAIR]),
    ];
    let names: Vec<&str> = expected.iter().map(|(name, _)| *name).collect();
    let policies = lacking(&door, &names.join(","), "--cluster 1x1 --switch-cost 1s");
    for ((policy, lacking), (name, sentences)) in policies.iter().zip(expected) {
        assert_eq!(
            (policy.as_str(), lacking.iter().map(String::as_str).collect::<Vec<_>>()),
            (name, sentences.to_vec())
        );
    }
    let apart = lacking(&door, "packing-fifo", "--cluster 1x1 --switch-cost 1s --jobs-per-device 1");
    assert_eq!(apart[0].1, ["a device has at most one job (--jobs-per-device 1); it packs none"]);
    let off = "tandem:preempt=off:pack=off:plans=off:resize=off";
    assert_eq!(lacking(&door, off, "--cluster 1x1 --switch-cost 1s")[0].1, [""; 0]);
    for off in ["gandiva:slice=off:pack=off:migrate=off:grow=off", "lucid:sharing=off"] {
        let policies = lacking(&door, off, "--cluster 1x1 --switch-cost 1s --suspend checkpoint");
        let of_others = [INELASTIC, NO_HISTORY];
        assert!(policies[0].1.iter().all(|sentence| of_others.contains(&&**sentence)), "{off}: {policies:?}");
    }
    let stopped = lacking(&door, "gandiva", "--cluster 1x1 --switch-cost 1s --suspend checkpoint");
    assert_eq!(
        stopped[0].1,
        ["2 of 2 jobs cannot be suspended by checkpoint; they take no turns", INELASTIC]
    );
}

#[test]
fn a_run_that_has_what_its_policies_use_lacks_nothing() {
    let door = crate::door();
    write_table(&door, "GPU", &[("dp1", 1, 1.0), ("dp2", 2, 1.6)]);
    door.write(
        "t.csv",
        "name,submit_s,job,steps,elastic\na,0,gpt2-mini@b8@dp1,900,true\nb,0,gpt2-mini@b8@dp1,900,true\n",
    );
    let arguments = "--cluster 1x2 --switch-cost 1s --table GPU";
    let policies =
        "srtf,las,tiresias,elastic-fifo,optimus,sia,pollux-fixed-batch,rubick,gandiva,tandem:pack=off";
    for (policy, lacking) in lacking(&door, policies, arguments) {
        assert!(lacking.is_empty(), "{policy}: {lacking:?}");
    }
    assert_eq!(lacking(&door, "tandem", arguments)[0].1, [NO_PAIR]);
    // Half of the jobs cannot be stopped, and of one plan the time is not known.
    write_table(&door, "GPU", &[("dp1", 1, 1.0)]);
    let header = "name,submit_s,job,command,steps,step_ns,elastic\n";
    door.write("t.csv", &format!("{header}a,0,gpt2-mini@b8@dp1,,900,,true\nb,0,,x,900,1000000000,\n"));
    let expected = [
        ("tiresias", "1 of 2 jobs take no checkpoint; it never stops them"),
        (
            "rubick",
            "no time of an elastic job under another plan is known; it changes no plan and no number of devices",
        ),
    ];
    let policies = lacking(&door, "tiresias,rubick", arguments);
    for ((policy, lacking), (name, sentence)) in policies.iter().zip(expected) {
        assert_eq!((policy.as_str(), &lacking[..]), (name, &[sentence.to_owned()][..]));
    }
}

#[test]
fn tables_of_pairs_are_what_packing_needs() {
    let door = crate::door();
    door.write("t.csv", "name,submit_s,job,steps\na,0,lstm@b20,900\nb,0,resnet18-mini@b16,900\n");
    let (alone, pairs) =
        (record("20261124-epyc/testbed/tables/alone"), record("20261123-epyc/colocate/all-pairs-1"));
    let arguments =
        |table: &std::path::Path| format!("--cluster 1x1 --switch-cost 1s --table {}", table.display());
    assert_eq!(lacking(&door, "packing-fifo", &arguments(&alone))[0].1, [NO_PAIR]);
    assert_eq!(lacking(&door, "packing-fifo", &arguments(&pairs))[0].1, [""; 0]);
}

#[test]
fn a_run_says_what_it_lacks_before_it_begins_and_keeps_it() {
    if !front_door::has_cores(1) {
        return;
    }
    let door = crate::run::door("name,submit_s,job,steps,step_ns\na,0,short,5,5000000\n");
    let said = door.exits(
        0,
        "run trace.csv --policy rubick --switch-cost 1s --device cpu:0 --catalog catalog.toml --out r",
    );
    let line = format!("rubick: {INELASTIC}");
    assert_eq!(said.err.lines().filter(|shown| **shown == line).count(), 1, "{}", said.err);
    let manifest = door.run("r").manifest().expect("it reads");
    assert_eq!(manifest.scheduling.expect("it is a run of sched").lacking, [INELASTIC]);
}
