//! The verdict of a run of `profile`: whether its numbers may be quoted.

use std::process::Command;

use front_door::KilledAtTheEnd;

/// The job sleeps for most of its step, and another program has the rest of the core.
#[test]
fn a_run_beside_another_program_is_not_to_be_quoted_and_strict_says_so() {
    let door = crate::door();
    let other = Command::new("taskset").args(["-c", "0", "sh", "-c", "while :; do :; done"]).spawn();
    let _other = KilledAtTheEnd(other.expect("taskset starts"));
    let run = "single synthetic-sleep --device cpu:0 --repeats 2 --seconds 0.5";
    let said = door.exits(0, &format!("{run} --out r"));
    let verdict = said.out.lines().next().expect("the verdict comes before the table");
    assert!(verdict.starts_with("verdict: do not quote: other programs had "), "{}", said.out);
    let row = &door.summaries("r")[0];
    let others = row.device_util_percent_mean.zip(row.job_util_percent_mean).map(|(all, own)| all - own);
    let words = format!("{:.0} % of cpu:0 beside synthetic-sleep@b32@dp1", others.expect("both were read"));
    assert!(verdict.contains(&words), "{verdict}, and not {words}");
    let said = door.exits(1, &format!("{run} --strict --json --out s"));
    assert!(said.err.contains("verdict: do not quote") && !said.out.contains("verdict"), "{}", said.err);
    door.exits(0, "derive r");
}
