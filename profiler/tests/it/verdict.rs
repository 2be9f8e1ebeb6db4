//! The verdict of a run of `profile`: whether its numbers may be quoted.

use std::{fs, process::Command};

use front_door::{KilledAtTheEnd, Said, has_cores, wait_for};
use record::rows::{self, RunRow, Warning};

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
    if has_cores(2) {
        wait_for("the use of both cores is read", || {
            let door = crate::door();
            let said = door.exits(
                0,
                "single synthetic-sleep@dp2 --device cpu:0,cpu:1 --repeats 1 --seconds 1 --out two",
            );
            let row = &door.measurements("two")[0];
            match row.device_util_percent_mean.zip(row.job_util_percent_mean) {
                None => Err(said.out),
                // The other program has one of the two cores.
                Some((all, own)) => {
                    assert!(all - own > 30.0, "{row:?}");
                    assert!(row.warnings.iter().any(|warning| warning == Warning::Foreign), "{row:?}");
                    let words = "foreign: other programs used ";
                    let devices = " % of cpu:0,cpu:1; stop them";
                    assert!(said.err.contains(words) && said.err.contains(devices), "{}", said.err);
                    Ok(())
                }
            }
        });
    }
}

/// The command after each of three launches fails.
#[test]
fn quiet_leaves_out_progress_and_verbose_prints_each_warning() {
    let door = crate::door();
    let run = "single --device cpu:0 --repeats 3 --cleanup false";
    let told = door.exits(0, &format!("{run} --out told -- true"));
    let quiet = door.exits(0, &format!("{run} --out quiet --quiet -- true"));
    let is_news = |line: &&str| line.starts_with('[') || line.starts_with("run: ");
    assert_eq!(told.err.lines().filter(is_news).count(), 4, "{}", told.err);
    assert_eq!(quiet.err.lines().filter(is_news).count(), 0, "{}", quiet.err);
    assert!(quiet.out.contains("cmd-true") && quiet.err.contains("warning: "), "{}", quiet.err);
    let of_cleanup = |said: &Said| said.err.lines().filter(|line| line.contains("cleanup: ")).count();
    let (kinds, each) = (door.exits(0, "derive told"), door.exits(0, "derive told -v"));
    assert_eq!((of_cleanup(&kinds), of_cleanup(&each)), (1, 3), "{}\n{}", kinds.err, each.err);
    let line = "warning: cleanup: 3 times, first in 0001-cmd-true-";
    assert!(kinds.err.contains(line) && kinds.err.contains("; --verbose prints them\n"), "{}", kinds.err);
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
    door.exits(
        0,
        "-q single synthetic-sleep --device cpu:0 --steps 40 --repeats 1 --tag base --tag slow --tag base --out runs/two",
    );
    fs::create_dir(door.path("runs/notes")).expect("a folder that is no run");
    let listed: Vec<RunRow> = rows::from_json(&door.exits(0, "runs --json").out).expect("stdout is JSON");
    let [two, one] = &listed[..] else { panic!("the newest comes first: {listed:?}") };
    assert_eq!((&*two.run, &*two.command, two.rows, two.exit_code), ("two", "profile single", 1, Some(0)));
    assert_eq!(
        (&*one.run, one.exit_code, one.verdict.as_deref()),
        ("one", Some(1), Some("do not quote: no row has numbers"))
    );
    assert_eq!((&two.tags[..], &one.tags[..]), (&["base".to_owned(), "slow".to_owned()][..], &[][..]));
    for (words, found) in [("--tag base", 1), ("--tag base --tag slow", 1), ("", 2)] {
        let listed: Vec<RunRow> =
            rows::from_json(&door.exits(0, &format!("runs --json {words}")).out).unwrap();
        assert_eq!((listed.len(), &*listed[0].run), (found, "two"), "{words}");
    }
    let said = door.exits(4, "runs --tag base --tag fast");
    assert_eq!(said.err, "error: runs has no run with the tag base and fast\n");
    assert!(door.exits(2, "runs --tag a,b").err.contains("without space or comma"));
    let verdict = two.verdict.as_deref().expect("it has a row");
    assert!(door.exits(0, "derive runs/two").out.starts_with(&format!("verdict: {verdict}\n")), "{verdict}");
    let said = door.exits(0, "runs");
    assert!(said.out.contains("exit code 1") && said.out.contains("well"), "{}", said.out);
}
