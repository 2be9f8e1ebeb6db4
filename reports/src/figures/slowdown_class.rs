//! The slowdown of jobs by class, user and virtual cluster: their completion time over the time that they would take alone.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, HashMap},
};

use formats::{
    decision::JobId,
    rows::{Outcome, Prediction},
};
use statistics::quantile_of_sorted;

use crate::{
    chart::{Axis, Chart, MarkValue, RowMark, RowOf, Rows},
    colours::Colours,
    figure::Figure,
    run::Run,
    scheduled::{done, is_scheduled, not_well, place},
    table::Unit,
};

/// The largest number of groups of a kind.
const MOST_GROUPS: usize = 20;

/// The name of a kind of groups, and the group of a job; empty if it is in none.
type Grouping = (&'static str, fn(&Outcome) -> String);

const GROUPINGS: [Grouping; 3] = [
    ("class", |row| row.class.to_string()),
    ("user", |row| row.user.clone()),
    ("virtual cluster", |row| row.vc.clone()),
];

pub(super) fn make(run: &Run, _: &Colours) -> Vec<Figure> {
    if !is_scheduled(run) {
        return Vec::new();
    }
    let predictions: HashMap<JobId, &Prediction> = run.predictions.iter().map(|row| (row.job, row)).collect();
    let slowdown = |(row, jct): (&'_ Outcome, u64)| alone_ns(row, predictions.get(&row.job).copied(), jct);
    let jobs: Vec<(&Outcome, f64, bool)> = done(run)
        .filter_map(|of| slowdown(of).map(|(slowdown, is_predicted)| (of.0, slowdown, is_predicted)))
        .collect();
    if jobs.is_empty() {
        return Vec::new();
    }
    let mut missing: Vec<String> = not_well("this run", run).into_iter().collect();
    let mut rows = vec![row("all jobs".into(), 0, jobs.iter().map(|job| job.1).collect())];
    for (n, (kind, group)) in GROUPINGS.iter().enumerate() {
        let mut groups: BTreeMap<String, Vec<f64>> = BTreeMap::new();
        jobs.iter().for_each(|(row, slowdown, _)| groups.entry(group(row)).or_default().push(*slowdown));
        // A single group is all jobs.
        if groups.len() < 2 {
            continue;
        }
        let mut groups: Vec<(String, Vec<f64>)> = groups.into_iter().collect();
        groups.sort_by_key(|(_, values)| Reverse(values.len()));
        let left_out = groups.len().saturating_sub(MOST_GROUPS);
        missing.extend(
            (left_out > 0)
                .then(|| format!("{left_out} of {} groups by {kind}, with fewer jobs", groups.len())),
        );
        let named =
            |name: String| if name.is_empty() { format!("no {kind}") } else { format!("{kind} {name}") };
        rows.extend(
            groups.into_iter().take(MOST_GROUPS).map(|(name, values)| row(named(name), n + 1, values)),
        );
    }
    let predicted = jobs.iter().filter(|job| job.2).count();
    let caption = format!(
        "Completion time of jobs over the time that they would take alone, on {}. For {predicted} jobs this time is that of their steps by \
         the prediction, for the other {} the time for which they ran, which co-runners and the chosen plan affect. A box has the \
         quartiles and the median, and whiskers reach the extremes; these are spreads over jobs and no intervals.",
        place(run),
        jobs.len() - predicted
    );
    let value =
        Axis { from_zero: false, ..Axis::new("slowdown: JCT over the time alone", "slowdown", Unit::Ratio) };
    let rule = Some((1.0, "alone, without waiting".into()));
    let chart = Chart::Rows(Rows { value, column: "group".into(), rows, rule });
    vec![Figure { missing, ..Figure::new("Slowdown of jobs", caption, chart) }]
}

/// The slowdown of a job, and whether the time alone is predicted.
fn alone_ns(row: &Outcome, predicted: Option<&Prediction>, jct: u64) -> Option<(f64, bool)> {
    let steps = row.steps_asked.zip(predicted.and_then(|row| row.step_ns));
    let (alone, is_predicted) = match steps {
        Some((steps, step_ns)) => (steps as f64 * step_ns as f64, true),
        None => (row.running_ns? as f64, false),
    };
    (alone > 0.0).then(|| (jct as f64 / alone, is_predicted))
}

fn row(name: String, colour: usize, mut values: Vec<f64>) -> RowOf {
    values.sort_by(f64::total_cmp);
    let note = format!("{} jobs", values.len());
    let at = |part| quantile_of_sorted(&values, part);
    let five = (!values.is_empty()).then(|| [0.0, 0.25, 0.5, 0.75, 1.0].map(at));
    let mark = |five| RowMark {
        part: String::new(),
        colour: Colours::nth(colour),
        quantity: MarkValue::Box(five),
        doubt: String::new(),
    };
    RowOf { name, marks: five.map(mark).into_iter().collect(), note }
}

#[cfg(test)]
mod tests {
    use formats::trace::Class;

    use super::*;
    use crate::activity::tests::recorded;

    #[test]
    fn a_slowdown_is_the_completion_time_over_the_predicted_steps() {
        let mut runs = recorded();
        let run = &mut runs[14];
        run.outcomes[0].user = "=<b>".into();
        run.outcomes[1].class = Class::BestEffort;
        run.predictions[0].step_ns = Some(40_000_000);
        let [figure] = &make(run, &Colours::default())[..] else { panic!("one figure") };
        let Chart::Rows(rows) = &figure.chart else { panic!("rows") };
        let names: Vec<&str> = rows.rows.iter().map(|row| row.name.as_str()).collect();
        assert_eq!(names, ["all jobs", "class guaranteed", "class best-effort", "no user", "user =<b>"]);
        let (row, predicted) = (&run.outcomes[0], &run.predictions[0]);
        let alone = row.steps_asked.expect("it has steps") * predicted.step_ns.expect("it is known");
        let expected = row.jct_ns.expect("it ended") as f64 / alone as f64;
        assert_eq!(rows.rows[4].marks[0].quantity, MarkValue::Box([expected; 5]));
        assert!(figure.caption.contains("For 1 jobs") && figure.caption.contains("the other 13"));
    }
}
