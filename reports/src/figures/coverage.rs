//! The share of jobs whose measured completion time is inside the predicted 95 % interval, for each run of `sched`.

use statistics::share::wilson;

use super::fidelity::comparison;
use crate::{
    chart::{Axis, Chart, MarkValue, RowMark, RowOf, Rows},
    colours::Colours,
    figure::Figure,
    run::Run,
    scheduled::{places, sides},
    table::Unit,
};

pub(super) fn make(runs: &[Run], colours: &Colours) -> Vec<Figure> {
    let sides = sides(runs, colours);
    let (mut rows, mut jobs, mut inside) = (Vec::new(), 0, 0);
    for side in &sides {
        let fidelity = comparison(side.run).and_then(Result::ok);
        let Some(of) = fidelity.and_then(|fidelity| fidelity.intervals) else { continue };
        let Some(share) = wilson(of.jobs_inside, of.jobs) else { continue };
        jobs += of.jobs;
        inside += of.jobs_inside;
        rows.push(RowOf {
            name: side.name.clone(),
            marks: vec![RowMark {
                part: String::new(),
                colour: side.colour,
                quantity: MarkValue::Dot {
                    value: 100.0 * share.estimate,
                    ci: Some((100.0 * share.lo, 100.0 * share.hi)),
                },
                doubt: String::new(),
            }],
            note: format!("{} of {} jobs", of.jobs_inside, of.jobs),
        });
    }
    if rows.is_empty() {
        return Vec::new();
    }
    let caption = format!(
        "The share of jobs that ended inside the 95 % interval that was predicted for them, on {}. Good intervals have 95 % of many \
         jobs. The interval of a share is Wilson's at 95 %; jobs of one run wait for each other, so that it is too narrow.",
        places(&sides)
    );
    let chart = Rows {
        value: Axis::new("jobs inside their intervals", "inside_percent", Unit::Percent),
        column: "run".into(),
        rows,
        rule: Some((95.0, "95 %".into())),
    };
    let finding = format!("{inside} of {jobs} jobs ended inside their predicted 95 % intervals");
    vec![Figure { finding, ..Figure::new("Coverage of predicted intervals", caption, Chart::Rows(chart)) }]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::activity::tests::recorded;

    #[test]
    fn jobs_inside_their_intervals_are_counted() {
        let runs: Vec<Run> = recorded().into_iter().skip(12).collect();
        let [figure] = &make(&runs, &Colours::default())[..] else { panic!("one figure") };
        let inside = |run: &Run| {
            let jobs = run.predictions.iter().zip(&run.outcomes);
            jobs.filter(|(predicted, row)| {
                predicted.range().zip(row.jct_ns).is_some_and(|(range, jct)| range.contains(jct))
            })
            .count()
        };
        let all: usize = runs.iter().map(inside).sum();
        assert!(figure.finding.starts_with(&format!("{all} of 42 jobs")), "{}", figure.finding);
    }
}
