//! A fitted model: how far its predictions may be off, and which measured plan is the fastest.

use super::some_of;
use crate::{
    figures::model_rows::{label, numbers},
    fitted::{FittedModel, over_all},
    phrases::counted,
    table::Unit,
};

pub(super) fn answer(model: &FittedModel) -> String {
    let mut errors: Vec<(f64, String)> = Vec::new();
    let mut unknown = 0;
    for workload in &model.file.workloads {
        let Some(over_all) = over_all(workload) else {
            unknown += 1;
            continue;
        };
        let inside = over_all
            .covered_percent
            .map_or(String::new(), |percent| format!(", {percent:.0} % inside their 95 % intervals"));
        let differ = workload.launches_differ.map_or(String::new(), |differ| {
            format!(", while launches differ by {:.1} %", differ.mean_percent)
        });
        errors.push((
            over_all.mean_percent,
            format!(
                "{} by {:.1} % on average and {:.1} % at most over {}{inside}{differ}",
                workload.workload,
                over_all.mean_percent,
                over_all.max_percent,
                counted(over_all.rows as usize, "row")
            ),
        ));
    }
    errors.sort_by(|one, other| other.0.total_cmp(&one.0));
    let phrases: Vec<String> = errors.into_iter().map(|(_, phrase)| phrase).collect();
    let errors = match phrases.is_empty() {
        true => {
            return format!(
                "No error over all rows that were left out of a fit is on file, so the errors are unknown.{}",
                fastest(model)
            );
        }
        false => {
            format!("On rows that were left out of the fit, predictions are off for {}.", some_of(&phrases))
        }
    };
    let unknown = match unknown {
        0 => String::new(),
        _ => format!(" For {}, no error is known.", counted(unknown, "workload")),
    };
    format!("{errors}{unknown}{}", fastest(model))
}

/// The fastest measured plan of each workload.
fn fastest(model: &FittedModel) -> String {
    let of_workload = |workload| {
        let workload: &formats::fitted::FittedWorkload = workload;
        let rows = workload.rows.iter().filter(|row| !row.doubtful);
        let best = rows.max_by(|one, other| numbers(one).1.total_cmp(&numbers(other).1))?;
        let (devices, rate) = numbers(best);
        Some(format!(
            "{} with {} samples/s on {}",
            label(workload, best),
            Unit::PerS.show(rate).trim_end_matches("/s"),
            counted(devices as usize, "device")
        ))
    };
    let phrases: Vec<String> = model.file.workloads.iter().filter_map(of_workload).collect();
    match phrases.is_empty() {
        true => String::new(),
        false => format!(" Fastest measured plans, without intervals: {}.", some_of(&phrases)),
    }
}
