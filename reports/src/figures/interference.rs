//! What each member of each group pays for the company, as a table.

use super::together::{self, Together};
use crate::{
    chart::Chart,
    colours::Colours,
    figure::Figure,
    run::Run,
    table::{Cell, Table, Unit},
};

/// The columns: the name in CSV, and the title for people.
const COLUMNS: &[(&str, &str)] = &[
    ("job", "job"),
    ("beside", "beside"),
    ("slowdown", "slowdown"),
    ("slowdown_ci_lo", "from"),
    ("slowdown_ci_hi", "to"),
    ("sharing", "sharing"),
    ("group_norm_throughput", "throughput of all"),
    ("group_norm_throughput_ci_lo", "from"),
    ("group_norm_throughput_ci_hi", "to"),
    ("step_ns_alone", "mean step alone"),
    ("step_ns_together", "together"),
    ("slowdown_p99", "p99 slowdown"),
    ("slowdown_p99_ci_lo", "from"),
    ("slowdown_p99_ci_hi", "to"),
    ("device", "device"),
    ("blocks", "blocks"),
    ("blocks_failed", "blocks failed"),
    ("doubt", "warnings or failure"),
];

pub(super) fn make(run: &Run, _: &Colours) -> Vec<Figure> {
    let groups = together::groups(run);
    if groups.is_empty() {
        return Vec::new();
    }
    let mut table = Table::new(COLUMNS);
    for group in &groups {
        rows(group, &mut table);
    }
    let caption = format!(
        "What jobs cost each other on {}: {}. A slowdown is the time of a step in the group over that alone in the same block; \
         the throughput of all is the sum of the members' throughput over that alone, and 1 for turns without loss. Intervals \
         are 95 %, over blocks. Members under sequential have no slowdown, because the length of a turn is no property of a job.",
        run.devices(),
        together::repeats(&groups)
    );
    let mut figure = Figure::new("Cost of sharing", caption, Chart::Table(table));
    figure.doubts = together::doubts(&groups);
    figure.missing = together::failures(&groups);
    vec![figure]
}

fn rows(group: &Together, table: &mut Table) {
    for (place, row) in group.rows.iter().enumerate() {
        let doubt = Some(together::doubt(row)).filter(|doubt| !doubt.is_empty());
        let ratio = |value| Cell::number(Unit::Ratio, value);
        let count = |value: u32| Cell::whole(Unit::Count, Some(value.into()));
        table.push(vec![
            Cell::text(&row.job),
            Cell::text(group.beside(place)),
            ratio(row.slowdown),
            ratio(row.slowdown_ci_lo),
            ratio(row.slowdown_ci_hi),
            Cell::text(&row.sharing),
            ratio(row.group_norm_throughput),
            ratio(row.group_norm_throughput_ci_lo),
            ratio(row.group_norm_throughput_ci_hi),
            Cell::whole(Unit::Ns, row.step_ns_alone),
            Cell::whole(Unit::Ns, row.step_ns_together),
            ratio(row.slowdown_p99),
            ratio(row.slowdown_p99_ci_lo),
            ratio(row.slowdown_p99_ci_hi),
            Cell::text(&row.device),
            count(row.blocks),
            count(row.blocks_failed),
            Cell::maybe_text(doubt),
        ]);
    }
}

#[cfg(test)]
mod tests {
    use super::{super::together::testing, *};

    #[test]
    fn every_row_of_the_table_is_shown_with_its_numbers() {
        let run = testing::record("20261122-epyc/colocate/sharing-resnet18-lstm");
        let [figure] = &make(&run, &Colours::default())[..] else { panic!("one table") };
        let Chart::Table(table) = &figure.chart else { panic!("a table") };
        assert_eq!(table.rows.len(), run.interference.len());
        for (shown, row) in table.rows.iter().zip(&run.interference) {
            assert_eq!(shown[0], Cell::text(&row.job));
            assert_eq!(shown[2], Cell::number(Unit::Ratio, row.slowdown));
            assert_eq!(shown[6], Cell::number(Unit::Ratio, row.group_norm_throughput));
        }
        assert_eq!(table.rows[4][2], Cell::Missing, "sequential");
        assert!(figure.caption.contains("3 groups, 6 blocks each"), "{}", figure.caption);
        assert!(!figure.doubts.is_empty());
    }

    #[test]
    fn a_failure_has_its_reason_and_no_number() {
        let run =
            testing::run(vec![testing::failed("<script>", "lstm"), testing::failed("lstm", "<script>")]);
        let [figure] = &make(&run, &Colours::default())[..] else { panic!("one table") };
        let Chart::Table(table) = &figure.chart else { panic!("a table") };
        assert_eq!(
            (&table.rows[0][6], table.rows[0][17].shown()),
            (&Cell::Missing, "failed: crashed: it died".into())
        );
        assert_eq!(figure.missing[0], "<script> beside lstm (time-slice): failed: crashed: it died");
        assert!(make(&testing::run(Vec::new()), &Colours::default()).is_empty());
    }
}
