//! The files of `report compare` for continuous integration.

use std::process::Command;

use front_door::Door;
use record::rows::{BoundVerdict, ChangeQuantity, Changes};

use crate::compared::{BERT, Job, LSTM, VAE, compared, door, job, row, write_run};

/// Prints the counts of the suite, and a line of each test: its kind, class, name and message.
const PARSER: &str = r#"
import sys, xml.etree.ElementTree as tree
root = tree.parse(sys.argv[1]).getroot()
[suite] = root
print(root.tag, suite.tag, suite.get("name"), suite.get("tests"), suite.get("failures"), suite.get("errors"), suite.get("skipped"), sep="\t")
for case in suite:
    [child] = case
    print(child.tag, case.get("classname"), case.get("name"), child.get("message") or child.text, sep="\t")
"#;

/// The suite and its tests, by Python's parser. `None`, with a note, without Python.
fn parsed(door: &Door, file: &str) -> Option<(Vec<String>, Vec<Vec<String>>)> {
    let output = match Command::new("python3").args(["-c", PARSER]).arg(door.path(file)).output() {
        Ok(output) => output,
        Err(_) => {
            schema::skips::skipped("python3", "JUnit XML is parsed by Python, which is not there");
            return None;
        }
    };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).expect("it prints text");
    let mut lines = text.lines().map(|line| line.split('\t').map(str::to_owned).collect::<Vec<_>>());
    Some((lines.next().expect("there is a suite"), lines.collect()))
}

/// A row within the bound, one above it, and one that cannot be told.
fn three_verdicts() -> Door {
    let door = door();
    let all = [LSTM, BERT, VAE];
    write_run(&door, "a", &[job(LSTM, 1.0, 0.001), job(BERT, 1.0, 0.001), job(VAE, 1.0, 0.2)], &all);
    write_run(&door, "b", &[job(LSTM, 1.0, 0.001), job(BERT, 1.2, 0.001), job(VAE, 1.1, 0.2)], &all);
    door
}

fn name_of(changes: &Changes, job: &str) -> String {
    format!("{job} on {}", row(changes, job, ChangeQuantity::Alone).device)
}

#[test]
fn junit_has_a_test_for_each_row_with_its_verdict() {
    let door = three_verdicts();
    let changes = compared(&door, 1, "--fail-above 5% --junit out/compare.xml");
    let Some((suite, cases)) = parsed(&door, "out/compare.xml") else { return };
    let count = |verdict| changes.rows.iter().filter(|row| row.bound_verdict == Some(verdict)).count();
    let counts = [changes.rows.len(), count(BoundVerdict::Worse), 0, count(BoundVerdict::CannotTell)];
    assert_eq!(counts, [6, 1, 0, 1]);
    let counts = counts.map(|count| count.to_string());
    assert_eq!(
        suite,
        [&["testsuites", "testsuite", "B over A: b over a"].map(str::to_owned)[..], &counts[..]].concat()
    );
    let case = |job: &str| {
        let name = name_of(&changes, job);
        cases.iter().find(|case| case[2] == name).unwrap_or_else(|| panic!("{name} in {cases:?}"))
    };
    let ratio = |job: &str| {
        let row = row(&changes, job, ChangeQuantity::Alone);
        let [ratio, lo, hi] = [row.ratio, row.ratio_ci_lo, row.ratio_ci_hi].map(|end| end.expect("two runs"));
        format!("B over A is {ratio:.3} ({lo:.3} to {hi:.3})")
    };
    assert_eq!(case(LSTM)[..2], ["system-out", "alone"].map(str::to_owned));
    assert_eq!(case(LSTM)[3], format!("{}, within 5 %", ratio(LSTM)));
    assert_eq!(case(BERT)[0], "failure");
    assert_eq!(case(BERT)[3], format!("{}; the bound is 5 %", ratio(BERT)));
    let launches = row(&changes, VAE, ChangeQuantity::Alone).launches_needed.expect("below a thousand");
    assert_eq!(case(VAE)[0], "skipped");
    let message = format!(
        "cannot tell: {}; the bound is 5 %; launches of each run that would tell: {launches}",
        ratio(VAE)
    );
    assert_eq!(case(VAE)[3], message);
    assert!(door.exits(2, "compare a b --junit x.xml").err.contains("--fail-above"));
}

#[test]
fn names_of_runs_are_text_in_xml_and_in_markdown() {
    let door = door();
    let strange = "b\"<&'>|\u{1}";
    write_run(&door, "a", &[job(LSTM, 1.0, 0.001)], &[LSTM]);
    write_run(&door, strange, &[job(LSTM, 1.0, 0.001)], &[LSTM]);
    let mut command = door.command("compare a");
    command.arg(strange).args(["--fail-above", "5%", "--junit", "c.xml", "--markdown", "-"]);
    let output = command.output().expect("it starts");
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let printed = String::from_utf8(output.stdout).expect("it prints text");
    assert!(printed.contains("b\"&lt;&'>\\|"), "{printed}");
    let Some((suite, _)) = parsed(&door, "c.xml") else { return };
    assert_eq!(suite[2], "B over A: b\"<&'>|\u{fffd} over a");
}

#[test]
fn markdown_has_the_verdict_first_and_a_row_for_each_row() {
    let door = three_verdicts();
    for (options, code, begin) in [
        (
            "--fail-above 5%",
            1,
            format!(
                "**Worse**: 1 of 6 rows of B are more than 5 % above A, failed or are missing: {BERT} on"
            ),
        ),
        (
            "--fail-above 25%",
            7,
            "**Cannot tell**: no row of B is shown to be more than 25 % above A, and 1 of 6".to_owned(),
        ),
        ("--fail-above 900%", 0, "**Within 900 %**: all 6 rows of B are within 900 % of A.".to_owned()),
        ("", 0, "**B over A**: of 6 rows, 1 are shown to be slower".to_owned()),
    ] {
        let changes = compared(&door, code, options);
        let printed = door.exits(code, &format!("compare a b {options} --markdown -"));
        let paragraphs: Vec<&str> = printed.out.split("\n\n").collect();
        assert!(paragraphs[1].starts_with(&begin), "{}", printed.out);
        let lines: Vec<&str> = paragraphs[2].lines().collect();
        assert_eq!(lines.len(), 2 + changes.rows.len(), "{}", printed.out);
        assert_eq!(lines[0], "| job | where | B over A | 95 % interval | A | B | detects | verdict |");
        let ratio = row(&changes, BERT, ChangeQuantity::Alone).ratio.expect("it is in both runs");
        let begin = format!("| {BERT} | cpu:0 | {ratio:.3} |");
        assert!(lines.iter().any(|line| line.starts_with(&begin)), "{begin} in {lines:?}");
        assert!(paragraphs[3].contains("machines drift"), "{}", printed.out);
    }
}

#[test]
fn only_files_of_the_same_option_are_replaced() {
    let door = three_verdicts();
    for (option, other) in [("--junit", "--markdown"), ("--markdown", "--junit")] {
        let file = format!("f{option}");
        let line = format!("compare a b --fail-above 5% {option} {file}");
        door.exits(1, &line);
        let first = std::fs::read(door.path(&file)).expect("it was written");
        door.exits(1, &line);
        assert_eq!(std::fs::read(door.path(&file)).expect("it was written again"), first);
        let refused = door.exits(2, &format!("compare a b --fail-above 5% {other} {file}"));
        assert!(refused.err.contains("was not written by"), "{}", refused.err);
        door.write("mine", "mine\n");
        let refused = door.exits(2, &format!("compare a b --fail-above 5% {option} mine"));
        assert!(refused.err.contains("mine exists and was not written by"), "{}", refused.err);
        assert_eq!(std::fs::read_to_string(door.path("mine")).expect("it is there"), "mine\n");
    }
    assert!(door.exits(2, "compare a b --json --markdown -").err.contains("standard output"));
}

#[test]
fn each_option_needs_a_file_of_its_own() {
    let door = three_verdicts();
    for files in ["--junit x --markdown x", "--junit x --markdown ./a/../x"] {
        let refused = door.exits(2, &format!("compare a b --fail-above 5% {files}"));
        assert!(refused.err.contains("give each a file of its own"), "{}", refused.err);
    }
    let refused = door.exits(2, "compare a b --fail-above 5% --junit -");
    assert!(refused.err.contains("give --junit a file"), "{}", refused.err);
    assert!(!door.path("x").exists() && !door.path("-").exists());
}

/// Continuous integration finds no file, and so no result of another comparison.
#[test]
fn a_comparison_that_fails_leaves_no_file_of_an_earlier_one() {
    let door = three_verdicts();
    let files = "--fail-above 5% --junit c.xml --markdown c.md";
    for (line, code) in [("compare a missing", 2), ("compare missing b", 2)] {
        door.exits(1, &format!("compare a b {files}"));
        assert!(door.path("c.xml").is_file() && door.path("c.md").is_file());
        door.exits(code, &format!("{line} {files}"));
        assert!(!door.path("c.xml").exists() && !door.path("c.md").exists(), "{line}");
    }
    // A file of someone else keeps both: nothing is compared.
    door.exits(1, &format!("compare a b {files}"));
    door.write("c.md", "mine\n");
    door.exits(2, &format!("compare a b {files}"));
    assert!(door.path("c.xml").is_file());
}

/// The files of an earlier comparison are not left for those of one that compares nothing.
#[test]
fn runs_with_nothing_in_common_replace_the_files() {
    let door = door();
    let with = |name: &str, of: Job| write_run(&door, name, &[of], &[LSTM, VAE]);
    with("a", job(LSTM, 1.0, 0.001));
    with("b", job(LSTM, 1.0, 0.001));
    with("c", job(VAE, 1.0, 0.001));
    let files = "--fail-above 5% --junit c.xml --markdown c.md";
    door.exits(0, &format!("compare a b {files}"));
    door.exits(4, &format!("compare a c {files}"));
    let text = std::fs::read_to_string(door.path("c.md")).expect("it was written");
    assert!(text.contains("**Worse**: 1 of 1 rows"), "{text}");
    if let Some((suite, _)) = parsed(&door, "c.xml") {
        assert_eq!(suite[3..], ["1", "1", "0", "0"].map(str::to_owned));
    }
}
