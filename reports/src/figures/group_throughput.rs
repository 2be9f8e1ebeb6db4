//! The throughput of all members of a group together, by sharing mode.

use super::together::{self, Together};
use crate::{
    chart::{Axis, Chart, MarkValue, RowMark, RowOf, Rows},
    colours::Colours,
    figure::Figure,
    planes::grouped,
    run::Run,
    table::Unit,
};

pub(super) fn make(run: &Run, _: &Colours) -> Vec<Figure> {
    let groups = together::groups(run);
    let sharings: Vec<String> = together::sharings(run).into_iter().map(ToString::to_string).collect();
    if !groups.iter().any(|group| throughput(group).is_some()) {
        return Vec::new();
    }
    // A row for each group, with a mark for each mode in which it was measured.
    let rows = grouped(&groups, |group| (group.name(), group.devices()));
    let rows = rows.into_iter().filter_map(|modes| Some(row(modes.first()?, &modes, &sharings)));
    let chart = Chart::Rows(Rows {
        value: Axis::new("throughput of all members, over each alone", "group_norm_throughput", Unit::Ratio),
        column: "group".into(),
        rows: rows.collect(),
        rule: Some((1.0, "turns without loss".into())),
    });
    let caption = format!(
        "Sum over the members of a group of the throughput in it over that alone, on {}: {}. Intervals are 95 %, over blocks. Turns \
         without any loss give 1; above it, sharing gains.",
        run.devices(),
        together::repeats(&groups)
    );
    vec![Figure {
        finding: finding(&groups),
        doubts: together::doubts(&groups),
        missing: together::failures(&groups),
        ..Figure::new("Throughput of groups", caption, chart)
    }]
}

/// The throughput of a group with its interval. Its rows have the same number.
fn throughput(group: &Together) -> Option<(f64, Option<(f64, f64)>)> {
    let row = group.rows.first()?;
    let ci = together::ends(row.group_norm_throughput_ci_lo, row.group_norm_throughput_ci_hi);
    Some((together::finite(row.group_norm_throughput)?, ci))
}

fn row(first: &Together, modes: &[&Together], sharings: &[String]) -> RowOf {
    let mark = |group: &&Together| {
        let (value, ci) = throughput(group)?;
        let sharing = group.rows.first()?.sharing.to_string();
        let place = sharings.iter().position(|of| *of == sharing).unwrap_or(0);
        Some(RowMark {
            part: sharing,
            colour: Colours::nth(place),
            quantity: MarkValue::Dot { value, ci },
            doubt: group.doubt(),
        })
    };
    let absent = modes.iter().filter(|group| throughput(group).is_none());
    let notes: Vec<String> = absent.map(|group| format!("not measured: {}", group.doubt())).collect();
    RowOf { name: first.name(), marks: modes.iter().filter_map(mark).collect(), note: notes.join("; ") }
}

/// The group that gains most, and whether it gains beyond noise.
fn finding(groups: &[Together]) -> String {
    let known: Vec<_> = groups.iter().filter_map(|group| Some((group, throughput(group)?))).collect();
    let Some((best, (value, ci))) = known.iter().max_by(|a, b| a.1.0.total_cmp(&b.1.0)) else {
        return String::new();
    };
    let beyond = match ci {
        None => "without an interval",
        Some((lo, _)) if *lo > 1.0 => "more than turns without loss would give",
        Some(_) => "within noise of turns without loss",
    };
    let others: Vec<_> =
        known.iter().filter(|(group, _)| !std::ptr::eq(*group, *best)).map(|(_, (_, ci))| *ci).collect();
    let sharing = best.rows.first().map_or(String::new(), |row| row.sharing.to_string());
    format!(
        "Highest throughput of {} groups: {} under {sharing}, {}, {beyond}; {}.",
        known.len(),
        best.name(),
        together::shown(*value, *ci),
        together::rivals(*ci, &others)
    )
}

#[cfg(test)]
mod tests {
    use super::{super::together::testing, *};

    #[test]
    fn every_group_and_mode_of_a_record_is_a_mark() {
        let run = testing::record("20261122-epyc/colocate/sharing-bert-espcn");
        let [figure] = &make(&run, &Colours::default())[..] else { panic!("one figure") };
        let Chart::Rows(rows) = &figure.chart else { panic!("rows") };
        let [row] = &rows.rows[..] else { panic!("one group: {:?}", rows.rows) };
        let modes: Vec<&str> = row.marks.iter().map(|mark| mark.part.as_str()).collect();
        assert_eq!(modes, ["time-slice", "step-gate:2/1", "sequential"]);
        for (mark, pair) in row.marks.iter().zip(run.interference.chunks(2)) {
            let ci = pair[0].group_norm_throughput_ci_lo.zip(pair[0].group_norm_throughput_ci_hi);
            let value = pair[0].group_norm_throughput.expect("it was measured");
            assert_eq!(mark.quantity, MarkValue::Dot { value, ci });
        }
        assert!(figure.finding.contains("under "), "{}", figure.finding);
    }

    #[test]
    fn a_group_without_a_number_has_its_reason() {
        let mut rows = testing::pair("a", "b", [1.0, 1.0]);
        rows.iter_mut().for_each(|row| row.group_norm_throughput = Some(2.0));
        rows.push(testing::failed("c", "d"));
        let [figure] = &make(&testing::run(rows), &Colours::default())[..] else { panic!("one figure") };
        let Chart::Rows(rows) = &figure.chart else { panic!("rows") };
        assert_eq!((rows.rows.len(), rows.rows[1].marks.len()), (2, 0));
        assert!(rows.rows[1].note.contains("it died"), "{}", rows.rows[1].note);
    }
}
