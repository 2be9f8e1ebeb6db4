//! The part of the peak arithmetic of its devices that each job alone uses for its model: model FLOPs utilisation (Chowdhery et al., "PaLM",
//! 2022, appendix B).

use super::per_launch::PerLaunch;
use crate::{chart::Axis, colours::Colours, figure::Figure, run::Run, table::Unit};

const UNKNOWN: &str = "the FLOPs of its model or the peak of its device are not known";

pub(super) fn make(run: &Run, colours: &Colours) -> Vec<Figure> {
    let mfu = PerLaunch {
        title: "Use of the peak arithmetic",
        unknown: UNKNOWN,
        of_launch: |row| row.mfu_percent.filter(|mfu| *mfu > 0.0),
        of_job: |row| row.mfu_percent,
        ending: |row| row.mfu_arithmetic.map(|arithmetic| format!(", {arithmetic}")).unwrap_or_default(),
        axis: |_| Axis::new("part of the peak arithmetic", "mfu_percent", Unit::Percent),
        caption: |devices| {
            format!(
                "The FLOPs that the model of each job alone needs in a second on {devices}, over the peak of its devices in the arithmetic \
                 that the name ends with: the geometric mean over launches. Work that is done twice, as under gc, counts once."
            )
        },
    };
    mfu.figures(run, colours)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::alone::tests::{measurement, record, run_of, summary};
    use crate::chart::{Chart, MarkValue};

    #[test]
    fn a_job_has_the_geometric_mean_of_its_launches_and_its_arithmetic() {
        let launch = |mfu: &str| measurement(&format!(r#""mfu_percent": {mfu}"#));
        let mut run = run_of(vec![
            summary(r#""mfu_percent": 6.0, "mfu_arithmetic": "tf32""#),
            summary(r#""job": "b@b1@dp1", "workload": "b""#),
        ]);
        run.measurements = vec![launch("4.0"), launch("9.0"), launch("null")];
        let [figure] = &make(&run, &Colours::default())[..] else { panic!("one") };
        let Chart::Rows(rows) = &figure.chart else { panic!("rows") };
        let MarkValue::Dot { value, ci: Some((lo, hi)) } = rows.rows[0].marks[0].quantity else {
            panic!("a dot")
        };
        assert!((value - 6.0).abs() < 1e-9 && (lo * hi - 36.0).abs() < 1e-6 && lo < 4.0);
        assert!(rows.rows[0].name.ends_with(", tf32"), "{}", rows.rows[0].name);
        assert_eq!(figure.missing, [format!("b@b1@dp1: {UNKNOWN}")]);
    }

    #[test]
    fn devices_without_a_known_peak_have_no_figure() {
        assert_eq!(make(&record("20261121-epyc"), &Colours::default()), []);
    }
}
