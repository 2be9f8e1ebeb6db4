//! The operators of a step that take the longest, for each job whose operators were recorded.

use record::rows::OperatorTime;

use crate::{
    chart::{Axis, Chart, MarkValue, RowMark, RowOf, Rows},
    colours::Colours,
    figure::Figure,
    run::Run,
    table::Unit,
};

/// The number of operators of each job that are drawn.
const DRAWN: usize = 10;

pub(super) fn make(run: &Run, _: &Colours) -> Vec<Figure> {
    let ranks = run.operators.chunk_by(|a, b| (&a.launch, a.rank) == (&b.launch, b.rank));
    ranks.filter(|rows| rows[0].rank == 0).map(figure).collect()
}

/// The figure of the first rank of a job. `rows` have the operator with the longest time first.
fn figure(rows: &[OperatorTime]) -> Figure {
    let first = &rows[0];
    let is_on_device = first.device_ns.is_some();
    let (place, column) =
        if is_on_device { ("the device", "device_ns_per_step") } else { ("the host", "host_ns_per_step") };
    let bars = rows.iter().take(DRAWN).map(bar).collect();
    let value = Axis::new("time in a step", column, Unit::Ns);
    let rest = match rows.len().saturating_sub(DRAWN) {
        0 => String::new(),
        others => format!(" {others} other operators are in operators.csv."),
    };
    let caption = format!(
        "The time of the operators of {} that take the longest on {place} in a step: the mean over {} steps of its first rank, which PyTorch's profiler \
         recorded in a launch of its own. The profiler makes steps longer, and no other figure has numbers of this launch. The time of an \
         operator is without that of operators that it calls.{rest}",
        first.job, first.steps,
    );
    let idle = if is_on_device { "the device was idle" } else { "no operator was in progress" };
    Figure {
        part: first.job.clone(),
        finding: format!(
            "{}: {} takes {:.1} % of the time of all operators, and {idle} in {:.1} % of the time.",
            first.job,
            first.operator,
            first.share_percent.unwrap_or_default(),
            first.idle_percent
        ),
        ..Figure::new(
            "Operators",
            caption,
            Chart::Rows(Rows { value, column: "operator".into(), rows: bars, rule: None }),
        )
    }
}

fn bar(row: &OperatorTime) -> RowOf {
    let ns = row.device_ns.unwrap_or(row.host_ns) as f64 / f64::from(row.steps);
    let mark = RowMark {
        part: String::new(),
        colour: Colours::nth(0),
        quantity: MarkValue::Bar(ns),
        doubt: String::new(),
    };
    RowOf { name: row.operator.clone(), marks: vec![mark], note: String::new() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::alone::tests::run_of;

    fn operator(operator: &str, rank: u32, host_ns: u64, device_ns: Option<u64>) -> OperatorTime {
        OperatorTime {
            launch: "0007-a".into(),
            job: "a@b1@dp2".into(),
            rank,
            steps: 4,
            idle_percent: 12.34,
            operator: operator.into(),
            calls: 8,
            host_ns,
            device_ns,
            share_percent: Some(60.04),
            ..OperatorTime::default()
        }
    }

    #[test]
    fn the_ten_longest_of_the_first_rank_are_bars_of_their_time_in_a_step() {
        let mut run = run_of(Vec::new());
        assert_eq!(make(&run, &Colours::default()), []);
        let names: Vec<String> = (0..12).map(|number| format!("aten::op{number}")).collect();
        let rank = |rank| names.iter().map(move |name| operator(name, rank, 400, None));
        run.operators = rank(0).chain(rank(1)).collect();
        run.operators[0] = operator("aten::mm", 0, 4_000, None);
        let [figure] = &make(&run, &Colours::default())[..] else { panic!("one job") };
        let Chart::Rows(rows) = &figure.chart else { panic!("rows") };
        let bars: Vec<(&str, MarkValue)> =
            rows.rows.iter().map(|row| (&*row.name, row.marks[0].quantity)).collect();
        assert_eq!(bars.len(), 10);
        assert_eq!(bars[0], ("aten::mm", MarkValue::Bar(1_000.0)));
        assert_eq!(bars[1], ("aten::op1", MarkValue::Bar(100.0)));
        assert!(figure.caption.ends_with("2 other operators are in operators.csv."), "{}", figure.caption);
        assert!(figure.finding.contains("aten::mm takes 60.0 % of the time of all operators"));
        assert!(figure.finding.contains("no operator was in progress in 12.3 % of the time"));

        run.operators = vec![operator("aten::mm", 0, 4_000, Some(8_000))];
        let [figure] = &make(&run, &Colours::default())[..] else { panic!("one job") };
        let Chart::Rows(rows) = &figure.chart else { panic!("rows") };
        assert_eq!(
            (&*rows.value.column, rows.rows[0].marks[0].quantity),
            ("device_ns_per_step", MarkValue::Bar(2_000.0))
        );
        assert!(figure.finding.contains("the device was idle"), "{}", figure.finding);
    }
}
