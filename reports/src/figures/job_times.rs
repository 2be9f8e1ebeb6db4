//! How jobs spent their time on average: queued, switching, running and paused.

use formats::rows::Outcome;
use outcomes::totals::average;

use crate::{
    chart::{Axis, Chart, MarkValue, RowMark, RowOf, Rows},
    colours::Colours,
    figure::Figure,
    run::Run,
    scheduled::{done, left_out, places, sides},
    table::Unit,
};

/// The name of a part, and its column.
type PartOfTime = (&'static str, fn(&Outcome) -> Option<u64>);

const PARTS: [PartOfTime; 4] = [
    ("queued", |row| row.queued_ns),
    ("switching", |row| row.switching_ns),
    ("running", |row| row.running_ns),
    ("paused", |row| row.paused_ns),
];

pub(super) fn make(runs: &[Run], colours: &Colours) -> Vec<Figure> {
    let sides = sides(runs, colours);
    let rows: Vec<RowOf> =
        sides.iter().map(|side| RowOf { name: side.name.clone(), ..row(side.run) }).collect();
    if rows.iter().all(|row| row.marks.is_empty()) {
        return Vec::new();
    }
    let value = Axis::new("mean time of a job", "ns_mean", Unit::Ns);
    let chart = Chart::Rows(Rows { value, column: "run".into(), rows, rule: None });
    let caption = format!(
        "Mean time that jobs that ended well were queued, switching, running and paused, on {}. The four add up to the average \
         completion time. Each bar is of one run and has no interval.",
        places(&sides)
    );
    let missing = left_out(&sides);
    vec![Figure { missing, ..Figure::new("Where jobs spend their time", caption, chart) }]
}

fn row(run: &Run) -> RowOf {
    let mark = |(n, (part, of)): (usize, &PartOfTime)| {
        let times: Vec<u64> = done(run).filter_map(|(row, _)| of(row)).collect();
        (!times.is_empty()).then(|| RowMark {
            part: (*part).into(),
            colour: Colours::nth(n),
            quantity: MarkValue::Bar(average(&times) as f64),
            doubt: String::new(),
        })
    };
    let marks: Vec<RowMark> = PARTS.iter().enumerate().filter_map(mark).collect();
    let note = if marks.is_empty() { "no job ended well".into() } else { String::new() };
    RowOf { name: String::new(), marks, note }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::activity::tests::recorded;

    #[test]
    fn the_parts_of_a_bar_add_up_to_the_average_completion_time() {
        let runs = recorded();
        let [figure] = &make(&runs, &Colours::default())[..] else { panic!("one figure") };
        let Chart::Rows(rows) = &figure.chart else { panic!("rows") };
        for (row, run) in rows.rows.iter().zip(&runs) {
            let length = |mark: &RowMark| match mark.quantity {
                MarkValue::Bar(value) => value,
                _ => panic!("a bar"),
            };
            let mean = outcomes::totals::totals("", &run.outcomes, 2).jct_ns_mean.expect("jobs ended well");
            // Each part is rounded down.
            let sum: f64 = row.marks.iter().map(length).sum();
            assert!((0.0..=4.0).contains(&(mean as f64 - sum)), "{}", row.name);
        }
    }
}
