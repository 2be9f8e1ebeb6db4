//! The throughput of each group beside that of taking turns without loss.

use record::rows::Interference;

use super::together::{self, GroupsOfFigure, Together};
use crate::{
    chart::{Axis, Chart, MarkValue, RowMark, RowOf, Rows},
    colours::Colours,
    figure::Figure,
    run::Run,
    table::Unit,
};

pub(super) fn make(run: &Run, _: &Colours) -> Vec<Figure> {
    let parts = together::parts(run);
    let groups = || parts.iter().flat_map(|part| &part.groups);
    let mut rows: Vec<((String, String), RowOf)> = Vec::new();
    for (place, part) in parts.iter().enumerate() {
        for group in &part.groups {
            let key = (group.name(), group.devices());
            let at = rows.iter().position(|(known, _)| *known == key).unwrap_or(rows.len());
            if at == rows.len() {
                rows.push((key, RowOf { name: group.name(), ..RowOf::default() }));
            }
            if let Some((_, row)) = rows.get_mut(at) {
                add(row, group, &part.name, place);
            }
        }
    }
    if rows.is_empty() {
        return Vec::new();
    }
    let intervals = match groups().filter_map(throughput).any(|(_, ci)| ci.is_some()) {
        true => "Intervals are 95 %, over blocks.",
        false => "The table has no intervals of it.",
    };
    let caption = format!(
        "The throughput of each group on {}: the sum over its members of throughput in the group over throughput alone. It is 1 \
         for turns without loss; above 1 sharing gains, below 1 it costs. {}. {intervals}",
        run.devices(),
        together::repeats(groups())
    );
    let chart = Rows {
        value: Axis::new("throughput of all members", "group_norm_throughput", Unit::Ratio),
        column: "group".into(),
        rows: rows.into_iter().map(|(_, row)| row).collect(),
        rule: Some((1.0, "turns without loss".into())),
    };
    let mut figure = Figure::new("Throughput of groups", caption, Chart::Rows(chart));
    figure.finding = finding(&parts);
    figure.doubts = together::doubts(groups());
    figure.missing = together::failures(groups());
    vec![figure]
}

/// The throughput of a group, which all of its rows have, with its interval.
pub(crate) fn throughput(group: &Together) -> Option<(f64, Option<(f64, f64)>)> {
    let row: &Interference = group.rows.first()?;
    let ci = together::ends(row.group_norm_throughput_ci_lo, row.group_norm_throughput_ci_hi);
    Some((together::finite(row.group_norm_throughput)?, ci))
}

/// Adds the mark of a group, or the reason why it has no number.
fn add(row: &mut RowOf, group: &Together, part: &str, place: usize) {
    let doubt = group.doubt();
    match throughput(group) {
        Some((value, ci)) => row.marks.push(RowMark {
            part: part.into(),
            colour: Colours::nth(place),
            quantity: MarkValue::Dot { value, ci },
            doubt,
        }),
        None => {
            let reason = if doubt.is_empty() { "no throughput" } else { &doubt };
            let separator = if row.note.is_empty() { "" } else { "; " };
            row.note.push_str(&format!("{separator}{part}: {reason}"));
        }
    }
}

/// The best of the groups without doubts, and whether it gains.
fn finding(parts: &[GroupsOfFigure]) -> String {
    let named = |part: &GroupsOfFigure, group: &Together| {
        let (value, ci) = throughput(group)?;
        Some((value, ci, format!("{} under {}", group.name(), part.name)))
    };
    let of_part = |part: &GroupsOfFigure| {
        part.without_doubts().filter_map(|group| named(part, group)).collect::<Vec<_>>()
    };
    let mut all: Vec<_> = parts.iter().flat_map(of_part).collect();
    all.sort_by(|a, b| b.0.total_cmp(&a.0));
    let Some(((value, ci, name), others)) = all.split_first() else { return String::new() };
    let gains = match ci {
        Some((lo, _)) if *lo > 1.0 => "above turns without loss",
        Some((_, hi)) if *hi < 1.0 => "below turns without loss",
        Some(_) => "within noise of turns without loss",
        None => "which cannot be told from turns without loss",
    };
    let intervals: Vec<_> = others.iter().map(|(_, ci, ..)| *ci).collect();
    format!(
        "highest throughput of a group without doubts: {name}, {}, {gains}{}",
        together::shown(*value, *ci),
        together::rivals(*ci, &intervals)
    )
}

#[cfg(test)]
mod tests {
    use super::{super::together::testing, *};

    fn rows(figure: &Figure) -> &Rows {
        let Chart::Rows(rows) = &figure.chart else { panic!("rows") };
        rows
    }

    #[test]
    fn modes_of_a_group_are_marks_of_one_row() {
        let run = testing::record("20261122-epyc/colocate/sharing-resnet18-lstm");
        let [figure] = &make(&run, &Colours::default())[..] else { panic!("one figure") };
        let [row] = &rows(figure).rows[..] else { panic!("one pair") };
        assert_eq!(row.name, "resnet18-mini@b16@dp1 + lstm@b20@dp1");
        let drawn: Vec<(&str, MarkValue)> =
            row.marks.iter().map(|mark| (&*mark.part, mark.quantity)).collect();
        let mark = |part, row: &Interference| {
            let ci = row.group_norm_throughput_ci_lo.zip(row.group_norm_throughput_ci_hi);
            (part, MarkValue::Dot { value: row.group_norm_throughput.expect("measured"), ci })
        };
        let expected = ["time-slice", "step-gate:2/1", "sequential"];
        let expected: Vec<_> = expected.into_iter().zip(run.interference.iter().step_by(2)).collect();
        assert_eq!(drawn, expected.into_iter().map(|(part, row)| mark(part, row)).collect::<Vec<_>>());
    }

    #[test]
    fn the_finding_says_whether_the_best_group_gains() {
        let group = |name: &str, value: f64| {
            let of = |row: Interference| Interference {
                group_norm_throughput: Some(value),
                group_norm_throughput_ci_lo: Some(value - 0.1),
                group_norm_throughput_ci_hi: Some(value + 0.1),
                ..row
            };
            testing::pair(name, "b", [2.0, 2.0]).into_iter().map(of).collect::<Vec<_>>()
        };
        let finding =
            |rows: Vec<Interference>| make(&testing::run(rows), &Colours::default())[0].finding.clone();
        let found = finding([group("a", 1.5), group("c", 1.1)].concat());
        assert!(found.contains("a + b under time-slice, 1.50 (1.40 to 1.60), above"), "{found}");
        assert!(found.ends_with("its interval overlaps no other"), "{found}");
        assert!(finding(group("a", 1.05)).contains("within noise of turns"));
        assert!(finding(group("a", 0.8)).contains("below turns"));
        let older = testing::record("20261122-epyc/colocate/all-pairs-1");
        let figure = &make(&older, &Colours::default())[0];
        assert!(figure.caption.ends_with("The table has no intervals of it."), "{}", figure.caption);
        assert!(figure.finding.contains("cannot be told from turns"), "{}", figure.finding);
    }

    #[test]
    fn a_group_that_failed_has_a_note_and_no_mark() {
        let run = testing::run(vec![testing::failed("a", "b"), testing::failed("b", "a")]);
        let [figure] = &make(&run, &Colours::default())[..] else { panic!("one figure") };
        assert!(rows(figure).rows[0].marks.is_empty() && figure.finding.is_empty());
        assert_eq!(rows(figure).rows[0].note, "time-slice: failed: crashed: it died");
        assert!(make(&testing::run(Vec::new()), &Colours::default()).is_empty());
    }
}
