//! The energy that a sample of each job alone costs its device.

use record::rows::{Measurement, Summary};
use statistics::launches::between_launches;

use crate::{
    alone::{self, JobsOfFigure, Names},
    chart::{Axis, Chart, MarkValue, Rows},
    colours::Colours,
    figure::Figure,
    run::Run,
    table::Unit,
};

const UNKNOWN: &str = "its device has no counter of energy, or its samples are not known";

pub(super) fn make(run: &Run, colours: &Colours) -> Vec<Figure> {
    alone::parts(run).into_iter().filter_map(|part| figure(run, colours, part)).collect()
}

fn figure(run: &Run, colours: &Colours, mut part: JobsOfFigure) -> Option<Figure> {
    let value = |row: &Summary| match quantity(run, row)? {
        MarkValue::Dot { value, .. } => Some(value),
        _ => None,
    };
    part.sort(value);
    let values: Vec<f64> = part.rows.iter().filter_map(|row| value(row)).collect();
    values.first()?;
    let axis =
        alone::scaled(Axis::new("energy of a sample", "energy_mj_per_sample", Unit::Millijoules), values);
    let names = Names::of(run);
    let row = |row: &&Summary| {
        let dot = quantity(run, row).ok_or_else(|| alone::why_absent(row, UNKNOWN));
        alone::dot_row(names.name(&row.job, &row.device), row, colours, dot)
    };
    let rows =
        Rows { value: axis, column: "job".into(), rows: part.rows.iter().map(row).collect(), rule: None };
    let caption = format!(
        "The energy of the devices of each job alone on {}, for each sample in the steady window: the \
         geometric mean over launches. It is that of the whole device, with what it uses when idle. {}",
        run.devices(),
        part.intervals(),
    );
    let is_drawn = |row: &Summary| value(row).is_some();
    Some(Figure {
        doubts: part.doubts(is_drawn),
        missing: part.missing(is_drawn, UNKNOWN),
        part: part.name,
        ..Figure::new("Energy of a sample", caption, Chart::Rows(rows))
    })
}

fn quantity(run: &Run, row: &Summary) -> Option<MarkValue> {
    let of_launches: Vec<f64> = alone::launches(run, row).into_iter().filter_map(of_launch).collect();
    match &of_launches[..] {
        [only] => Some(MarkValue::Dot { value: *only, ci: None }),
        several => between_launches(several).map(|interval| MarkValue::Dot {
            value: interval.estimate,
            ci: Some((interval.lo, interval.hi)),
        }),
    }
}

/// Millijoules for each sample of the window.
fn of_launch(row: &Measurement) -> Option<f64> {
    let samples = row.samples_per_s? * row.window_ns? as f64 / 1e9;
    let energy = row.energy_mj? as f64 / samples;
    (energy.is_finite() && energy > 0.0).then_some(energy)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::alone::tests::{measurement, record, run_of, summary};

    #[test]
    fn energy_is_divided_by_the_samples_of_the_window() {
        let launch = |energy| {
            measurement(&format!(r#""energy_mj": {energy}, "samples_per_s": 50.0, "window_ns": 2000000000"#))
        };
        let mut run = run_of(vec![summary(""), summary(r#""job": "b@b1@dp1", "workload": "b""#)]);
        run.measurements = vec![launch("400"), launch("900"), launch("null")];
        let [figure] = &make(&run, &Colours::default())[..] else { panic!("one") };
        let Chart::Rows(rows) = &figure.chart else { panic!("rows") };
        let MarkValue::Dot { value, ci: Some((lo, hi)) } = rows.rows[0].marks[0].quantity else {
            panic!("a dot")
        };
        // The geometric mean of 4 and 9 mJ, with an interval that is symmetric on the logarithm.
        assert!((value - 6.0).abs() < 1e-9 && (lo * hi - 36.0).abs() < 1e-6 && lo < 4.0);
        assert_eq!(figure.missing, [format!("b@b1@dp1: {UNKNOWN}")]);
    }

    #[test]
    fn devices_without_a_counter_have_no_figure() {
        assert_eq!(make(&record("20261121-epyc"), &Colours::default()), []);
    }
}
