//! Jobs alone: which is fastest, how well the times are known, and whether they may be quoted.

use record::rows::{Status, Summary};
use schema::units::Nanos;

use super::{counted, quotable, some_of};
use crate::{
    alone::{Names, is_stressor, step_interval, throughput},
    doubt,
    run::Run,
    table::Unit,
};

/// A job with the number by which jobs are ordered, the smallest first, and its interval.
struct Ranked<'a> {
    row: &'a Summary,
    value: f64,
    ci: Option<(f64, f64)>,
}

pub(super) fn answer(run: &Run) -> Option<String> {
    let rows: Vec<&Summary> = run.summaries.iter().filter(|row| row.group.is_none()).collect();
    if rows.is_empty() {
        return None;
    }
    let names = Names::of(run);
    Some([fastest(&rows, &names), certainty(&rows, &names), quotable(run)].join(" "))
}

/// The fastest plan of each workload, or among jobs of different workloads the one with the shortest step.
fn fastest(rows: &[&Summary], names: &Names) -> String {
    let timed: Vec<&Summary> =
        rows.iter().filter(|row| row.status == Status::Ok && !is_stressor(&row.workload)).copied().collect();
    let mut by_workload: Vec<(&str, Vec<Ranked>)> = Vec::new();
    for row in &timed {
        // The smallest time of a sample is the largest rate.
        let Some((rate, ci)) = throughput(row) else { continue };
        let ranked = Ranked { row, value: 1.0 / rate, ci: ci.map(|(lo, hi)| (1.0 / hi, 1.0 / lo)) };
        match by_workload.iter_mut().find(|(workload, _)| *workload == row.workload) {
            Some((_, all)) => all.push(ranked),
            None => by_workload.push((&row.workload, vec![ranked])),
        }
    }
    let with_choice: Vec<_> = by_workload.into_iter().filter(|(_, all)| all.len() > 1).collect();
    if with_choice.is_empty() {
        return shortest(&timed, names);
    }
    let of_workload = |(workload, all): &(&str, Vec<Ranked>)| {
        let (best, judgement) = best(all)?;
        let rate = Unit::PerS.show(1.0 / best.value);
        Some(format!("of {workload}: {}, {rate} samples{judgement}", name(best.row, names)))
    };
    let said: Vec<String> = with_choice.iter().filter_map(of_workload).collect();
    format!("Fastest {}.", some_of(&said))
}

/// The job with the shortest median step, or the only one.
fn shortest(rows: &[&Summary], names: &Names) -> String {
    let ranked = |row: &&'_ Summary| row.step_ns_median.map(|ns| (ns as f64, step_interval(row)));
    let ranked: Vec<Ranked> =
        rows.iter().filter_map(|row| ranked(row).map(|(value, ci)| Ranked { row, value, ci })).collect();
    let Some((best, judgement)) = best(&ranked) else {
        return "No job has a step time, so that none is known to be fastest.".into();
    };
    let time = Nanos(best.value as u64);
    match ranked.len() {
        1 => format!("A step of {} takes {time}{}.", name(best.row, names), interval(best)),
        _ => format!("Shortest step: {}, {time}{judgement}.", name(best.row, names)),
    }
}

fn interval(of: &Ranked) -> String {
    of.ci.map_or(", without an interval".into(), |(lo, hi)| {
        format!(" (95 % interval {} to {})", Nanos(lo as u64), Nanos(hi as u64))
    })
}

/// The first of the jobs, and from how many others the intervals tell it.
fn best<'r, 'a>(all: &'r [Ranked<'a>]) -> Option<(&'r Ranked<'a>, String)> {
    let best = all.iter().min_by(|one, other| one.value.total_cmp(&other.value))?;
    let others = all.len() - 1;
    let told = |other: &&Ranked| other.ci.zip(best.ci).is_some_and(|((lo, _), (_, hi))| lo > hi);
    let judgement = match (best.ci, all.iter().filter(told).count()) {
        _ if others == 0 => String::new(),
        (None, _) => " (without an interval, so that the order may be chance)".into(),
        (Some(_), told) if told == others => {
            format!(", which its whole interval tells from {}", counted(others, "other"))
        }
        (Some(_), told) => {
            format!(", which cannot be told from {} of {}", others - told, counted(others, "other"))
        }
    };
    Some((best, judgement))
}

fn name(row: &Summary, names: &Names) -> String {
    let doubt = doubt::of_job(row);
    let name = names.name(&row.job, &row.device);
    if doubt.is_empty() { name } else { format!("{name} (doubtful: {doubt})") }
}

/// How many jobs have numbers, and how wide their intervals are.
fn certainty(rows: &[&Summary], names: &Names) -> String {
    let with_numbers: Vec<&&Summary> = rows.iter().filter(|row| row.status == Status::Ok).collect();
    let mut widths: Vec<(f64, &Summary)> =
        with_numbers.iter().filter_map(|row| Some((row.half_width_percent?, **row))).collect();
    widths.sort_by(|one, other| one.0.total_cmp(&other.0));
    let without = with_numbers.len() - widths.len();
    let without = match (without, widths.len()) {
        (0, _) => String::new(),
        (_, 0) => ", none with an interval".into(),
        (without, _) => format!(", {without} without an interval"),
    };
    let widths = match &widths[..] {
        [] => String::new(),
        [(half, _)] => format!(", known to +-{half:.2} %"),
        [(least, _), .., (most, row)] => {
            format!(
                ", known to between +-{least:.2} % and +-{most:.2} % ({})",
                names.name(&row.job, &row.device)
            )
        }
    };
    format!("Jobs with numbers: {} of {}{widths}{without}.", with_numbers.len(), rows.len())
}
