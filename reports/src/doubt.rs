//! When a mark is doubtful, for all figures: a row behind it has a warning, or an interval too wide to be quoted. These are the reasons of
//! a row for which [`Usability`] limits or forbids quoting a run.

use record::rows::{Interference, Status, Summary, Usability, Warnings};

/// What figures and their footers say of a doubtful mark.
pub const MEANING: &str =
    "A hollow or hatched mark is doubtful: a row behind it has a warning, or an interval wider than +-50 %.";

/// Why the row of a job alone is doubtful; empty if nothing limits quoting it.
pub fn of_job(row: &Summary) -> String {
    joined(&row.warnings, row.half_width_percent)
}

/// Why the row of a member of a group is doubtful; empty if nothing limits quoting it. A row is doubtful beside a doubtful member, too.
pub fn of_member(row: &Interference) -> String {
    let own = own_of_member(row);
    let is_beside_doubt = own.is_empty() && row.status == Status::Ok && !row.valid;
    if is_beside_doubt { "another member is doubtful".into() } else { own }
}

/// The same without the doubts of other members.
pub fn own_of_member(row: &Interference) -> String {
    let half = row.slowdown_ci_hi.zip(row.slowdown_ci_lo).map(|(hi, lo)| (hi - lo) / 2.0);
    joined(&row.warnings, half.zip(row.slowdown).map(|(half, slowdown)| 100.0 * half / slowdown))
}

fn joined(warnings: &Warnings, half_width_percent: Option<f64>) -> String {
    let mut said = warnings.to_string();
    if let Some(half) = half_width_percent.filter(|half| *half > Usability::WIDEST_PERCENT) {
        let separator = if said.is_empty() { "" } else { ";" };
        said.push_str(&format!("{separator}interval of +-{half:.0} %"));
    }
    said
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::alone::tests::summary;

    #[test]
    fn warnings_and_wide_intervals_make_a_row_doubtful() {
        for (warnings, half, expected) in [
            ("", 50.0, ""),
            ("", 50.5, "interval of +-50 %"),
            ("steal;spread", 3.0, "steal;spread"),
            ("killed", 80.0, "killed;interval of +-80 %"),
        ] {
            let row =
                summary(&format!(r#""job": "a", "half_width_percent": {half}, "warnings": "{warnings}""#));
            assert_eq!(of_job(&row), expected);
        }
    }

    #[test]
    fn a_member_is_doubtful_beside_a_doubtful_member() {
        let row = Interference { slowdown: Some(2.0), valid: true, ..Interference::default() };
        assert_eq!(of_member(&row), "");
        let beside = Interference { valid: false, ..row.clone() };
        assert_eq!(of_member(&beside), "another member is doubtful");
        assert_eq!(own_of_member(&beside), "");
        let wide = Interference { slowdown_ci_lo: Some(0.5), slowdown_ci_hi: Some(4.5), ..row };
        assert_eq!(of_member(&wide), "interval of +-100 %");
    }
}
