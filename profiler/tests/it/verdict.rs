//! The verdict of a run of `profile`: whether its numbers may be quoted.

use std::{fs, process::Command};

use front_door::{KilledAtTheEnd, Said, wait_for};
use record::rows::{self, RunRow};

/// A job sleeps for most of its step, and another program has the rest of the core. On a busy machine, the harness may read too rarely.
#[test]
fn a_run_beside_another_program_is_not_to_be_quoted_and_strict_says_so() {
    let other = Command::new("taskset").args(["-c", "0", "sh", "-c", "while :; do :; done"]).spawn();
    let _other = KilledAtTheEnd(other.expect("taskset starts"));
    let run = "single synthetic-sleep --device cpu:0 --repeats 2 --seconds 1";
    let (door, said) = wait_for("the use of the core is read", || {
        let door = crate::door();
        let said = door.exits(0, &format!("{run} --out r"));
        if said.out.contains("is not known for") { Err(said.out) } else { Ok((door, said)) }
    });
    let verdict = said.out.lines().next().expect("the verdict comes before the table");
    assert!(verdict.starts_with("verdict: do not quote: other programs had "), "{}", said.out);
    let row = &door.summaries("r")[0];
    let others = row.device_util_percent_mean.zip(row.job_util_percent_mean).map(|(all, own)| all - own);
    let words = format!("{:.0} % of cpu:0 beside synthetic-sleep@b32@dp1", others.expect("both were read"));
    assert!(verdict.contains(&words), "{verdict}, and not {words}");
    wait_for("it is read again", || {
        let output = door.command(&format!("{run} --strict --json")).output().expect("profile starts");
        let said = Said::of(&output);
        match output.status.code() {
            Some(1) if said.err.contains("verdict: do not quote") && !said.out.contains("verdict") => Ok(()),
            Some(0) if said.err.contains("is not known for") => Err(said.err),
            code => panic!("{code:?}: {}", said.err),
        }
    });
    door.exits(0, "derive r");
}

#[test]
fn runs_are_listed_with_their_ends_and_verdicts() {
    let door = crate::door();
    let said = door.exits(2, "runs");
    assert!(said.err.contains("runs: No such file or directory"), "{}", said.err);
    door.catalog(
        "breaks.toml",
        "breaks",
        "step_us = 1000, busy_percent = 0, fault = { out-of-memory = { after_steps = 2 } }",
    );
    door.exits(1, "single breaks --catalog breaks.toml --device cpu:0 --steps 20 --repeats 1 --out runs/one");
    door.exits(0, "single synthetic-sleep --device cpu:0 --steps 40 --repeats 1 --out runs/two");
    fs::create_dir(door.path("runs/notes")).expect("a folder that is no run");
    let listed: Vec<RunRow> = rows::from_json(&door.exits(0, "runs --json").out).expect("stdout is JSON");
    let [two, one] = &listed[..] else { panic!("the newest comes first: {listed:?}") };
    assert_eq!((&*two.run, &*two.command, two.rows, two.exit_code), ("two", "profile single", 1, Some(0)));
    assert_eq!(
        (&*one.run, one.exit_code, one.verdict.as_deref()),
        ("one", Some(1), Some("do not quote: no row has numbers"))
    );
    let verdict = two.verdict.as_deref().expect("it has a row");
    assert!(door.exits(0, "derive runs/two").out.starts_with(&format!("verdict: {verdict}\n")), "{verdict}");
    let said = door.exits(0, "runs");
    assert!(said.out.contains("exit code 1") && said.out.contains("well"), "{}", said.out);
}
