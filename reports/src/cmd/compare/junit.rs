//! `--junit`: a comparison as JUnit XML, which continuous integration shows as tests.

use askama::Template as _;
use record::rows::{BoundVerdict, Change, ChangeQuantity, Changes};

use super::{
    lines::{launches_needed, percentage},
    rows::{groups, interval_of, name, verdict},
};

/// What every file that this command wrote contains.
pub(super) const MARK: &str = "tandem report compare, JUnit";

#[derive(askama::Template)]
#[template(path = "junit.xml")]
struct Suite {
    mark: &'static str,
    name: String,
    failures: usize,
    skipped: usize,
    cases: Vec<Case>,
}

struct Case {
    /// What is compared.
    class: ChangeQuantity,
    name: String,
    outcome: Outcome,
}

enum Outcome {
    /// The row is within the bound.
    Passed(String),
    /// It is worse.
    Failed(String),
    /// It cannot be told.
    Skipped(String),
}

/// The document. Each row is a test of whether it is within the bound.
///
/// # Errors
/// The template is wrong.
pub(super) fn document(changes: &Changes, above: f64) -> anyhow::Result<String> {
    let groups = groups(&changes.rows);
    let case = |row: &Change| Case {
        class: row.quantity,
        name: in_xml(&match &row.group {
            Some(group) => {
                format!("{} in {group} ({}), seat {}", row.job, row.sharing, row.seat.unwrap_or(0))
            }
            None => name(row, &groups),
        }),
        outcome: outcome(row, above),
    };
    let cases: Vec<Case> = changes.rows.iter().map(case).collect();
    let count = |is: fn(&Outcome) -> bool| cases.iter().filter(|case| is(&case.outcome)).count();
    let suite = Suite {
        mark: MARK,
        name: in_xml(&format!("B over A: {} over {}", changes.b, changes.a)),
        failures: count(|outcome| matches!(outcome, Outcome::Failed(_))),
        skipped: count(|outcome| matches!(outcome, Outcome::Skipped(_))),
        cases,
    };
    Ok(suite.render()? + "\n")
}

fn outcome(row: &Change, above: f64) -> Outcome {
    let bound = percentage(above);
    let ratio = match (row.ratio, interval_of(row)) {
        (Some(_), Some(interval)) => format!("B over A is {interval}"),
        (Some(ratio), None) => format!("B over A is {ratio:.3}, without an interval"),
        (None, _) => verdict(row),
    };
    // Without a kind of failure, the verdict has the detail already.
    let detail = row.err.and(row.err_detail.as_ref()).map(|detail| format!(": {detail}")).unwrap_or_default();
    match row.bound_verdict {
        Some(BoundVerdict::Within) => Outcome::Passed(in_xml(&format!("{ratio}, within {bound}"))),
        Some(BoundVerdict::Worse) => {
            Outcome::Failed(in_xml(&format!("{ratio}{detail}; the bound is {bound}")))
        }
        Some(BoundVerdict::CannotTell) | None => {
            let needs = match row.p {
                Some(_) if above == 0.0 => "no number of launches shows that it is within 0 %".into(),
                Some(_) => format!("launches of each run that would tell: {}", launches_needed(row)),
                None => "there is no test for it".into(),
            };
            Outcome::Skipped(in_xml(&format!("cannot tell: {ratio}; the bound is {bound}; {needs}")))
        }
    }
}

/// A text without the characters that XML 1.0 does not allow, even escaped.
fn in_xml(text: &str) -> String {
    let is_allowed = |letter: char| matches!(letter, '\t' | '\n' | '\r' | ' '..='\u{fffd}' | '\u{10000}'..);
    text.chars().map(|letter| if is_allowed(letter) { letter } else { char::REPLACEMENT_CHARACTER }).collect()
}
