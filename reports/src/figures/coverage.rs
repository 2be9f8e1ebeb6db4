//! The share of jobs whose measured completion time is inside the predicted 95 % interval, for each run of `sched`.

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
        let Some(of) = comparison(side.run).and_then(Result::ok).and_then(|found| found.intervals) else {
            continue;
        };
        jobs += of.jobs;
        inside += of.jobs_inside;
        let percent = 100.0 * f64::from(of.jobs_inside) / f64::from(of.jobs);
        let (lo, hi) = interval(of.jobs_inside, of.jobs);
        rows.push(RowOf {
            name: side.name.clone(),
            marks: vec![RowMark {
                part: String::new(),
                colour: side.colour,
                quantity: MarkValue::Dot { value: percent, ci: Some((lo, hi)) },
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

/// The 95 % interval of a share in percent (E. B. Wilson, "Probable Inference, the Law of Succession, and Statistical Inference", JASA
/// 22, 1927).
fn interval(inside: u32, all: u32) -> (f64, f64) {
    const Z: f64 = 1.959_963_985;
    let (n, share) = (f64::from(all), f64::from(inside) / f64::from(all));
    let middle = share + Z * Z / (2.0 * n);
    let half = Z * (share * (1.0 - share) / n + Z * Z / (4.0 * n * n)).sqrt();
    let scale = 100.0 / (1.0 + Z * Z / n);
    ((middle - half) * scale, (middle + half) * scale)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::activity::tests::recorded;

    /// `binom.confint(x, n, methods = "wilson")` of R.
    #[test]
    fn the_interval_is_that_of_wilson() {
        for (inside, all, lo, hi) in [(14, 14, 78.47, 100.0), (5, 10, 23.66, 76.34), (0, 10, 0.0, 27.75)] {
            let found = interval(inside, all);
            assert!((found.0 - lo).abs() < 0.01 && (found.1 - hi).abs() < 0.01, "{found:?}");
        }
    }

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
