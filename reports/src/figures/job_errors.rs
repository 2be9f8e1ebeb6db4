//! The error of the prediction of each job, and where it arose.

use formats::rows::{Fidelity, JobFidelity};

use crate::{
    chart::Chart,
    colours::Colours,
    figure::Figure,
    figures::fidelity::compared,
    run::Run,
    scheduled::place,
    table::{Cell, Table, Unit},
};

/// The largest number of rows.
const MOST_ROWS: usize = 1_000;

const COLUMNS: &[(&str, &str)] = &[
    ("job", "job"),
    ("predicted_jct_ns", "predicted JCT"),
    ("measured_jct_ns", "measured JCT"),
    ("error_percent", "error"),
    ("predicted_jct_ns_ci_lo", "95 % from"),
    ("predicted_jct_ns_ci_hi", "95 % to"),
    ("inside", "inside"),
    ("step_time_ns", "step time"),
    ("interference_ns", "interference"),
    ("start_up_ns", "start-up"),
    ("switch_cost_ns", "switch cost"),
    ("order_ns", "order"),
];

pub(super) fn make(run: &Run, _: &Colours) -> Vec<Figure> {
    let title = "Prediction and result of each job";
    compared(run, |found| {
        let mut jobs: Vec<&JobFidelity> = found.per_job.iter().collect();
        jobs.sort_by(|a, b| b.jct.error_percent.abs().total_cmp(&a.jct.error_percent.abs()));
        let mut table = Table::new(COLUMNS);
        jobs.iter().take(MOST_ROWS).for_each(|job| table.push(row(job)));
        let caption = format!(
            "Completion times of {} jobs, predicted and measured on {}, the largest errors first. An error is positive if the prediction \
             is too long, and is the sum of the parts. {}",
            found.jobs,
            place(run),
            intervals(run, found)
        );
        let left_out = jobs.len().saturating_sub(MOST_ROWS);
        let missing = (left_out > 0).then(|| format!("{left_out} jobs with smaller errors"));
        Figure { missing: missing.into_iter().collect(), ..Figure::new(title, caption, Chart::Table(table)) }
    })
}

fn intervals(run: &Run, found: &Fidelity) -> String {
    match found.intervals {
        Some(_) => format!("Intervals are at 95 %, over {} draws.", run.draws.len()),
        None => "The prediction was made without draws and has no intervals.".into(),
    }
}

fn row(job: &JobFidelity) -> Vec<Cell> {
    let ns = |ns| Cell::whole(Unit::Ns, ns);
    let is_inside = job.drawn.map(|drawn| if drawn.contains(job.jct.measured_ns) { "yes" } else { "no" });
    let mut cells = vec![
        Cell::text(&job.name),
        ns(Some(job.jct.predicted_ns)),
        ns(Some(job.jct.measured_ns)),
        Cell::number(Unit::Percent, Some(job.jct.error_percent)),
        ns(job.drawn.map(|drawn| drawn.ci_lo_ns)),
        ns(job.drawn.map(|drawn| drawn.ci_hi_ns)),
        Cell::maybe_text(is_inside),
    ];
    cells.extend(job.arose.parts().map(|(_, ns)| Cell::number(Unit::SignedNs, ns.map(|ns| ns as f64))));
    cells
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::activity::tests::recorded;

    #[test]
    fn each_job_has_a_row_whose_parts_add_up() {
        for run in recorded() {
            let [figure] = &make(&run, &Colours::default())[..] else { panic!("one figure") };
            let Chart::Table(table) = &figure.chart else { panic!("a table") };
            assert_eq!(table.rows.len(), run.outcomes.len());
            for row in &table.rows {
                let value = |place: usize| match row[place] {
                    Cell::Number { value, .. } => value,
                    _ => panic!("a number"),
                };
                // Older records lack the time of starts. It is then part of the switch cost.
                let parts = (7..12).filter(|place| matches!(row[*place], Cell::Number { .. }));
                assert_eq!(value(1) - value(2), parts.map(value).sum::<f64>());
                let of = run.outcomes.iter().find(|of| row[0] == Cell::text(&of.name)).expect("it is a job");
                assert_eq!(of.jct_ns.map(|ns| ns as f64), Some(value(2)));
            }
        }
    }
}
