//! What figures of runs of `sched` share: which runs they compare, what these are called, and the times of their jobs.

use std::collections::{BTreeMap, BTreeSet};

use formats::rows::Outcome;
use record::rows::Status;
use statistics::{median, quantile_of_sorted};

use crate::{
    chart::{Axis, Point, Series},
    colours::{Colour, Colours},
    run::{Run, RunKind},
    table::Unit,
};

/// A run of `sched` among others.
pub struct RunOfTrace<'a> {
    pub run: &'a Run,
    /// The policy, whether the run is simulated, and the name of the run if several runs have this policy.
    pub name: String,
    /// The colour of the policy. Runs of one policy differ in colour if no other policy is there.
    pub colour: Colour,
}

/// The runs of `sched` in a report, simulated or real. A run that goes on has no outcomes yet.
pub fn sides<'a>(runs: &'a [Run], colours: &Colours) -> Vec<RunOfTrace<'a>> {
    let found: Vec<(&Run, &str)> =
        runs.iter().filter(|run| is_scheduled(run)).filter_map(|run| Some((run, run.policy()?))).collect();
    let mut counts = BTreeMap::<(&str, RunKind), usize>::new();
    found.iter().for_each(|(run, policy)| *counts.entry((policy, run.kind())).or_default() += 1);
    let policies: BTreeSet<&str> = found.iter().map(|(_, policy)| *policy).collect();
    let side = |(n, (run, policy)): (usize, &(&'a Run, &str))| RunOfTrace {
        run,
        name: {
            let world = if run.kind() == RunKind::Simulated { ", simulated" } else { "" };
            match counts.get(&(*policy, run.kind())) {
                Some(1) => format!("{policy}{world}"),
                _ => format!("{policy}{world} ({})", run.name),
            }
        },
        colour: if policies.len() == 1 && found.len() > 1 { Colours::nth(n) } else { colours.of(policy) },
    };
    found.iter().enumerate().map(side).collect()
}

pub fn is_scheduled(run: &Run) -> bool {
    matches!(run.kind(), RunKind::Scheduled | RunKind::Simulated)
}

/// The jobs of a run that ended well, each with its completion time.
pub fn done(run: &Run) -> impl Iterator<Item = (&Outcome, u64)> {
    let ok = run.outcomes.iter().filter(|row| row.status == Status::Ok);
    ok.filter_map(|row| Some((row, row.jct_ns?)))
}

/// The completion times of the jobs that ended well, sorted.
pub fn completion_times(run: &Run) -> Vec<u64> {
    let mut times: Vec<u64> = done(run).map(|(_, jct)| jct).collect();
    times.sort_unstable();
    times
}

/// What is to be said of runs beside each other: jobs without a completion time, and runs of other traces.
pub fn left_out(sides: &[RunOfTrace]) -> Vec<String> {
    let not_well = sides.iter().filter_map(|side| not_well(&side.name, side.run));
    not_well.chain(other_traces(sides)).collect()
}

/// A sentence on the jobs of a run that have no completion time, if there are any.
pub fn not_well(name: &str, run: &Run) -> Option<String> {
    if run.outcomes.is_empty() {
        return Some(format!("{name}: it has no outcomes yet"));
    }
    let count = |status| run.outcomes.iter().filter(|row| row.status == status).count();
    let parts = [
        (Status::Failed, "failed or had not ended"),
        (Status::Unsupported, "were not admitted"),
        (Status::EndedByPolicy, "were ended by the policy"),
    ];
    let parts: Vec<String> = parts
        .into_iter()
        .filter_map(|(status, what)| Some(count(status)).filter(|n| *n > 0).map(|n| format!("{n} {what}")))
        .collect();
    (!parts.is_empty()).then(|| {
        format!("{name}: of {} jobs, {}; they have no completion time", run.outcomes.len(), parts.join(", "))
    })
}

/// The jobs of the trace of a run, by their names and their arrivals: traces of other seeds have jobs of the same names.
pub fn trace(run: &Run) -> BTreeSet<(&str, u64)> {
    run.outcomes.iter().map(|row| (row.name.as_str(), row.submit_ns)).collect()
}

/// Sentences on runs of another trace than the first one, which cannot be compared with it.
pub fn other_traces(sides: &[RunOfTrace]) -> Vec<String> {
    let Some(first) = sides.iter().find(|side| !side.run.outcomes.is_empty()) else { return Vec::new() };
    let jobs = trace(first.run);
    let others = sides.iter().filter(|side| !side.run.outcomes.is_empty() && trace(side.run) != jobs);
    let sentence = |side: &RunOfTrace| {
        format!("{} has another trace than {}: the two cannot be compared", side.name, first.name)
    };
    others.map(sentence).collect()
}

/// An axis of times in nanoseconds, which is logarithmic if they differ by more than a factor of a hundred.
pub fn time_axis(label: &str, column: &str, times: impl Iterator<Item = f64>) -> Axis {
    let (least, most) = times.fold((f64::INFINITY, 0.0f64), |(least, most), t| (least.min(t), most.max(t)));
    let axis = Axis::new(label, column, Unit::Ns);
    if least > 0.0 && most > 100.0 * least { axis.log() } else { axis }
}

/// The points of a cumulative distribution in percent: at each value, the part of all values up to it.
pub fn cdf(sorted: &[u64]) -> Vec<Point> {
    let Some(first) = sorted.first() else { return Vec::new() };
    let percent = |count: usize| count as f64 / sorted.len() as f64 * 100.0;
    let mut points = vec![Point::at(*first as f64, 0.0)];
    let mut count = 0;
    for same in sorted.chunk_by(|a, b| a == b) {
        count += same.len();
        points.extend(same.first().map(|value| Point::at(*value as f64, percent(count))));
    }
    points
}

/// The five numbers of a box over sorted values: least, quartile, median, quartile, largest.
pub fn five(sorted: &[u64]) -> Option<[f64; 5]> {
    let median = median(sorted)?;
    let at = |part| quantile_of_sorted(sorted, part) as f64;
    Some([at(0.0), at(0.25), median, at(0.75), at(1.0)])
}

/// A sentence on points that were left out, after a space; empty if all are drawn.
pub fn points_drawn<'a>(series: impl IntoIterator<Item = &'a Series>) -> String {
    let counts = series.into_iter().map(|of| (of.points.len(), of.decimated_from.unwrap_or(of.points.len())));
    let (drawn, all) = counts.fold((0, 0), |sum, count| (sum.0 + count.0, sum.1 + count.1));
    if drawn == all {
        return String::new();
    }
    format!(" {drawn} of {all} points are drawn: of each stretch the first, the least and the largest.")
}

/// Where a run took place, in a sentence.
pub fn place(run: &Run) -> String {
    let simulated = run.manifest.scheduling.as_ref().and_then(|of| of.simulated.as_ref());
    match simulated {
        Some(simulated) if simulated.nodes.is_empty() => format!("a simulation of {}", run.devices()),
        _ => run.devices(),
    }
}

/// Where all these runs took place, each place once.
pub fn places(sides: &[RunOfTrace]) -> String {
    let places: BTreeSet<String> = sides.iter().map(|side| place(side.run)).collect();
    places.into_iter().collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_distribution_reaches_all_of_its_values() {
        let points: Vec<_> = cdf(&[2, 2, 5, 9]).iter().map(|point| (point.x, point.y)).collect();
        assert_eq!(points, [(2.0, 0.0), (2.0, 50.0), (5.0, 75.0), (9.0, 100.0)]);
        assert_eq!(cdf(&[]), []);
        assert_eq!(five(&[1, 2, 3, 4, 10]), Some([1.0, 2.0, 3.0, 4.0, 10.0]));
        assert_eq!(five(&[1, 2]), Some([1.0, 1.0, 1.5, 2.0, 2.0]));
        assert_eq!(five(&[]), None);
    }
}
