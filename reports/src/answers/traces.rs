//! Runs of `sched` on one trace: which policy has the least average JCT, and from which others the intervals tell it. Measured runs and
//! simulated ones are never compared with each other.

use std::collections::BTreeMap;

use outcomes::totals::average;
use statistics::{
    Interval,
    launches::ratio_paired,
    welch::{self, Launches},
};

use super::{counted, some_of};
use crate::{
    run::{Run, RunKind},
    scheduled::{completion_times, done, not_well},
    table::Unit,
};

/// The runs of a policy that have completion times.
struct RunsOfPolicy<'a> {
    name: &'a str,
    runs: Vec<&'a Run>,
    /// The average JCT of each run.
    averages: Vec<f64>,
}

impl RunsOfPolicy<'_> {
    fn average(&self) -> f64 {
        self.averages.iter().sum::<f64>() / self.averages.len() as f64
    }

    /// `lucid, 21.7 s over 2 runs`.
    fn said(&self) -> String {
        format!("{}, {} over {}", self.name, Unit::Ns.show(self.average()), counted(self.runs.len(), "run"))
    }

    /// The completion time of each job that ended well, averaged over the runs.
    fn by_job(&self) -> BTreeMap<&str, f64> {
        let mut times: BTreeMap<&str, Vec<u64>> = BTreeMap::new();
        for (row, jct) in self.runs.iter().flat_map(|run| done(run)) {
            times.entry(&row.name).or_default().push(jct);
        }
        times.into_iter().map(|(name, all)| (name, average(&all) as f64)).collect()
    }
}

pub(super) fn answer(runs: &[&Run]) -> String {
    let worlds = [("Measured", RunKind::Scheduled), ("Simulated", RunKind::Simulated)];
    let in_world = |(world, kind): (&str, RunKind)| {
        let of_kind: Vec<&Run> = runs.iter().filter(|run| run.kind() == kind).copied().collect();
        (!of_kind.is_empty()).then(|| of_world(world, &of_kind))
    };
    worlds.into_iter().filter_map(in_world).collect::<Vec<_>>().join(" ")
}

fn of_world(world: &str, runs: &[&Run]) -> String {
    let mut policies: Vec<RunsOfPolicy> = Vec::new();
    for run in runs {
        let (Some(name), times) = (run.policy(), completion_times(run)) else { continue };
        if times.is_empty() {
            continue;
        }
        let average = average(&times) as f64;
        match policies.iter_mut().find(|of| of.name == name) {
            Some(of) => {
                of.runs.push(run);
                of.averages.push(average);
            }
            None => policies.push(RunsOfPolicy { name, runs: vec![run], averages: vec![average] }),
        }
    }
    policies.sort_by(|one, other| one.average().total_cmp(&other.average()));
    let lost = runs.iter().filter(|run| not_well(&run.name, run).is_some()).count();
    let lost = match lost {
        0 => String::new(),
        lost => format!(" In {}, jobs lack a completion time and are left out.", counted(lost, "run")),
    };
    match &policies[..] {
        [] => format!("{world}: no job has a completion time yet, so that no policy is known to be best."),
        [only] => format!("{world}: {}. There is no other policy to compare with.{lost}", only.said()),
        [best, others @ ..] => {
            format!("{world}: {}.{} {}{lost}", best.said(), judged(best, others), limits(&policies))
        }
    }
}

/// From which of the others the intervals tell the best.
fn judged(best: &RunsOfPolicy, others: &[RunsOfPolicy]) -> String {
    let (mut told, mut not_told) = (Vec::new(), Vec::new());
    for other in others {
        let ratio = ratio(best, other);
        let shown = ratio.map_or(String::new(), |ratio| {
            format!(" ({:.2} times, {:.2} to {:.2})", ratio.estimate, ratio.lo, ratio.hi)
        });
        let is_told = ratio.is_some_and(|ratio| ratio.lo > 1.0);
        if is_told { &mut told } else { &mut not_told }.push(format!("{}{shown}", other.name));
    }
    let told = match told.is_empty() {
        true => String::new(),
        false => format!(" By the whole interval, jobs take longer under {}.", some_of(&told)),
    };
    let not_told = match not_told.is_empty() {
        true => String::new(),
        false => format!(" It cannot be told from {}.", some_of(&not_told)),
    };
    format!("{told}{not_told}")
}

/// How many times as long jobs take under the other policy: between runs if both were repeated, and otherwise over the jobs of the trace.
fn ratio(best: &RunsOfPolicy, other: &RunsOfPolicy) -> Option<Interval> {
    let between = |(one, two): (Launches, Launches)| Some(welch::ratio(&one, &two)?.ratio);
    let repeated = Launches::measured(&best.averages).zip(Launches::measured(&other.averages));
    repeated.and_then(between).or_else(|| {
        let times = other.by_job();
        let pairs = best.by_job().into_iter().filter_map(|(name, jct)| Some((jct, *times.get(name)?)));
        ratio_paired(&pairs.collect::<Vec<_>>())
    })
}

/// What the intervals are over.
fn limits(policies: &[RunsOfPolicy]) -> &'static str {
    if policies.iter().all(|of| of.runs.len() > 1) {
        "Intervals are between repeats."
    } else {
        "Intervals are over the jobs of the trace where a policy has one run, which says nothing of how far repeats differ."
    }
}
