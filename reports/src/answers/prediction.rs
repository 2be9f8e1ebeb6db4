//! One run of `sched`: how far its prediction was off, and where the error arose.

use outcomes::totals::average;

use super::counted;
use crate::{
    figures::fidelity::comparison,
    run::Run,
    scheduled::{completion_times, not_well},
    table::Unit,
};

/// The answer of a run on devices.
pub(super) fn answer(run: &Run) -> String {
    let found = match comparison(run) {
        Some(Ok(found)) => found,
        Some(Err(why)) => return format!("The prediction and the run cannot be compared: {why}."),
        None => {
            return format!(
                "{} No prediction is on file, so that nothing is known of its error.",
                measured(run, "Measured")
            );
        }
    };
    let average = found.average_jct;
    let percent = average.error_percent;
    let error = match percent {
        0.0 => "without an error".into(),
        _ => format!("{:.1} % too {}", percent.abs(), if percent > 0.0 { "long" } else { "short" }),
    };
    let parts = found.arose.parts().into_iter().filter_map(|(name, ns)| Some((name, ns?)));
    let largest = parts.max_by_key(|(_, ns)| ns.unsigned_abs()).filter(|(_, ns)| *ns != 0);
    let largest = largest.map(|(name, ns)| {
        format!(" The largest part of the error is {name}, {}.", Unit::SignedNs.show(ns as f64))
    });
    let drawn = found.intervals.and_then(|of| of.drawn).map(|drawn| drawn.jct_ns_mean);
    let certainty = match drawn {
        Some(range) if range.contains(average.measured_ns) => {
            format!("The measured average is inside the 95 % interval of the prediction, {range}.")
        }
        Some(range) => {
            format!("The measured average is outside the 95 % interval of the prediction, {range}.")
        }
        None => "The prediction has no interval, so that the error cannot be told from noise.".into(),
    };
    format!(
        "The average JCT of {} was predicted as {} and measured as {}: {error}.{} {certainty}",
        counted(found.jobs as usize, "job"),
        Unit::Ns.show(average.predicted_ns as f64),
        Unit::Ns.show(average.measured_ns as f64),
        largest.unwrap_or_default(),
    )
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
