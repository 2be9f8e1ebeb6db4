//! Runs of `sched` on one trace in one setting: which policy has the least average JCT, and which others the intervals separate from it.

use std::collections::BTreeMap;

use statistics::{
    Interval, averages, holm,
    launches::{between_launches, ratio_paired},
    welch::{self, Launches},
};

use super::{
    setting::{RunsOfSetting, by_setting},
    some_of,
};
use crate::{
    phrases::counted,
    run::Run,
    scheduled::{done, not_well, trace},
    table::Unit,
};

/// The level of a verdict after the correction for the number of pairs of policies.
const LEVEL: f64 = 0.05;

/// The runs of a policy.
struct RunsOfPolicy<'a> {
    name: &'a str,
    /// For each run the completion times of the compared jobs, which are the same in all runs and in the same order.
    times: Vec<Vec<f64>>,
}

/// How the average of another policy compares with that of the best one.
struct Compared<'a> {
    other: &'a RunsOfPolicy<'a>,
    /// The average over that of the best policy, and the p-value corrected for the number of pairs of policies.
    ratio: Option<(Interval, f64)>,
}

impl RunsOfPolicy<'_> {
    fn averages(&self) -> Vec<f64> {
        self.times.iter().map(|times| times.iter().sum::<f64>() / times.len() as f64).collect()
    }

    /// Over several runs the geometric mean of their averages, as of launches.
    fn average(&self) -> f64 {
        let averages = self.averages();
        between_launches(&averages).map_or(averages[0], |interval| interval.estimate)
    }

    /// `lucid, 21.7 s over 2 runs`.
    fn phrase(&self) -> String {
        format!("{}, {} over {}", self.name, Unit::Ns.show(self.average()), counted(self.times.len(), "run"))
    }

    /// The completion time of each job, averaged over the runs.
    fn by_job(&self) -> Vec<f64> {
        let of_job = |job: usize| self.times.iter().map(|times| times[job]).sum::<f64>();
        (0..self.times[0].len()).map(|job| of_job(job) / self.times.len() as f64).collect()
    }
}

pub(super) fn answer(runs: &[&Run]) -> String {
    by_setting(runs).iter().map(of_setting).collect::<Vec<_>>().join(" ")
}

fn of_setting(of: &RunsOfSetting) -> String {
    let RunsOfSetting { name, runs, .. } = of;
    let times: Vec<BTreeMap<&str, f64>> = runs
        .iter()
        .map(|run| done(run).map(|(row, jct)| (row.name.as_str(), jct as f64)).collect())
        .collect();
    let jobs: Vec<&str> = trace(runs[0])
        .into_iter()
        .map(|(name, _)| name)
        .filter(|job| times.iter().all(|of_run| of_run.contains_key(job)))
        .collect();
    let left_out = left_out(runs, jobs.len());
    if jobs.is_empty() {
        return format!(
            "{name}: no job has a completion time in all runs; the best policy is unknown.{left_out}"
        );
    }
    let mut policies: Vec<RunsOfPolicy> = Vec::new();
    for (run, of_run) in runs.iter().zip(&times) {
        let times = jobs.iter().map(|job| of_run[job]).collect();
        let policy = run.policy().unwrap_or_default();
        match policies.iter_mut().find(|of| of.name == policy) {
            Some(of) => of.times.push(times),
            None => policies.push(RunsOfPolicy { name: policy, times: vec![times] }),
        }
    }
    policies.sort_by(|one, other| one.average().total_cmp(&other.average()));
    let counts: Vec<usize> = times.iter().map(BTreeMap::len).collect();
    let is_even = counts.iter().all(|count| *count == counts[0]);
    match &policies[..] {
        [] => String::new(),
        [only] => format!("{name}: {}. There is no other policy to compare with.{left_out}", only.phrase()),
        all if !is_even => {
            let phrases: Vec<String> = all.iter().map(RunsOfPolicy::phrase).collect();
            format!(
                "{name}: no policy is named best, because some runs lack more completion times than others.{left_out} \
                 The averages are: {}.",
                some_of(&phrases)
            )
        }
        [best, ..] => format!(
            "{name}: {}.{} {}{left_out}",
            best.phrase(),
            verdicts(&policies, of.is_measured),
            limits(&policies, of.is_measured)
        ),
    }
}

/// Why averages are over fewer jobs than the trace has; empty if they are over all.
fn left_out(runs: &[&Run], compared: usize) -> String {
    let all = trace(runs[0]).len();
    if compared == all {
        return String::new();
    }
    let reasons: Vec<String> = runs.iter().filter_map(|run| not_well(&run.name, run)).collect();
    format!(
        " Left out of all averages for want of a completion time in a run: {} of {} ({}).",
        all - compared,
        counted(all, "job"),
        some_of(&reasons)
    )
}

/// Which policies take longer than the best one, and which the intervals do not separate from it.
fn verdicts(policies: &[RunsOfPolicy], is_measured: bool) -> String {
    let (mut longer, mut open, mut sooner) = (Vec::new(), Vec::new(), Vec::new());
    for Compared { other, ratio } in compared(policies, is_measured) {
        let shown = ratio.map_or(" (no interval".into(), |(ratio, _)| {
            format!(" ({:.2} times, {:.2} to {:.2}", ratio.estimate, ratio.lo, ratio.hi)
        });
        match ratio {
            Some((ratio, p)) if ratio.lo > 1.0 && p < LEVEL => longer.push(format!("{}{shown})", other.name)),
            Some((ratio, _)) if ratio.lo > 1.0 => {
                open.push(format!("{}{shown}, not after the correction)", other.name));
            }
            _ => open.push(format!("{}{shown})", other.name)),
        }
        sooner.extend(most_jobs_sooner(&policies[0], other));
    }
    let longer = match longer.is_empty() {
        true => String::new(),
        false => format!(" Jobs take longer under {}: the whole interval is above 1.", some_of(&longer)),
    };
    let open = match open.is_empty() {
        true => String::new(),
        false => format!(" The intervals do not separate it from {}.", some_of(&open)),
    };
    let pairs = policies.len() * (policies.len() - 1) / 2;
    let correction = match pairs {
        1 => String::new(),
        _ => format!(" Verdicts are corrected for the {pairs} pairs of policies."),
    };
    format!("{longer}{open}{}{correction}", sooner.concat())
}

/// The best policy with each of the others. The best one is chosen by the same numbers, so that the correction is for all pairs.
fn compared<'a>(policies: &'a [RunsOfPolicy], is_measured: bool) -> Vec<Compared<'a>> {
    let mut ratios: Vec<Option<(Interval, f64)>> = Vec::new();
    for (number, one) in policies.iter().enumerate() {
        ratios.extend(policies[number + 1..].iter().map(|other| ratio(one, other, is_measured)));
    }
    let p_values: Vec<f64> = ratios.iter().flatten().map(|(_, p)| *p).collect();
    let mut corrected = holm::adjusted(&p_values).into_iter();
    for (_, p) in ratios.iter_mut().flatten() {
        *p = corrected.next().unwrap_or(1.0);
    }
    // The pairs of the first policy are the first ones.
    policies[1..].iter().zip(ratios).map(|(other, ratio)| Compared { other, ratio }).collect()
}

/// The average of the other policy over that of the first, with the p-value of a difference: between runs if both were repeated on
/// devices, and otherwise over the jobs of the trace. Simulations in one setting are no repeats.
fn ratio(one: &RunsOfPolicy, other: &RunsOfPolicy, is_measured: bool) -> Option<(Interval, f64)> {
    let repeats = Launches::measured(&one.averages()).zip(Launches::measured(&other.averages()));
    let between_runs = repeats.filter(|_| is_measured).and_then(|(one, other)| welch::ratio(&one, &other));
    let over_jobs = || averages::paired(&pairs(one, other)).map(|of| (of.ratio, of.p));
    between_runs.map(|of| (of.ratio, of.p)).or_else(over_jobs)
}

fn pairs(one: &RunsOfPolicy, other: &RunsOfPolicy) -> Vec<(f64, f64)> {
    one.by_job().into_iter().zip(other.by_job()).collect()
}

/// A sentence on a policy with a higher average whose jobs, one by one, end sooner than under the best policy.
fn most_jobs_sooner(best: &RunsOfPolicy, other: &RunsOfPolicy) -> Option<String> {
    let pairs = pairs(best, other);
    let ratio = ratio_paired(&pairs).filter(|ratio| ratio.hi < 1.0)?;
    let sooner = pairs.iter().filter(|(best, other)| other < best).count();
    Some(format!(
        " {sooner} of {} end sooner under {}, though its average is higher: by the geometric mean a job takes {:.2} times as long \
         ({:.2} to {:.2}).",
        counted(pairs.len(), "job"),
        other.name,
        ratio.estimate,
        ratio.lo,
        ratio.hi
    ))
}

/// What the intervals are over.
fn limits(policies: &[RunsOfPolicy], is_measured: bool) -> &'static str {
    let are_repeated = policies.iter().all(|of| of.times.len() > 1);
    match (is_measured, are_repeated) {
        (true, true) => "Intervals are between repeats.",
        (true, false) => {
            "Intervals are over the jobs of the trace where a policy has one run, which says nothing of how far repeats differ."
        }
        (false, _) => {
            "Intervals are over the jobs of the trace, which says nothing of other traces or seeds."
        }
    }
}
