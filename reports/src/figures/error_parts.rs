//! Where the error of a prediction arose, in parts that add up to the error of the average completion time.

use formats::rows::Fidelity;

use crate::{
    chart::{Axis, Chart, MarkValue, RowMark, RowOf, Rows},
    colours::{Colour, Colours},
    figure::Figure,
    figures::fidelity::compared,
    run::Run,
    scheduled::place,
    table::Unit,
};

pub(super) fn make(run: &Run, _: &Colours) -> Vec<Figure> {
    let title = "Where the error of the prediction arose";
    compared(run, |found| {
        let caption = format!(
            "Parts of the error of the average completion time of {} jobs on {}; positive if the prediction is too long. They add up to \
             the error. Step time is the running time of jobs that were never packed, interference that of jobs that were packed, \
             start-up the time of the starts that both sides have, switch cost that of their other switches, and order all waiting. One run is compared, so that the parts \
             have no interval.",
            found.jobs,
            place(run)
        );
        Figure { finding: finding(found), ..Figure::new(title, caption, Chart::Rows(rows(found))) }
    })
}

/// The parts that are known.
fn known(found: &Fidelity) -> Vec<(&'static str, i64)> {
    found.arose.parts().into_iter().filter_map(|(name, ns)| Some((name, ns?))).collect()
}

fn rows(found: &Fidelity) -> Rows {
    let row = |(n, (name, ns)): (usize, (&str, i64))| RowOf {
        name: name.into(),
        marks: vec![RowMark {
            part: String::new(),
            colour: Colours::nth(n),
            quantity: MarkValue::Dot { value: ns as f64, ci: None },
            doubt: String::new(),
        }],
        note: String::new(),
    };
    let mut rows: Vec<RowOf> = known(found).into_iter().enumerate().map(row).collect();
    let average = found.average_jct;
    let mut all =
        row((0, ("error of the average JCT", average.predicted_ns as i64 - average.measured_ns as i64)));
    all.marks.iter_mut().for_each(|mark| mark.colour = Colour::Ink);
    rows.push(all);
    let value = Axis::new("part of the error of the average JCT", "error_ns", Unit::SignedNs);
    Rows { value, column: "part".into(), rows, rule: Some((0.0, "no error".into())) }
}

fn finding(found: &Fidelity) -> String {
    let parts = known(found);
    let largest = parts.iter().max_by_key(|(_, ns)| ns.unsigned_abs());
    let average = found.average_jct.measured_ns as f64;
    largest.filter(|(_, ns)| *ns != 0 && average > 0.0).map_or(String::new(), |(name, ns)| {
        let percent = *ns as f64 / average * 100.0;
        format!(
            "largest part of the error: {name}, {} ({percent:+.1} % of the average JCT)",
            Unit::SignedNs.show(*ns as f64)
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::activity::tests::recorded;

    #[test]
    fn parts_add_up_to_the_error() {
        for run in recorded() {
            let [figure] = &make(&run, &Colours::default())[..] else { panic!("one figure") };
            let Chart::Rows(rows) = &figure.chart else { panic!("rows") };
            let value = |row: &RowOf| match row.marks[0].quantity {
                MarkValue::Dot { value, .. } => value,
                _ => panic!("a dot"),
            };
            let (whole, parts) = rows.rows.split_last().expect("the error is the last row");
            let sum: f64 = parts.iter().map(value).sum();
            // Each part is rounded, and so are both averages.
            assert!((sum - value(whole)).abs() <= 5.0, "{sum} is not {}", value(whole));
        }
    }
}
