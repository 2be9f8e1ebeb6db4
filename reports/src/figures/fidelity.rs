//! The errors of the prediction of a run, as `sched fidelity` prints them.

use outcomes::{draws::totals_of_draws, fidelity::compare};
use schema::rows::{Fidelity, Times};

use crate::{
    chart::Chart,
    colours::Colours,
    figure::Figure,
    run::{Run, RunKind},
    scheduled::place,
    table::{Cell, Table, Unit},
};

/// Compares a run on devices with its prediction. `None` if it has none, and the reason if the two cannot be compared.
pub fn comparison(run: &Run) -> Option<Result<Fidelity, String>> {
    if run.kind() != RunKind::Scheduled || run.predictions.is_empty() || run.outcomes.is_empty() {
        return None;
    }
    let devices = Some(run.device_names().len() as u32);
    let found = compare(&run.predictions, &run.outcomes, [devices; 2]).map_err(|error| error.to_string());
    Some(found.map(|mut found| {
        if let Some(intervals) = &mut found.intervals {
            intervals.drawn = totals_of_draws(&run.draws);
        }
        found
    }))
}

/// A figure of a comparison, with what it leaves out; the title alone and the reason if there is nothing to compare.
pub fn compared(run: &Run, title: &str, make: impl FnOnce(&Fidelity) -> Figure) -> Vec<Figure> {
    let Some(found) = comparison(run) else { return Vec::new() };
    let mut figure = match &found {
        Ok(found) => make(found),
        Err(why) => {
            let table = Chart::Table(Table::default());
            return vec![Figure {
                missing: vec![why.clone()],
                ..Figure::new(title, "Nothing is compared.", table)
            }];
        }
    };
    if let Ok(found) = &found {
        let others = found.left_out.len();
        let left_out = (others > 0).then(|| {
            format!("{others} jobs that did not end well on both sides: {}", some_names(&found.left_out))
        });
        let ended = found.ended_by_policy;
        let ended = (ended > 0).then(|| format!("{ended} jobs that the policy ended on both sides"));
        figure.missing.extend(left_out.into_iter().chain(ended));
    }
    figure.doubts.extend(doubts(run));
    vec![figure]
}

/// Warnings of the measurements that predictions stand on.
pub fn doubts(run: &Run) -> impl Iterator<Item = String> {
    let rows = run.predictions.iter().filter(|row| !row.warnings.is_empty());
    rows.map(|row| format!("{}: {}", row.name, row.warnings))
}

fn some_names(names: &[String]) -> String {
    const NAMED: usize = 8;
    let some = names.iter().take(NAMED).map(String::as_str).collect::<Vec<_>>().join(", ");
    if names.len() > NAMED { format!("{some} and {} more", names.len() - NAMED) } else { some }
}

pub fn fidelity(run: &Run, _: &Colours) -> Vec<Figure> {
    let title = "Prediction and result";
    compared(run, title, |found| {
        let caption = format!(
            "{} jobs that ended well in the prediction and on {}. An error is positive if the prediction is too long. Errors of jobs are \
             without their sign. One run is compared, so that its errors have no interval.",
            found.jobs,
            place(run)
        );
        Figure { finding: finding(found), ..Figure::new(title, caption, Chart::Table(table(found))) }
    })
}

fn table(found: &Fidelity) -> Table {
    let columns = [
        ("quantity", "of the jobs"),
        ("predicted", "predicted"),
        ("measured", "measured"),
        ("error_percent", "error"),
    ];
    let mut table = Table::new(&columns);
    let mut line = |name: &str, sides: [Cell; 2], error: Option<f64>| {
        let [predicted, measured] = sides;
        table.push(vec![Cell::text(name), predicted, measured, Cell::number(Unit::Percent, error)]);
    };
    let ns = |times: Times| [times.predicted_ns, times.measured_ns].map(|ns| Cell::whole(Unit::Ns, Some(ns)));
    for (name, times) in
        [("average JCT", found.average_jct), ("p99 JCT", found.p99_jct), ("makespan", found.makespan)]
    {
        line(name, ns(times), Some(times.error_percent));
    }
    let of = found.utilisation;
    let busy =
        [of.predicted_percent, of.measured_percent].map(|percent| Cell::number(Unit::Percent, percent));
    line("utilisation", busy, of.error_percent);
    let nothing = || [Cell::Missing, Cell::Missing];
    line("JCT of a job, median error", nothing(), Some(found.job_jct.median_percent));
    line("JCT of a job, error of the 90th percentile", nothing(), Some(found.job_jct.p90_percent));
    line("JCT of a job, largest error", nothing(), Some(found.job_jct.max_percent));
    if let Some(intervals) = found.intervals {
        let counts =
            [intervals.jobs, intervals.jobs_inside].map(|n| Cell::whole(Unit::Count, Some(n.into())));
        line("jobs with a 95 % interval, and those inside it", counts, None);
    }
    table
}

fn finding(found: &Fidelity) -> String {
    let inside = found
        .intervals
        .map(|of| format!("; {} of {} jobs are inside their 95 % intervals", of.jobs_inside, of.jobs));
    let drawn = found.intervals.and_then(|of| of.drawn).map(|drawn| {
        let is_inside = drawn.jct_ns_mean.contains(found.average_jct.measured_ns);
        format!(
            "; the measured average is {} {}",
            if is_inside { "inside" } else { "outside" },
            drawn.jct_ns_mean
        )
    });
    format!(
        "average JCT predicted as {}, measured as {} ({:+.1} %); median error of a job {:.1} %{}{}",
        Unit::Ns.show(found.average_jct.predicted_ns as f64),
        Unit::Ns.show(found.average_jct.measured_ns as f64),
        found.average_jct.error_percent,
        found.job_jct.median_percent,
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
        let [figure] = &fidelity(run, &Colours::default())[..] else { panic!("one figure") };
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
            let [figure] = &fidelity(run, &Colours::default())[..] else { panic!("one figure") };
            let inside = run.predictions.iter().zip(&run.outcomes).filter(|(predicted, row)| {
                predicted.range().zip(row.jct_ns).is_some_and(|(range, jct)| range.contains(jct))
            });
            let expected = format!("{} of 14 jobs are inside", inside.count());
            assert!(figure.finding.contains(&expected), "{} lacks {expected}", figure.finding);
        }
    }
}
