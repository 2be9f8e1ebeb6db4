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
fn a_run_compared_with_itself_ends_well() {
    assert_eq!(exit(FIRST, FIRST, &["--fail-above", "0"]), Exit::Ok);
    assert_eq!(exit(FIRST, FIRST, &["--json"]), Exit::Ok);
}

#[test]
fn a_slower_run_fails_only_above_a_bound() {
    let slower = ["20261122-epyc/colocate/all-pairs-1", "20261123-epyc/colocate/all-pairs-1"];
    assert_eq!(exit(slower[0], slower[1], &["--fail-above", "5%"]), Exit::SomeFailed);
    assert_eq!(exit(slower[0], slower[1], &["--fail-above", "900%"]), Exit::Ok);
    assert_eq!(exit(slower[0], slower[1], &[]), Exit::Ok);
    assert_eq!(exit(slower[1], slower[0], &["--fail-above", "5%"]), Exit::Ok, "it is faster");
    assert_eq!(exit(FIRST, SECOND, &["--fail-above", "5%"]), Exit::Ok, "two runs of the same code");
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
