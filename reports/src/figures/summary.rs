//! The table of the jobs that a run measured alone: `summary.csv`, for people.

use record::rows::Summary;

use crate::{
    alone::{self, JobsOfFigure},
    chart::Chart,
    colours::Colours,
    figure::Figure,
    run::Run,
    table::{Cell, Table, Unit},
};

const COLUMNS: &[(&str, &str)] = &[
    ("job", "job"),
    ("step_ns_median", "median step"),
    ("half_width_percent", "95 % interval +-"),
    ("step_ns_p90", "p90"),
    ("step_ns_p99", "p99"),
    ("samples_per_s", "samples/s"),
    ("peak_memory_bytes", "peak tensors"),
    ("device", "device"),
    ("host_rss_peak_bytes", "peak resident"),
    ("device_util_percent_mean", "utilisation"),
    ("repeats", "launches"),
    ("repeats_failed", "failed"),
    ("notes", "notes"),
];

pub(super) fn make(run: &Run, _: &Colours) -> Vec<Figure> {
    alone::parts(run).into_iter().map(|part| figure(run, part)).collect()
}

fn figure(run: &Run, part: JobsOfFigure) -> Figure {
    let mut table = Table::new(COLUMNS);
    part.rows.iter().for_each(|row| table.push(cells(row)));
    let caption = format!(
        "The jobs that were measured alone on {}. {} The half-width of the interval is in percent of the \
         median step. Percentiles are of single steps.",
        run.devices(),
        part.intervals(),
    );
    let doubts = part.doubts(|_| true);
    Figure { doubts, part: part.name, ..Figure::new("Jobs alone", caption, Chart::Table(table)) }
}

fn cells(row: &Summary) -> Vec<Cell> {
    // The job of a program of the catalog says what was run.
    let typed = row.command.as_ref().filter(|_| row.plan.is_none());
    vec![
        Cell::text(typed.map_or(row.job.clone(), |command| format!("{}: {command}", row.job))),
        Cell::whole(Unit::Ns, row.step_ns_median),
        Cell::number(Unit::Percent, row.half_width_percent),
        Cell::whole(Unit::Ns, row.step_ns_p90),
        Cell::whole(Unit::Ns, row.step_ns_p99),
        Cell::number(Unit::PerS, row.samples_per_s),
        Cell::whole(Unit::Bytes, row.peak_memory_bytes),
        Cell::text(&row.device),
        Cell::whole(Unit::Bytes, row.host_rss_peak_bytes),
        Cell::number(Unit::Percent, row.device_util_percent_mean),
        Cell::whole(Unit::Count, Some(row.repeats.into())),
        Cell::whole(Unit::Count, Some(row.repeats_failed.into())),
        Cell::text(notes(row)),
    ]
}

fn notes(row: &Summary) -> String {
    let failure = alone::why_absent(row, "");
    let warnings = row.warnings.to_string();
    [failure, warnings].into_iter().filter(|note| !note.is_empty()).collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::alone::tests::{record, run_of, summary};

    #[test]
    fn each_row_alone_is_a_row_with_the_numbers_of_the_table() {
        let run = record("20261121-epyc");
        let figures = make(&run, &Colours::default());
        let [Figure { chart: Chart::Table(table), caption, .. }] = &figures[..] else { panic!("one table") };
        assert_eq!(table.rows.len(), run.summaries.len());
        assert!(caption.contains("Each job was launched 3 times."), "{caption}");
        for row in &run.summaries {
            let cells = table.rows.iter().find(|cells| cells[0] == Cell::text(&row.job)).unwrap();
            assert_eq!(cells[1].in_csv(), row.step_ns_median.unwrap().to_string());
            assert_eq!(cells[12].in_csv(), row.warnings.to_string());
        }
    }

    #[test]
    fn a_failure_has_its_reason_and_no_number() {
        let row = summary(
            r#""job": "a@b1@dp2", "status": "failed", "err": "out-of-memory", "err_detail": "1 of 2""#,
        );
        let figures = make(&run_of(vec![row]), &Colours::default());
        let [Figure { chart: Chart::Table(table), .. }] = &figures[..] else { panic!("one table") };
        assert_eq!(table.rows[0][2], Cell::Missing);
        assert_eq!(table.rows[0][12], Cell::text("failed: out-of-memory: 1 of 2"));
        assert_eq!(make(&run_of(vec![]), &Colours::default()), []);
    }
}
