//! Exit codes, and lines of the table.

use std::path::Path;

use clap::Parser;

use super::*;

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    args: Args,
}

fn record(name: &str) -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("record").join(name).display().to_string()
}

fn exit(a: &str, b: &str, options: &[&str]) -> Exit {
    let words = ["compare", &record(a), &record(b)].map(str::to_owned);
    let line = Line::parse_from(words.into_iter().chain(options.iter().map(|&word| word.to_owned())));
    run(&line.args).unwrap_or_else(|error| Exit::of(&error))
}

const FIRST: &str = "20261122-epyc/colocate/all-pairs-1";
const SECOND: &str = "20261122-epyc/colocate/all-pairs-2";

#[test]
fn percentages_are_parts_with_and_without_the_sign() {
    for (text, part) in [("5%", 0.05), ("5", 0.05), ("0", 0.0), ("2.5 %", 0.025)] {
        assert_eq!(percent(text), Ok(part), "{text}");
    }
    for text in ["", "%", "-1%", "NaN", "inf", "five"] {
        assert!(percent(text).is_err(), "{text}");
    }
}

#[test]
fn numbers_are_short_however_large_or_rounded_they_are() {
    let ratios = [0.9996, 1.386, 999.0, 22_553.0, 1e6].map(rows::digits);
    assert_eq!(ratios, ["1.000", "1.386", "999.000", "2e4", "1e6"]);
    assert_eq!([0.05, 0.07, 0.0, 9.0].map(percentage), ["5 %", "7 %", "0 %", "900 %"]);
}

#[test]
fn a_run_compared_with_itself_is_not_within_every_bound() {
    assert_eq!(exit(FIRST, FIRST, &["--fail-above", "0"]), Exit::CannotTell);
    assert_eq!(exit(FIRST, FIRST, &["--fail-above", "900%"]), Exit::Ok);
    assert_eq!(exit(FIRST, FIRST, &["--json"]), Exit::Ok);
}

#[test]
fn a_slower_run_fails_only_above_a_bound() {
    let slower = ["20261122-epyc/colocate/all-pairs-1", "20261123-epyc/colocate/all-pairs-1"];
    assert_eq!(exit(slower[0], slower[1], &["--fail-above", "5%"]), Exit::SomeFailed);
    assert_eq!(exit(slower[0], slower[1], &["--fail-above", "900%"]), Exit::Ok);
    assert_eq!(exit(slower[0], slower[1], &[]), Exit::Ok);
    let faster = exit(slower[1], slower[0], &["--fail-above", "5%"]);
    assert_eq!(faster, Exit::CannotTell, "its times are lower, and the slowdowns of three blocks are wide");
    let same_code = exit(FIRST, SECOND, &["--fail-above", "5%"]);
    assert_eq!(same_code, Exit::CannotTell, "an interval of three blocks is wider than 5 %");
}

#[test]
fn runs_with_nothing_in_common_and_runs_of_the_scheduler_have_their_codes() {
    let other = "20261122-epyc/colocate/programs-alone";
    assert_eq!(exit(FIRST, other, &[]), Exit::NothingMatched);
    let scheduled = record("20261122-epyc/testbed/fifo-1");
    let refusal = ComparedRun::open(Path::new(&scheduled)).err().expect("it is a run of sched").to_string();
    assert!(refusal.contains("sched fidelity A B"), "{refusal}");
    assert_eq!(exit(FIRST, "20261122-epyc/testbed/fifo-1", &[]), Exit::Usage);
}
