//! `--markdown`: a comparison as the comment on a pull request. The verdict comes first.

use cli::table::Table;
use record::rows::{BoundVerdict, Change, Changes, Verdict};

use super::{
    lines::{below, percentage},
    rows::{groups, name, table},
};
use crate::{phrases::first_of, splice::in_a_cell};

/// The first line of every file that this command wrote.
pub(super) const MARK: &str = "<!-- tandem report compare, Markdown -->";

/// The most rows that the sentence of the verdict names.
const MOST_NAMED: usize = 5;

/// How the two sides were measured.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Sides {
    /// Each is a run of its own.
    TwoRuns,
    /// Both are jobs of one run, measured in turns.
    TwoJobs,
}

pub(super) fn document(changes: &Changes, sides: Sides) -> String {
    let mut parts = vec![
        MARK.to_owned(),
        format!("{} {}", verdict(changes), names(changes)),
        table_of(&table(changes)),
        doubt(changes, sides),
    ];
    let lines: Vec<String> =
        below(changes).iter().map(|line| format!("- {}", in_a_cell(line.trim()))).collect();
    parts.push(format!("<details><summary>Details</summary>\n\n{}\n\n</details>", lines.join("\n")));
    parts.retain(|part| !part.is_empty());
    parts.join("\n\n") + "\n"
}

/// One sentence.
fn verdict(changes: &Changes) -> String {
    let all = changes.rows.len();
    if all == 0 {
        return "**Nothing to compare**: no row has a number in A and in B.".into();
    }
    let Some(above) = changes.fail_above else {
        let count =
            |verdicts: &[Verdict]| changes.rows.iter().filter(|row| verdicts.contains(&row.verdict)).count();
        let more = count(&[Verdict::Slower, Verdict::More]);
        let less = count(&[Verdict::Faster, Verdict::Less]);
        let gone = count(&[Verdict::Failed, Verdict::Missing]);
        return format!(
            "**B over A**: of {all} rows, {more} are shown to be slower or to take more memory, {less} to be faster or to take \
             less, {gone} failed or are missing, and the other {} show no change or cannot be told.",
            all - more - less - gone
        );
    };
    let with = |verdict: BoundVerdict| -> Vec<&Change> {
        changes.rows.iter().filter(|row| row.bound_verdict == Some(verdict)).collect()
    };
    let (worse, unknown) = (with(BoundVerdict::Worse), with(BoundVerdict::CannotTell));
    let bound = percentage(above);
    let untold = match unknown.len() {
        0 => String::new(),
        count => format!(" {count} more cannot be told."),
    };
    match (worse.is_empty(), unknown.is_empty()) {
        (false, _) => format!(
            "**Worse**: {} of {all} rows of B are more than {bound} above A, failed or are missing: {}.{untold}",
            worse.len(),
            named(&worse, changes)
        ),
        (true, false) => format!(
            "**Cannot tell**: no row of B is shown to be more than {bound} above A, and {} of {all} are not shown to be \
             within: {}.",
            unknown.len(),
            named(&unknown, changes)
        ),
        (true, true) => format!("**Within {bound}**: all {all} rows of B are within {bound} of A."),
    }
}

/// Two runs may have the same name.
fn names(changes: &Changes) -> String {
    format!("A is {}, and B is {}.", in_a_cell(&changes.a), in_a_cell(&changes.b))
}

fn named(rows: &[&Change], changes: &Changes) -> String {
    let groups = groups(&changes.rows);
    let names: Vec<String> = rows.iter().map(|row| in_a_cell(&name(row, &groups))).collect();
    first_of(&names, MOST_NAMED, ", ")
}

fn table_of(table: &Table) -> String {
    let line = |cells: Vec<String>| format!("| {} |", cells.join(" | "));
    let escaped = |cells: &[String]| line(cells.iter().map(|cell| in_a_cell(cell)).collect());
    let rule = |is_text: bool| if is_text { "---" } else { "---:" }.to_owned();
    let mut lines = vec![
        line(table.header().map(|(name, _)| in_a_cell(name)).collect()),
        line(table.header().map(|(_, is_text)| rule(is_text)).collect()),
    ];
    lines.extend(table.rows().iter().map(|cells| escaped(cells)));
    lines.join("\n")
}

/// What the numbers cannot tell.
fn doubt(changes: &Changes, sides: Sides) -> String {
    let differences: Vec<String> = changes.differences.iter().map(|text| in_a_cell(text)).collect();
    match sides {
        Sides::TwoJobs => {
            "Both jobs were measured in turns in one run, so that drift of the machine affects both alike."
                .into()
        }
        Sides::TwoRuns if differences.is_empty() => MOMENTS.into(),
        Sides::TwoRuns => format!("{MOMENTS} The runs also differ in: {}.", differences.join("; ")),
    }
}

const MOMENTS: &str = "The two runs are two moments of a machine, and machines drift: a change of all rows together is more likely \
    the machine than the code. `report compare RUN --jobs OLD,NEW` compares both versions in turns.";
