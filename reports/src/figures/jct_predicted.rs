//! The average completion time of each run of `sched`, predicted and measured, on one axis.

use formats::rows::Fidelity;

use super::fidelity::comparison;
use crate::{
    chart::{Axis, Chart, MarkValue, RowMark, RowOf, Rows},
    colours::{Colour, Colours},
    figure::Figure,
    run::Run,
    scheduled::{RunOfTrace, places, sides},
    table::Unit,
};

pub(super) fn make(runs: &[Run], colours: &Colours) -> Vec<Figure> {
    let sides = sides(runs, colours);
    let compared: Vec<(&RunOfTrace, Fidelity)> =
        sides.iter().filter_map(|side| Some((side, comparison(side.run)?.ok()?))).collect();
    if compared.len() < 2 {
        return Vec::new();
    }
    let rows = compared.iter().map(|(side, fidelity)| RowOf {
        name: side.name.clone(),
        marks: marks(fidelity),
        note: String::new(),
    });
    let caption = format!(
        "The average completion time of the jobs that ended well in the simulation before each run and on {}. The interval of a \
         prediction is 95 %, over its draws; one without draws has none. A measured average is of one run and has no interval.",
        places(&sides)
    );
    let without = sides.iter().filter(|side| compared.iter().all(|(of, _)| of.name != side.name));
    let missing = without.map(|side| format!("{}: no prediction and result that can be compared", side.name));
    let chart = Rows {
        value: Axis::new("average JCT", "jct_ns_mean", Unit::Ns),
        column: "run".into(),
        rows: rows.collect(),
        rule: None,
    };
    vec![Figure {
        missing: missing.collect(),
        finding: finding(&compared),
        ..Figure::new("Predicted and measured average completion times", caption, Chart::Rows(chart))
    }]
}

fn marks(fidelity: &Fidelity) -> Vec<RowMark> {
    let drawn = fidelity.intervals.and_then(|of| of.drawn).map(|drawn| drawn.jct_ns_mean);
    let ci = drawn.map(|range| (range.ci_lo_ns as f64, range.ci_hi_ns as f64));
    let mark = |part: &str, colour, ns: u64, ci| RowMark {
        part: part.into(),
        colour,
        quantity: MarkValue::Dot { value: ns as f64, ci },
        doubt: String::new(),
    };
    vec![
        mark("predicted", Colours::nth(0), fidelity.average_jct.predicted_ns, ci),
        mark("measured", Colour::Ink, fidelity.average_jct.measured_ns, None),
    ]
}

/// Whether predictions have the runs in the order of the results.
fn finding(compared: &[(&RunOfTrace, Fidelity)]) -> String {
    let pairs = compared.iter().enumerate().flat_map(|(at, one)| {
        compared.iter().skip(at + 1).map(move |other| (one.1.average_jct, other.1.average_jct))
    });
    let order = pairs.map(|(one, other)| {
        one.predicted_ns.cmp(&other.predicted_ns) == one.measured_ns.cmp(&other.measured_ns)
    });
    let (all, alike) = order.fold((0, 0), |(all, alike), same| (all + 1, alike + usize::from(same)));
    let errors: Vec<f64> = compared.iter().map(|(_, fidelity)| fidelity.average_jct.error_percent).collect();
    let least = errors.iter().copied().fold(f64::INFINITY, f64::min);
    let largest = errors.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    format!(
        "predictions of the average JCT are off by {least:+.1} % to {largest:+.1} %, and order {alike} of {all} pairs of runs as \
         the results do"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::activity::tests::recorded;

    #[test]
    fn every_run_has_its_prediction_and_its_result() {
        let runs: Vec<Run> = recorded().into_iter().skip(12).collect();
        let [figure] = &make(&runs, &Colours::default())[..] else { panic!("one figure") };
        let Chart::Rows(rows) = &figure.chart else { panic!("rows") };
        for (row, run) in rows.rows.iter().zip(&runs) {
            let mean = |of: fn(&formats::rows::Outcome) -> Option<u64>| {
                let sum: u64 = run.outcomes.iter().filter_map(of).sum();
                (sum / run.outcomes.len() as u64) as f64
            };
            let values: Vec<f64> = row
                .marks
                .iter()
                .map(|mark| match mark.quantity {
                    MarkValue::Dot { value, .. } => value,
                    _ => panic!("a dot"),
                })
                .collect();
            assert_eq!(values, [mean(|row| row.predicted_jct_ns), mean(|row| row.jct_ns)], "{}", row.name);
        }
        assert!(figure.finding.contains("of 3 pairs of runs"), "{}", figure.finding);
        assert!(make(&runs[..1], &Colours::default()).is_empty(), "one run has its own figures");
    }
}
