//! Totals of runs of `sched` beside each other, and how long jobs took over the first of them.

use std::collections::HashMap;

use formats::rows::Totals;
use outcomes::{draws::totals_of_draws, totals::totals};
use statistics::{Interval, launches::ratio_paired};

use crate::{
    chart::Chart,
    colours::Colours,
    figure::Figure,
    figures::utilisation::percent_of,
    run::Run,
    scheduled::{RunOfTrace, done, left_out, not_well, places, sides, trace},
    table::{Cell, Table, Unit},
};

const COLUMNS: &[(&str, &str)] = &[
    ("run", "run"),
    ("policy", "policy"),
    ("jobs", "jobs"),
    ("jct_ns_mean", "average JCT"),
    ("jct_ns_median", "median JCT"),
    ("jct_ns_p99", "p99 JCT"),
    ("makespan_ns", "makespan"),
    ("util_percent", "utilisation"),
    ("queued_ns_mean", "waiting"),
    ("switching_ns_mean", "switching"),
    ("preemptions", "preemptions"),
    ("rho_mean", "mean rho"),
    ("unfair_percent", "unfair"),
    ("failed", "failed"),
    ("jct_ratio", "JCT of a job over the first run"),
    ("jct_ratio_ci_lo", "from"),
    ("jct_ratio_ci_hi", "to"),
    ("drawn_jct_ns_mean_ci_lo", "average JCT over draws, from"),
    ("drawn_jct_ns_mean_ci_hi", "to"),
];

pub(super) fn make(runs: &[Run], colours: &Colours) -> Vec<Figure> {
    let (sides, going_on): (Vec<RunOfTrace>, Vec<RunOfTrace>) =
        sides(runs, colours).into_iter().partition(|side| !side.run.outcomes.is_empty());
    let Some(first) = sides.first() else { return Vec::new() };
    let totals: Vec<Totals> = sides.iter().map(totals_of).collect();
    let mut table = Table::new(COLUMNS);
    for (n, (side, totals)) in sides.iter().zip(&totals).enumerate() {
        let ratio = if n == 0 { None } else { ratio(first.run, side.run) };
        table.push(row(side, totals, ratio));
    }
    let mut missing = left_out(&sides);
    missing.extend(going_on.iter().filter_map(|side| not_well(&side.name, side.run)));
    let caption = format!(
        "Totals of each run over the jobs that ended well, on {}. If there are several runs, the ratio is that of the completion times \
         of each job over those in {}, by the geometric mean, with the 95 % interval over the jobs of one trace: it says how much the difference varies from \
         job to job, and not how much it would vary between repeats of the runs. The interval over draws is that of the prediction, \
         if it was made with draws.",
        places(&sides),
        first.name
    );
    vec![Figure {
        missing,
        doubts: lacking(&sides, &totals),
        ..Figure::new("Policies", caption, Chart::Table(table))
    }]
}

fn totals_of(side: &RunOfTrace) -> Totals {
    let devices = side.run.device_names().len();
    let totals = totals(side.run.policy().unwrap_or_default(), &side.run.outcomes, devices as u32);
    // Rows of older runs lack the part of packed jobs in the busy time, which the journal has.
    let of_journal = || percent_of(side.run.activity()?, totals.makespan_ns?, devices);
    let lacking = side.run.manifest.scheduling.as_ref().map(|of| of.lacking.clone()).unwrap_or_default();
    Totals { util_percent: totals.util_percent.or_else(of_journal), lacking, ..totals }
}

/// What each run lacks for its policy.
fn lacking(sides: &[RunOfTrace], totals: &[Totals]) -> Vec<String> {
    let of_side = |(side, totals): (&RunOfTrace, &Totals)| {
        let name = side.name.clone();
        totals.lacking.clone().into_iter().map(move |what| format!("{name}: {what}"))
    };
    sides.iter().zip(totals).flat_map(of_side).collect()
}

fn row(side: &RunOfTrace, totals: &Totals, ratio: Option<Interval>) -> Vec<Cell> {
    let ns = |value| Cell::whole(Unit::Ns, value);
    let count = |value: u32| Cell::whole(Unit::Count, Some(value.into()));
    let of_ratio = |value: fn(Interval) -> f64| Cell::number(Unit::Ratio, ratio.map(value));
    let drawn = totals_of_draws(&side.run.draws).map(|drawn| drawn.jct_ns_mean);
    vec![
        Cell::text(&side.name),
        Cell::text(&totals.policy),
        count(totals.jobs),
        ns(totals.jct_ns_mean),
        ns(totals.jct_ns_median),
        ns(totals.jct_ns_p99),
        ns(totals.makespan_ns),
        Cell::number(Unit::Percent, totals.util_percent),
        ns(totals.queued_ns_mean),
        ns(totals.switching_ns_mean),
        Cell::whole(Unit::Count, totals.preemptions),
        Cell::number(Unit::Ratio, totals.fairness.map(|fairness| fairness.rho_mean)),
        Cell::number(Unit::Percent, totals.fairness.map(|fairness| fairness.unfair_percent)),
        count(totals.failed),
        of_ratio(|ratio| ratio.estimate),
        of_ratio(|ratio| ratio.lo),
        of_ratio(|ratio| ratio.hi),
        ns(drawn.map(|drawn| drawn.ci_lo_ns)),
        ns(drawn.map(|drawn| drawn.ci_hi_ns)),
    ]
}

/// The ratio of the completion times in `run` to those in `first`, over the jobs that ended well in both. `None` for other traces.
pub(super) fn ratio(first: &Run, run: &Run) -> Option<Interval> {
    if trace(first) != trace(run) {
        return None;
    }
    let before: HashMap<&str, u64> = done(first).map(|(row, jct)| (row.name.as_str(), jct)).collect();
    let pair = |(row, jct): (&formats::rows::Outcome, u64)| {
        Some((*before.get(row.name.as_str())? as f64, jct as f64))
    };
    ratio_paired(&done(run).filter_map(pair).collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::activity::tests::recorded;

    fn number(table: &Table, row: usize, column: &str) -> Option<f64> {
        let place = table.columns.iter().position(|of| of.name == column).expect("it is a column");
        match &table.rows[row][place] {
            Cell::Number { value, .. } => Some(*value),
            _ => None,
        }
    }

    #[test]
    fn rows_have_the_totals_and_the_geometric_mean_of_ratios() {
        let runs: Vec<Run> = recorded().into_iter().skip(12).collect();
        let [figure] = &make(&runs, &Colours::default())[..] else { panic!("one figure") };
        let Chart::Table(table) = &figure.chart else { panic!("a table") };
        assert_eq!((number(table, 0, "jct_ratio"), table.rows.len()), (None, 3));
        let ratios: Vec<f64> = runs[2]
            .outcomes
            .iter()
            .zip(&runs[0].outcomes)
            .map(|(row, first)| row.jct_ns.expect("it ended") as f64 / first.jct_ns.expect("it ended") as f64)
            .collect();
        let mean = (ratios.iter().map(|ratio| ratio.ln()).sum::<f64>() / ratios.len() as f64).exp();
        assert!((number(table, 2, "jct_ratio").expect("a ratio") - mean).abs() < 1e-9);
        let jct: u64 = runs[1].outcomes.iter().filter_map(|row| row.jct_ns).sum();
        assert_eq!(number(table, 1, "jct_ns_mean"), Some((jct / 14) as f64));
        assert!(figure.missing.is_empty(), "{:?}", figure.missing);
    }

    #[test]
    fn other_traces_are_not_compared() {
        let runs: Vec<Run> = recorded().into_iter().skip(6).collect();
        let [figure] = &make(&runs, &Colours::default())[..] else { panic!("one figure") };
        assert_eq!(figure.missing.iter().filter(|why| why.contains("cannot be compared")).count(), 3);
        let Chart::Table(table) = &figure.chart else { panic!("a table") };
        // The utilisation of runs with packed jobs and without their parts follows from the journal.
        assert!((0..table.rows.len()).all(|row| number(table, row, "util_percent").is_some()));
    }
}
