//! How long jobs took in each run over the first run of the same trace, with intervals.

use super::policies::ratio;
use crate::{
    chart::{Axis, Chart, MarkValue, RowMark, RowOf, Rows},
    colours::Colours,
    figure::Figure,
    run::Run,
    scheduled::{places, sides},
    table::Unit,
};

pub(super) fn make(runs: &[Run], colours: &Colours) -> Vec<Figure> {
    let sides: Vec<_> =
        sides(runs, colours).into_iter().filter(|side| !side.run.outcomes.is_empty()).collect();
    let [first, others @ ..] = &sides[..] else { return Vec::new() };
    let ratios: Vec<_> = others.iter().map(|side| (side, ratio(first.run, side.run))).collect();
    if ratios.iter().all(|(_, ratio)| ratio.is_none()) {
        return Vec::new();
    }
    let rows = ratios.iter().map(|(side, ratio)| {
        let mark = ratio.map(|of| RowMark {
            part: String::new(),
            colour: side.colour,
            quantity: MarkValue::Dot { value: of.estimate, ci: Some((of.lo, of.hi)) },
            doubt: String::new(),
        });
        let note =
            if mark.is_some() { "" } else { "another trace, or fewer than two jobs that ended well in both" };
        RowOf { name: side.name.clone(), marks: mark.into_iter().collect(), note: note.into() }
    });
    let chart = Chart::Rows(Rows {
        value: Axis::new("JCT of a job over that in the first run", "jct_ratio", Unit::Ratio).tight(),
        column: "run".into(),
        rows: rows.collect(),
        rule: Some((1.0, format!("as {}", first.name))),
    });
    let caption = format!(
        "Completion times of jobs over those of the same jobs in {}, on {}: geometric means with 95 % intervals over the jobs of one \
         trace. They say how much the difference varies from job to job, and not how much it would vary between repeats of the runs.",
        first.name,
        places(&sides)
    );
    vec![Figure::new("Completion times over the first run", caption, chart)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::activity::tests::recorded;

    #[test]
    fn a_ratio_is_the_geometric_mean_over_jobs() {
        let runs: Vec<Run> = recorded().into_iter().skip(12).collect();
        let [figure] = &make(&runs, &Colours::default())[..] else { panic!("one figure") };
        let Chart::Rows(rows) = &figure.chart else { panic!("rows") };
        assert_eq!(rows.rows.len(), runs.len() - 1);
        for (row, run) in rows.rows.iter().zip(&runs[1..]) {
            let log = |run: &Run, name: &str| {
                let of = run.outcomes.iter().find(|row| row.name == name);
                (of.and_then(|row| row.jct_ns).expect("it ended well") as f64).ln()
            };
            let logs = run.outcomes.iter().map(|job| log(run, &job.name) - log(&runs[0], &job.name));
            let expected = (logs.sum::<f64>() / run.outcomes.len() as f64).exp();
            let [RowMark { quantity: MarkValue::Dot { value, ci: Some((lo, hi)) }, .. }] = row.marks[..]
            else {
                panic!("a dot: {row:?}")
            };
            assert!((value - expected).abs() < 1e-9 && lo < value && value < hi, "{value} {expected}");
        }
        assert!(make(&runs[..1], &Colours::default()).is_empty());
    }
}
