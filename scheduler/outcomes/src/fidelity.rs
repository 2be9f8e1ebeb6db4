//! Compares a run with its prediction, job by job.

use std::collections::HashMap;

use anyhow::{Context as _, ensure};
use formats::rows::{
    Arose, DecisionDifference, Fairness, Fidelity, FirstSteps, Hindsight, Intervals, JobErrors, JobFidelity,
    MachineSpeed, Outcome, Prediction, Range, Times, Utilisation,
};
use record::rows::Status;
use statistics::{median, median_in_place, quantile_of_sorted};

use crate::{
    fairness::{rho, summary},
    totals::{average, busy_ns, makespan_ns, utilisation_percent},
};

/// Computes the errors of a prediction. Jobs are matched by name. `devices` holds the number of devices of each side, the
/// predicted one first; without it, the utilisation of a side is not known.
///
/// # Errors
/// Fails if a job is on one side alone, as with different traces, and if no job ended well on both sides.
pub fn compare(
    predicted: &[Prediction],
    measured: &[Outcome],
    devices: [Option<u32>; 2],
) -> anyhow::Result<Fidelity> {
    let mut of_name: HashMap<&str, &Prediction> =
        predicted.iter().map(|row| (row.name.as_str(), row)).collect();
    let mut pairs = Vec::new();
    let mut left_out = Vec::new();
    let mut ended_by_policy = 0;
    for row in measured {
        let prediction = of_name.remove(row.name.as_str());
        let prediction = prediction.with_context(|| only_on("measured", &row.name))?;
        match Pair::of(prediction, row) {
            Some(pair) => pairs.push(pair),
            None if [prediction.status, row.status] == [Status::EndedByPolicy; 2] => ended_by_policy += 1,
            None => left_out.push(row.name.clone()),
        }
    }
    if let Some(name) = of_name.keys().min() {
        anyhow::bail!(only_on("predicted", name));
    }
    ensure!(!pairs.is_empty(), "no job ended well on both sides; there is nothing to compare");
    let utilisation = utilisation(predicted, measured, devices);
    Ok(Fidelity { utilisation, ended_by_policy, ..fidelity(&pairs, left_out) })
}

fn utilisation(predicted: &[Prediction], measured: &[Outcome], devices: [Option<u32>; 2]) -> Utilisation {
    let first = measured.iter().map(|row| row.submit_ns).min();
    let last = predicted.iter().filter(|row| row.status.is_as_meant()).filter_map(|row| row.end_ns).max();
    let makespan = last.zip(first).and_then(|(last, first)| last.checked_sub(first));
    let busy = predicted.iter().map(|row| busy_ns(row.busy_share_ns, row.device_time_ns, row.packed_ns));
    let there = makespan.zip(devices[0]);
    let predicted_percent =
        there.and_then(|(makespan, devices)| utilisation_percent(busy, makespan, devices));
    let busy = measured.iter().map(|row| busy_ns(row.busy_share_ns, row.device_time_ns, row.packed_ns));
    let there = makespan_ns(measured).zip(devices[1]);
    let measured_percent = there.and_then(|(makespan, devices)| utilisation_percent(busy, makespan, devices));
    let error_percent =
        predicted_percent.zip(measured_percent).map(|(predicted, measured)| percent(predicted, measured));
    Utilisation { predicted_percent, measured_percent, error_percent }
}

/// Splits the error of a prediction into the part of its times and the part of the simulation itself. `hindsight` compares the same
/// jobs with a simulation that had the measured times.
pub fn split_by_hindsight(
    prediction: &Fidelity,
    hindsight: &Fidelity,
    speed: Vec<MachineSpeed>,
    first_difference: Option<DecisionDifference>,
) -> Hindsight {
    let predicted = |of: &Fidelity| of.average_jct.predicted_ns;
    Hindsight {
        average_jct: hindsight.average_jct,
        makespan: hindsight.makespan,
        job_jct: hindsight.job_jct,
        drift_ns: difference(predicted(prediction), predicted(hindsight)),
        simulation_ns: difference(predicted(hindsight), hindsight.average_jct.measured_ns),
        speed,
        first_difference,
    }
}

/// The limits for the errors of a prediction, in percent. They depend on the difference between two runs of the same trace.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bars {
    pub average_jct_percent: f64,
    pub makespan_percent: f64,
    pub job_median_percent: f64,
    pub job_p90_percent: f64,
}

impl Bars {
    /// The limits that follow from the comparison of two runs. A prediction is not expected to be better than a repetition: each
    /// limit is at least 1.5 times the difference between the runs.
    pub fn of(again: &Fidelity) -> Bars {
        let bar = |least: f64, between_runs: f64| least.max(1.5 * between_runs.abs());
        Bars {
            average_jct_percent: bar(5.0, again.average_jct.error_percent),
            makespan_percent: bar(5.0, again.makespan.error_percent),
            job_median_percent: bar(7.0, again.job_jct.median_percent),
            job_p90_percent: bar(20.0, again.job_jct.p90_percent),
        }
    }

    /// Whether the errors of a prediction are within the limits.
    pub fn hold(&self, of: &Fidelity) -> bool {
        of.average_jct.error_percent.abs() <= self.average_jct_percent
            && of.makespan.error_percent.abs() <= self.makespan_percent
            && of.job_jct.median_percent <= self.job_median_percent
            && of.job_jct.p90_percent <= self.job_p90_percent
    }
}

fn only_on(side: &str, name: &str) -> String {
    format!("job '{name}' was only {side}; compare runs of one trace")
}

/// The predicted or measured times of a job that ended well, in nanoseconds.
#[derive(Clone, Copy)]
struct Side {
    jct: u64,
    end: u64,
    queued: u64,
    switching: u64,
    /// The part of `switching` in which the job started, if it is known.
    starting: Option<u64>,
    running: u64,
    paused: u64,
    packed: u64,
    /// The finish-time fairness, if it is known.
    rho: Option<f64>,
    /// From arrival until it had done 100 steps, if that is known.
    first_100: Option<u64>,
    /// The number of starts and pauses. A pause and its resumption count as one.
    switches: u32,
    starts: u32,
}

/// The two parts of an error of the time of switches.
#[derive(Clone, Copy)]
struct Switches {
    /// The time of the switches that only one side has, at the mean time of a switch on this side: an error of the order.
    of_order_ns: i64,
    of_cost_ns: i64,
}

impl Switches {
    /// Splits the difference between two times of switches. Both pairs have the predicted side first; the
    /// second has the numbers of switches.
    fn compare([predicted_ns, measured_ns]: [u64; 2], [predicted, measured]: [u32; 2]) -> Switches {
        let more = i64::from(predicted) - i64::from(measured);
        let (ns, count) = if more > 0 { (predicted_ns, predicted) } else { (measured_ns, measured) };
        let of_order_ns = (ns.checked_div(count.into()).unwrap_or(0) as i64).saturating_mul(more);
        Switches {
            of_order_ns,
            of_cost_ns: difference(predicted_ns, measured_ns).saturating_sub(of_order_ns),
        }
    }
}

struct Pair<'a> {
    name: &'a str,
    submit: u64,
    /// The predicted completion time over draws.
    drawn: Option<Range>,
    predicted: Side,
    measured: Side,
}

impl<'a> Pair<'a> {
    fn of(predicted: &Prediction, measured: &'a Outcome) -> Option<Pair<'a>> {
        Some(Pair {
            name: &measured.name,
            submit: measured.submit_ns,
            drawn: predicted.range(),
            predicted: side(predicted)?,
            measured: side(&Prediction::from(measured))?,
        })
    }

    fn arose(&self) -> Arose {
        let (predicted, measured) = (&self.predicted, &self.measured);
        let running = difference(predicted.running, measured.running);
        let is_packed = predicted.packed > 0 || measured.packed > 0;
        let (step_time_ns, interference_ns) = if is_packed { (0, running) } else { (running, 0) };
        let starting = predicted.starting.zip(measured.starting);
        let starts = starting.map(|(of_predicted, of_measured)| {
            Switches::compare([of_predicted, of_measured], [predicted.starts, measured.starts])
        });
        let (of_predicted, of_measured) = starting.unwrap_or_default();
        let others = Switches::compare(
            [
                predicted.switching.saturating_sub(of_predicted),
                measured.switching.saturating_sub(of_measured),
            ],
            [predicted.switches, measured.switches],
        );
        let of_order = others.of_order_ns.saturating_add(starts.map_or(0, |starts| starts.of_order_ns));
        let waiting = difference(predicted.queued, measured.queued)
            .saturating_add(difference(predicted.paused, measured.paused));
        Arose {
            step_time_ns,
            interference_ns,
            start_up_ns: starts.map(|starts| starts.of_cost_ns),
            switch_cost_ns: others.of_cost_ns,
            order_ns: of_order.saturating_add(waiting),
        }
    }
}

fn side(row: &Prediction) -> Option<Side> {
    if row.status != Status::Ok {
        return None;
    }
    Some(Side {
        jct: row.jct_ns?,
        end: row.end_ns?,
        queued: row.queued_ns?,
        switching: row.switching_ns?,
        starting: row.starting_ns,
        running: row.running_ns?,
        paused: row.paused_ns?,
        packed: row.packed_ns?,
        rho: rho(row.jct_ns, row.fair_ns),
        first_100: row.first_100_ns,
        switches: row.starts + row.pauses,
        starts: row.starts,
    })
}

fn difference(predicted: u64, measured: u64) -> i64 {
    predicted as i64 - measured as i64
}

/// Summarises the pairs, of which there must be at least one.
fn fidelity(pairs: &[Pair], left_out: Vec<String>) -> Fidelity {
    let sorted = |side: fn(&Pair) -> u64| {
        let mut values: Vec<u64> = pairs.iter().map(side).collect();
        values.sort_unstable();
        values
    };
    let (predicted, measured) = (sorted(|pair| pair.predicted.jct), sorted(|pair| pair.measured.jct));
    let error = |pair: &Pair| percent(pair.predicted.jct as f64, pair.measured.jct as f64).abs();
    let mut errors: Vec<f64> = pairs.iter().map(error).collect();
    errors.sort_by(f64::total_cmp);
    let per_job: Vec<JobFidelity> = pairs
        .iter()
        .map(|pair| JobFidelity {
            name: pair.name.to_owned(),
            jct: times(pair.predicted.jct, pair.measured.jct),
            drawn: pair.drawn,
            arose: pair.arose(),
        })
        .collect();
    let mean = |part: fn(&Arose) -> i64| {
        let all: i128 = per_job.iter().map(|job| i128::from(part(&job.arose))).sum();
        (all as f64 / per_job.len() as f64).round() as i64
    };
    let first = pairs.iter().map(|pair| pair.submit).min().unwrap_or(0);
    let last = |side: fn(&Pair) -> u64| pairs.iter().map(side).max().unwrap_or(first).saturating_sub(first);
    let makespan = times(last(|pair| pair.predicted.end), last(|pair| pair.measured.end));
    Fidelity {
        jobs: pairs.len() as u32,
        left_out,
        ended_by_policy: 0,
        average_jct: times(average(&predicted), average(&measured)),
        p99_jct: times(quantile_of_sorted(&predicted, 0.99), quantile_of_sorted(&measured, 0.99)),
        makespan,
        utilisation: Utilisation::default(),
        fairness: fairness(pairs),
        first_100: first_100(pairs),
        job_jct: JobErrors {
            p90_percent: quantile_of_sorted(&errors, 0.9),
            max_percent: quantile_of_sorted(&errors, 1.0),
            median_percent: median_in_place(&mut errors),
        },
        arose: Arose {
            step_time_ns: mean(|arose| arose.step_time_ns),
            interference_ns: mean(|arose| arose.interference_ns),
            start_up_ns: per_job
                .iter()
                .all(|job| job.arose.start_up_ns.is_some())
                .then(|| mean(|arose| arose.start_up_ns.unwrap_or_default())),
            switch_cost_ns: mean(|arose| arose.switch_cost_ns),
            order_ns: mean(|arose| arose.order_ns),
        },
        intervals: intervals(&per_job),
        hindsight: None,
        per_job,
    }
}

/// The finish-time fairness on both sides, over the jobs for which both are known.
fn fairness(pairs: &[Pair]) -> Option<Fairness> {
    let known: Vec<(f64, f64)> =
        pairs.iter().filter_map(|pair| pair.predicted.rho.zip(pair.measured.rho)).collect();
    Some(Fairness {
        predicted: summary(known.iter().map(|(predicted, _)| *predicted))?,
        measured: summary(known.iter().map(|(_, measured)| *measured))?,
    })
}

/// The times of first steps over the pairs that have both. `None` if none has.
fn first_100(pairs: &[Pair]) -> Option<FirstSteps> {
    let both = |pair: &Pair| pair.predicted.first_100.zip(pair.measured.first_100);
    let (predicted, measured): (Vec<u64>, Vec<u64>) = pairs.iter().filter_map(both).unzip();
    let middle = |values: &[u64]| median(values).map(|ns| ns.round() as u64);
    Some(FirstSteps {
        median: times(middle(&predicted)?, middle(&measured)?),
        average: times(average(&predicted), average(&measured)),
    })
}

/// The number of jobs whose measured completion time is inside its interval. `None` if no job has one.
fn intervals(per_job: &[JobFidelity]) -> Option<Intervals> {
    let ranges = per_job.iter().filter_map(|job| Some((job.drawn?, job.jct.measured_ns)));
    let inside: Vec<bool> = ranges.map(|(range, measured)| range.contains(measured)).collect();
    let jobs_inside = inside.iter().filter(|is_inside| **is_inside).count() as u32;
    (!inside.is_empty()).then_some(Intervals { jobs: inside.len() as u32, jobs_inside, drawn: None })
}

fn times(predicted_ns: u64, measured_ns: u64) -> Times {
    Times { predicted_ns, measured_ns, error_percent: percent(predicted_ns as f64, measured_ns as f64) }
}

fn percent(predicted: f64, measured: f64) -> f64 {
    // Two zeros are equal, but their ratio is not a number.
    if predicted == measured { 0.0 } else { (predicted / measured - 1.0) * 100.0 }
}

#[cfg(test)]
mod tests;
