//! The throughput of each job alone, the fastest plan and batch of each workload first.

use record::rows::Summary;

use crate::{
    alone::{self, JobsOfFigure, Names, Rate, throughput},
    chart::{Axis, Chart, MarkValue, Rows},
    colours::Colours,
    figure::Figure,
    run::Run,
    table::Unit,
};

pub(super) fn make(run: &Run, colours: &Colours) -> Vec<Figure> {
    alone::parts(run).into_iter().filter_map(|part| figure(run, colours, part)).collect()
}

fn figure(run: &Run, colours: &Colours, mut part: JobsOfFigure) -> Option<Figure> {
    part.sort(|row| throughput(row).map(|(rate, _)| -rate));
    let rates: Vec<f64> = part.rows.iter().filter_map(|row| Some(throughput(row)?.0)).collect();
    rates.first()?;
    let axis = alone::scaled(Axis::new("throughput in samples", "samples_per_s", Unit::PerS), rates);
    let names = Names::of(run);
    let row = |row: &&Summary| {
        let dot = throughput(row).map(|(value, ci)| MarkValue::Dot { value, ci });
        let dot = dot.ok_or_else(|| alone::why_absent(row, "the number of its samples is not known"));
        alone::dot_row(names.name(&row.job, &row.device), row, colours, dot)
    };
    let rows =
        Rows { value: axis, column: "job".into(), rows: part.rows.iter().map(row).collect(), rule: None };
    let caption = format!(
        "Samples per second of each job alone on {}: the mean of the rates of its launches, the fastest of \
         each workload first. {} The interval of a rate is as wide as that of the median step, from which \
         it is made.",
        run.devices(),
        part.intervals(),
    );
    let is_drawn = |row: &Summary| throughput(row).is_some();
    let workloads =
        part.by_workload().filter(|rows| !rows.iter().any(|row| alone::is_stressor(&row.workload)));
    let findings: Vec<String> = workloads.filter_map(|rows| fastest(rows, &names)).collect();
    Some(Figure {
        finding: findings.join(" "),
        doubts: part.doubts(is_drawn),
        missing: part.missing(is_drawn, "the number of its samples is not known"),
        part: part.name,
        ..Figure::new("Throughput", caption, Chart::Rows(rows))
    })
}

/// The fastest of the rows of a workload, which are sorted, and whether others may be as fast.
fn fastest(rows: &[&Summary], names: &Names) -> Option<String> {
    let drawn: Vec<(&Summary, Rate)> = rows.iter().filter_map(|row| Some((*row, throughput(row)?))).collect();
    let [(first, (best, interval)), (second, (next, _)), ..] = &drawn[..] else { return None };
    let name = |row: &Summary| match row.warnings.is_empty() {
        true => names.name(&row.job, &row.device),
        false => format!("{} ({})", names.name(&row.job, &row.device), row.warnings),
    };
    let about = format!(
        "Fastest of {}: {} with {}, {:.2} times the rate of {}",
        first.workload,
        name(first),
        Unit::PerS.show(*best),
        best / next,
        name(second),
    );
    let Some((least, _)) = interval else {
        return Some(format!("{about}; without an interval, the order may be chance."));
    };
    // A row without an interval may be as fast, too.
    let may_be = |(_, (_, own)): &&(&Summary, Rate)| own.is_none_or(|(_, hi)| hi >= *least);
    Some(match drawn.iter().skip(1).filter(may_be).count() {
        0 => format!("{about}; no interval of another overlaps with its own."),
        1 => format!("{about}, within noise: one other job may be as fast."),
        others => format!("{about}, within noise: {others} other jobs may be as fast."),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::alone::tests::{record, run_of, summary};

    fn job(job: &str, rate: f64, half: f64) -> Summary {
        let (lo, hi) = (1e6 * (1.0 - half), 1e6 * (1.0 + half));
        summary(&format!(
            r#""job": "{job}", "samples_per_s": {rate}, "step_ns_median": 1000000, "step_ns_median_ci_lo": {lo:.0},
            "step_ns_median_ci_hi": {hi:.0}, "half_width_percent": 1, "repeats": 3"#
        ))
    }

    fn finding(rows: Vec<Summary>) -> String {
        make(&run_of(rows), &Colours::default())
            .first()
            .map(|figure| figure.finding.clone())
            .unwrap_or_default()
    }

    #[test]
    fn the_interval_is_that_of_the_step_turned_over() {
        let (rate, ci) = throughput(&job("a@b1@dp1", 100.0, 0.2)).unwrap();
        let (lo, hi) = ci.unwrap();
        assert!((lo - rate / 1.2).abs() < 1e-9 && (hi - rate / 0.8).abs() < 1e-9);
    }

    #[test]
    fn the_fastest_is_named_and_noise_is_called_noise() {
        let jobs = |half| {
            vec![job("a@b1@dp1", 100.0, half), job("a@b1@dp2", 150.0, half), job("a@b1@gc", 90.0, half)]
        };
        let clear = finding(jobs(0.05));
        assert!(
            clear.contains("a@b1@dp2 with 150/s, 1.50 times the rate of a@b1@dp1; no interval"),
            "{clear}"
        );
        assert!(finding(jobs(0.21)).contains("within noise: one other job"), "150 / 1.21 < 100 / 0.79");
        assert!(finding(jobs(0.4)).contains("within noise: 2 other jobs"));
        let alone = summary(r#""job": "b", "workload": "b", "samples_per_s": 5.0"#);
        assert_eq!(finding(vec![alone]), "");
    }

    #[test]
    fn plans_are_in_order_of_their_rates() {
        for figure in make(&record("20261123-epyc/plans"), &Colours::default()) {
            let Chart::Rows(rows) = &figure.chart else { panic!("rows") };
            let rate = |mark: &crate::chart::RowMark| match mark.quantity {
                MarkValue::Dot { value, ci: None } => value,
                ref other => panic!("one launch has no interval: {other:?}"),
            };
            let rates: Vec<f64> = rows.rows.iter().flat_map(|row| &row.marks).map(rate).collect();
            assert!(rates.is_sorted_by(|one, other| one >= other));
            assert!(figure.finding.contains("the order may be chance"), "{}", figure.finding);
        }
    }
}
