//! The energy that a sample of each job alone costs its device.

use record::rows::Measurement;

use super::per_launch::PerLaunch;
use crate::{alone, chart::Axis, colours::Colours, figure::Figure, run::Run, table::Unit};

const UNKNOWN: &str = "its device has no counter of energy, or its samples are not known";

pub(super) fn make(run: &Run, colours: &Colours) -> Vec<Figure> {
    let energy = PerLaunch {
        title: "Energy of a sample",
        unknown: UNKNOWN,
        of_launch,
        of_job: |_| None,
        ending: |_| String::new(),
        axis: |values| {
            alone::scaled(Axis::new("energy of a sample", "energy_mj_per_sample", Unit::Millijoules), values)
        },
        caption: |devices| {
            format!(
                "The energy of the devices of each job alone on {devices}, for each sample in the steady window: the geometric mean over \
                 launches. It includes what the whole device uses when idle."
            )
        },
    };
    energy.figures(run, colours)
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
    use crate::chart::{Chart, MarkValue};

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
