//! The part of the peak arithmetic of its devices that each job alone uses for its model: model FLOPs utilisation (Chowdhery et al., "PaLM",
//! 2022, appendix B).

use record::rows::Summary;
use statistics::launches::between_launches;

use crate::{
    alone::{self, JobsOfFigure, Names},
    chart::{Axis, Chart, MarkValue, Rows},
    colours::Colours,
    figure::Figure,
    run::Run,
    table::Unit,
};

const UNKNOWN: &str = "the FLOPs of its model or the peak of its device are not known";

pub(super) fn make(run: &Run, colours: &Colours) -> Vec<Figure> {
    alone::parts(run).into_iter().filter_map(|part| figure(run, colours, part)).collect()
}

fn figure(run: &Run, colours: &Colours, mut part: JobsOfFigure) -> Option<Figure> {
    let value = |row: &Summary| match quantity(run, row)? {
        MarkValue::Dot { value, .. } => Some(value),
        _ => None,
    };
    part.sort(value);
    part.rows.iter().find_map(|row| value(row))?;
    let names = Names::of(run);
    let row = |row: &&Summary| {
        let dot = quantity(run, row).ok_or_else(|| alone::why_absent(row, UNKNOWN));
        let arithmetic = row.mfu_arithmetic.map(|arithmetic| format!(", {arithmetic}")).unwrap_or_default();
        alone::dot_row(format!("{}{arithmetic}", names.name(&row.job, &row.device)), row, colours, dot)
    };
    let rows = Rows {
        value: Axis::new("part of the peak arithmetic", "mfu_percent", Unit::Percent),
        column: "job".into(),
        rows: part.rows.iter().map(row).collect(),
        rule: None,
    };
    let caption = format!(
        "The FLOPs that the model of each job alone needs in a second on {}, over the peak of its devices in the arithmetic that the name \
         ends with: the geometric mean over launches. Work that is done twice, as under gc, counts once. {}",
        run.devices(),
        part.intervals(),
    );
    let is_drawn = |row: &Summary| value(row).is_some();
    Some(Figure {
        doubts: part.doubts(is_drawn),
        missing: part.missing(is_drawn, UNKNOWN),
        part: part.name,
        ..Figure::new("Use of the peak arithmetic", caption, Chart::Rows(rows))
    })
}

fn quantity(run: &Run, row: &Summary) -> Option<MarkValue> {
    let of_launches: Vec<f64> = alone::launches(run, row)
        .into_iter()
        .filter_map(|row| row.mfu_percent)
        .filter(|mfu| *mfu > 0.0)
        .collect();
    match &of_launches[..] {
        [] => row.mfu_percent.map(|value| MarkValue::Dot { value, ci: None }),
        [only] => Some(MarkValue::Dot { value: *only, ci: None }),
        several => between_launches(several).map(|interval| MarkValue::Dot {
            value: interval.estimate,
            ci: Some((interval.lo, interval.hi)),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::alone::tests::{measurement, record, run_of, summary};

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
