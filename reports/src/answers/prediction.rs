//! One run of `sched`: how far its prediction was off, and where the error arose.

use formats::rows::Fidelity;
use outcomes::totals::average;

use super::some_of;
use crate::{
    figures::fidelity::{comparison, doubts},
    phrases::counted,
    run::Run,
    scheduled::{completion_times, not_well},
    table::Unit,
};

/// The answer of a run on devices.
pub(super) fn answer(run: &Run) -> String {
    let fidelity = match comparison(run) {
        Some(Ok(fidelity)) => fidelity,
        Some(Err(why)) => return format!("The prediction and the run cannot be compared: {why}."),
        None => {
            return format!(
                "{} No prediction is on file, so its error is unknown.",
                measured(run, "Measured")
            );
        }
    };
    let average = fidelity.average_jct;
    let percent = average.error_percent;
    let error = match percent {
        0.0 => "without an error".into(),
        _ => format!("{:.1} % too {}", percent.abs(), if percent > 0.0 { "long" } else { "short" }),
    };
    let parts = fidelity.arose.parts().into_iter().filter_map(|(name, ns)| Some((name, ns?)));
    let largest = parts.max_by_key(|(_, ns)| ns.unsigned_abs()).filter(|(_, ns)| *ns != 0);
    let largest = largest.map(|(name, ns)| {
        format!(" The largest part of the error is {name}, {}.", Unit::SignedNs.show(ns as f64))
    });
    format!(
        "The average JCT of {} was predicted as {} and measured as {}: {error}.{} {}{}",
        counted(fidelity.jobs as usize, "job"),
        Unit::Ns.show(average.predicted_ns as f64),
        Unit::Ns.show(average.measured_ns as f64),
        largest.unwrap_or_default(),
        certainty(&fidelity),
        doubtful(run)
    )
}

/// Whether the error is larger than the prediction allows for. The interval is over draws of all jobs, so that there is no verdict on the
/// average of fewer.
fn certainty(fidelity: &Fidelity) -> String {
    let average = fidelity.average_jct;
    let drawn = fidelity.intervals.and_then(|of| of.drawn).map(|drawn| drawn.jct_ns_mean);
    match (drawn, fidelity.left_out.len()) {
        (None, _) => "The prediction has no interval, so the error may be noise.".into(),
        (Some(range), 0) => {
            let side = if range.contains(average.measured_ns) { "inside" } else { "outside" };
            format!("The measured average is {side} the 95 % interval of the prediction, {range}.")
        }
        (Some(range), count) => format!(
            "{} did not end well on both sides and {} left out ({}), while the 95 % interval of the prediction, {range}, is of all jobs: \
             there is no verdict.",
            counted(count, "job"),
            if count == 1 { "is" } else { "are" },
            some_of(&fidelity.left_out)
        ),
    }
}

/// What limits quoting the prediction; empty if nothing does.
fn doubtful(run: &Run) -> String {
    let doubts = doubts(run);
    if doubts.is_empty() { String::new() } else { format!(" Doubtful: {}.", some_of(&doubts)) }
}

/// The answer of a simulated run.
pub(super) fn simulated(run: &Run) -> String {
    format!("{} Nothing was measured.", measured(run, "Simulated"))
}

/// The average JCT of a run by itself.
fn measured(run: &Run, world: &str) -> String {
    let times = completion_times(run);
    let policy = run.policy().unwrap_or_default();
    if times.is_empty() {
        let why = not_well(&run.name, run).unwrap_or_else(|| "no job ended well".into());
        return format!("{world} under {policy}: no average JCT is known. {why}.");
    }
    let jobs = counted(times.len(), "job");
    format!("{world} under {policy}: the average JCT of {jobs} is {}.", Unit::Ns.show(average(&times) as f64))
}
