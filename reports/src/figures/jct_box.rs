//! The completion times of jobs as boxes, one for each run of `sched`, with their averages.

use outcomes::totals::average;

use crate::{
    chart::{Chart, MarkValue, RowMark, RowOf, Rows},
    colours::{Colour, Colours},
    figure::Figure,
    run::Run,
    scheduled::{completion_times, five, left_out, places, sides, time_axis},
};

pub(super) fn make(runs: &[Run], colours: &Colours) -> Vec<Figure> {
    let sides = sides(runs, colours);
    let times: Vec<Vec<u64>> = sides.iter().map(|side| completion_times(side.run)).collect();
    if times.iter().all(Vec::is_empty) {
        return Vec::new();
    }
    let rows = sides.iter().zip(&times).map(|(side, times)| {
        let mark = |part: &str, colour: Colour, quantity| RowMark {
            part: part.into(),
            colour,
            quantity,
            doubt: String::new(),
        };
        let marks = five(times).map_or(Vec::new(), |five| {
            let mean = MarkValue::Dot { value: average(times) as f64, ci: None };
            vec![mark("", side.colour, MarkValue::Box(five)), mark("average", Colour::Ink, mean)]
        });
        let note = if marks.is_empty() { "no job ended well" } else { "" };
        RowOf { name: side.name.clone(), marks, note: note.into() }
    });
    let value =
        time_axis("completion time of a job (JCT)", "jct_ns", times.iter().flatten().map(|ns| *ns as f64));
    let chart = Chart::Rows(Rows { value, column: "run".into(), rows: rows.collect(), rule: None });
    let caption = format!(
        "Completion times of the jobs that ended well, on {}. A box reaches from the lower to the upper quartile, with a line at the \
         median; the whiskers reach the extremes, and the dot is the average. These are spreads over the jobs of one run and no \
         intervals.",
        places(&sides)
    );
    let missing = left_out(&sides);
    vec![Figure { missing, ..Figure::new("Spread of completion times by policy", caption, chart) }]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::activity::tests::recorded;

    #[test]
    fn boxes_have_the_median_and_the_average_of_the_totals() {
        let runs = recorded();
        let [figure] = &make(&runs, &Colours::default())[..] else { panic!("one figure") };
        let Chart::Rows(rows) = &figure.chart else { panic!("rows") };
        for (row, run) in rows.rows.iter().zip(&runs) {
            let totals = outcomes::totals::totals("", &run.outcomes, 2);
            let [MarkValue::Box(five), MarkValue::Dot { value, .. }] =
                [row.marks[0].quantity, row.marks[1].quantity]
            else {
                panic!("a box and a dot")
            };
            assert_eq!(Some(five[2].round() as u64), totals.jct_ns_median);
            assert_eq!(Some(value as u64), totals.jct_ns_mean);
        }
    }
}
