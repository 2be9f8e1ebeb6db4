//! The errors of the prediction of a run, as `sched fidelity` prints them.

use std::collections::BTreeMap;

use formats::rows::{Fidelity, Times};
use outcomes::{draws::totals_of_draws, fidelity::compare};

use crate::{
    chart::Chart,
    colours::Colours,
    figure::Figure,
    phrases::first_of,
    run::{Run, RunKind},
    scheduled::place,
    table::{Cell, Table, Unit},
};

const COLUMNS: &[(&str, &str)] = &[
    ("quantity", "of the jobs"),
    ("predicted", "predicted"),
    ("measured", "measured"),
    ("error_percent", "error"),
    ("unit", "unit in the file"),
];

/// Compares a run on devices with its prediction. `None` if it has none, and the reason if the two cannot be compared.
pub(crate) fn comparison(run: &Run) -> Option<Result<Fidelity, String>> {
    if run.kind() != RunKind::Scheduled || run.predictions.is_empty() || run.outcomes.is_empty() {
        return None;
    }
    let devices = Some(run.device_names().len() as u32);
    let fidelity = compare(&run.predictions, &run.outcomes, [devices; 2]).map_err(|error| error.to_string());
    Some(fidelity.map(|mut fidelity| {
        if let Some(intervals) = &mut fidelity.intervals {
            intervals.drawn = totals_of_draws(&run.draws);
        }
        fidelity
    }))
}

/// The figure of a comparison, with what it leaves out. None if there is nothing to compare.
pub(super) fn compared(run: &Run, make: impl FnOnce(&Fidelity) -> Figure) -> Vec<Figure> {
    let Some(Ok(fidelity)) = comparison(run) else { return Vec::new() };
    let mut figure = make(&fidelity);
    let others = fidelity.left_out.len();
    let left_out = (others > 0).then(|| {
        format!("{others} jobs that did not end well on both sides: {}", some_of(&fidelity.left_out))
    });
    let ended = fidelity.ended_by_policy;
    let ended = (ended > 0).then(|| format!("{ended} jobs that the policy ended on both sides"));
    figure.missing.extend(left_out.into_iter().chain(ended));
    figure.doubts = doubts(run);
    vec![figure]
}

/// Warnings of the measurements that predictions stand on.
pub(crate) fn doubts(run: &Run) -> Vec<String> {
    let mut jobs: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for row in run.predictions.iter().filter(|row| !row.warnings.is_empty()) {
        jobs.entry(row.warnings.to_string()).or_default().push(row.name.clone());
    }
    let sentence =
        |(warnings, names): (&String, &Vec<String>)| format!("predictions of {}: {warnings}", some_of(names));
    jobs.iter().map(sentence).collect()
}

/// The first names, and the number of the others.
fn some_of(names: &[String]) -> String {
    first_of(names, 8, ", ")
}

pub(super) fn make(run: &Run, _: &Colours) -> Vec<Figure> {
    let title = "Prediction and result";
    if let Some(Err(why)) = comparison(run) {
        let chart = Chart::Table(Table::new(COLUMNS));
        return vec![Figure { missing: vec![why], ..Figure::new(title, "Nothing is compared.", chart) }];
    }
    compared(run, |fidelity| {
        let caption = format!(
            "{} jobs that ended well in the prediction and on {}. An error is positive if the prediction is too long. Errors of jobs are \
             without their sign. One run is compared, so that its errors have no interval.",
            fidelity.jobs,
            place(run)
        );
        Figure { finding: finding(fidelity), ..Figure::new(title, caption, Chart::Table(table(fidelity))) }
    })
}

fn table(fidelity: &Fidelity) -> Table {
    let mut table = Table::new(COLUMNS);
    let mut line = |name: &str, unit: &str, sides: [Cell; 2], error: Option<f64>| {
        let [predicted, measured] = sides;
        let error = Cell::number(Unit::Percent, error);
        table.push(vec![Cell::text(name), predicted, measured, error, Cell::text(unit)]);
    };
    let ns = |times: Times| [times.predicted_ns, times.measured_ns].map(|ns| Cell::whole(Unit::Ns, Some(ns)));
    for (name, times) in [
        ("average JCT", fidelity.average_jct),
        ("p99 JCT", fidelity.p99_jct),
        ("makespan", fidelity.makespan),
    ] {
        line(name, "ns", ns(times), Some(times.error_percent));
    }
    let utilisation = fidelity.utilisation;
    let busy = [utilisation.predicted_percent, utilisation.measured_percent]
        .map(|percent| Cell::number(Unit::Percent, percent));
    line("utilisation", "percent", busy, utilisation.error_percent);
    let jobs = fidelity.job_jct;
    for (name, error) in [
        ("JCT of a job, median error", jobs.median_percent),
        ("JCT of a job, error of the 90th percentile", jobs.p90_percent),
        ("JCT of a job, largest error", jobs.max_percent),
    ] {
        line(name, "", [Cell::Missing, Cell::Missing], Some(error));
    }
    if let Some(intervals) = fidelity.intervals {
        let counts =
            [intervals.jobs, intervals.jobs_inside].map(|n| Cell::whole(Unit::Count, Some(n.into())));
        line("jobs with a 95 % interval, and those inside it", "jobs", counts, None);
    }
    table
}

fn finding(fidelity: &Fidelity) -> String {
    let inside = fidelity
        .intervals
        .map(|of| format!("; {} of {} jobs are inside their 95 % intervals", of.jobs_inside, of.jobs));
    let drawn = fidelity.intervals.and_then(|of| of.drawn).map(|drawn| {
        let is_inside = drawn.jct_ns_mean.contains(fidelity.average_jct.measured_ns);
        format!(
            "; the measured average is {} {}",
            if is_inside { "inside" } else { "outside" },
            drawn.jct_ns_mean
        )
    });
    format!(
        "average JCT predicted as {}, measured as {} ({:+.1} %); median error of a job {:.1} %{}{}",
        Unit::Ns.show(fidelity.average_jct.predicted_ns as f64),
        Unit::Ns.show(fidelity.average_jct.measured_ns as f64),
        fidelity.average_jct.error_percent,
        fidelity.job_jct.median_percent,
        inside.unwrap_or_default(),
        drawn.unwrap_or_default()
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::activity::tests::recorded;

    /// The table that `docs/scheduler.md` prints of this run.
    #[test]
    fn the_table_is_that_of_the_program() {
        let runs = recorded();
        let run =
            runs.iter().find(|run| run.dir.path().ends_with("testbed-20/tiresias-1")).expect("it is there");
        let [figure] = &make(run, &Colours::default())[..] else { panic!("one figure") };
        let Chart::Table(table) = &figure.chart else { panic!("a table") };
        let shown: Vec<Vec<String>> =
            table.rows.iter().map(|row| row.iter().map(Cell::shown).collect()).collect();
        assert_eq!(shown[0][1..3], ["28.4 s", "28.4 s"]);
        assert_eq!(shown[1][1..3], ["51.3 s", "51.2 s"]);
        assert_eq!(shown[2][1..3], ["358 s", "357 s"]);
        let errors: Vec<f64> = table
            .rows
            .iter()
            .filter_map(|row| match row[3] {
                Cell::Number { value, .. } => Some((value * 10.0).round() / 10.0),
                _ => None,
            })
            .collect();
        assert!([0.3, 0.4, 1.1, 2.9, 4.3].iter().all(|error| errors.contains(error)), "{errors:?}");
    }

    #[test]
    fn runs_with_draws_say_how_many_jobs_are_inside() {
        for run in recorded().iter().skip(12) {
            let [figure] = &make(run, &Colours::default())[..] else { panic!("one figure") };
            let inside = run.predictions.iter().zip(&run.outcomes).filter(|(predicted, row)| {
                predicted.range().zip(row.jct_ns).is_some_and(|(range, jct)| range.contains(jct))
            });
            let expected = format!("{} of 14 jobs are inside", inside.count());
            assert!(figure.finding.contains(&expected), "{} lacks {expected}", figure.finding);
        }
    }
}
