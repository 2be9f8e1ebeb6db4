//! Jobs alone: which is fastest, how well the times are known, and whether they may be quoted. Doubtful rows do not compete.

use record::rows::{Status, Summary};
use schema::units::Nanos;

use super::{quotable, some_of};
use crate::{
    alone::{Names, is_stressor, step_interval, throughput},
    doubt,
    phrases::counted,
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

/// The fastest of the jobs whose rows have no doubts: of those with steps, and of programs without.
fn fastest(rows: &[&Summary], names: &Names) -> String {
    let timed: Vec<&Summary> = rows
        .iter()
        .filter(|row| row.status == Status::Ok && !is_stressor(&row.workload))
        .filter(|row| row.step_ns_median.or(row.wall_ns).is_some())
        .copied()
        .collect();
    let clear: Vec<&Summary> = timed.iter().filter(|row| doubt::of_job(row).is_empty()).copied().collect();
    let doubtful = match timed.len() - clear.len() {
        0 => String::new(),
        count => format!("{} not compared.", counted(count, "doubtful job")),
    };
    let sentences = [
        fastest_plans(&clear, names).or_else(|| shortest_step(&clear, names)),
        shortest_duration(&clear, names),
    ];
    let sentences: Vec<String> = sentences.into_iter().flatten().collect();
    let sentences = match (sentences.is_empty(), timed.is_empty()) {
        (false, _) => sentences.join(" "),
        (true, true) => "No job has a step time: there is no fastest job to name.".into(),
        (true, false) => "No job has a time without doubts: there is no fastest job to name.".into(),
    };
    [sentences, doubtful].join(" ").trim_end().to_owned()
}

/// The fastest plan of each workload that has several.
fn fastest_plans(rows: &[&Summary], names: &Names) -> Option<String> {
    let mut by_workload: Vec<(&str, Vec<Ranked>)> = Vec::new();
    for row in rows {
        // The smallest time of a sample is the largest rate.
        let Some((rate, ci)) = throughput(row) else { continue };
        let ranked = Ranked { row, value: 1.0 / rate, ci: ci.map(|(lo, hi)| (1.0 / hi, 1.0 / lo)) };
        match by_workload.iter_mut().find(|(workload, _)| *workload == row.workload) {
            Some((_, all)) => all.push(ranked),
            None => by_workload.push((&row.workload, vec![ranked])),
        }
    }
    let phrase = |(workload, all): &(&str, Vec<Ranked>)| {
        let (best, judgement) = best(all)?;
        let rate = Unit::PerS.show(1.0 / best.value);
        let name = names.name(&best.row.job, &best.row.device);
        Some(format!("of {workload}: {name}, {rate} samples{judgement}"))
    };
    let phrases: Vec<String> =
        by_workload.iter().filter(|(_, all)| all.len() > 1).filter_map(phrase).collect();
    (!phrases.is_empty()).then(|| format!("Fastest {}.", some_of(&phrases)))
}

/// The job with the shortest median step, or the only one.
fn shortest_step(rows: &[&Summary], names: &Names) -> Option<String> {
    let ranked = |row: &&'_ Summary| row.step_ns_median.map(|ns| (ns as f64, step_interval(row)));
    let ranked: Vec<Ranked> =
        rows.iter().filter_map(|row| ranked(row).map(|(value, ci)| Ranked { row, value, ci })).collect();
    shortest(&ranked, names, ["Shortest step", "A step of"])
}

/// The program without steps that ends the soonest, or the only one.
fn shortest_duration(rows: &[&Summary], names: &Names) -> Option<String> {
    let programs = rows.iter().filter(|row| row.step_ns_median.is_none());
    let ranked = |row: &'_ Summary| {
        let ends = row.wall_ns_ci_lo.zip(row.wall_ns_ci_hi);
        Some((row.wall_ns? as f64, ends.map(|(lo, hi)| (lo as f64, hi as f64))))
    };
    let ranked: Vec<Ranked> =
        programs.filter_map(|row| ranked(row).map(|(value, ci)| Ranked { row, value, ci })).collect();
    shortest(&ranked, names, ["Shortest duration of programs without steps", "The program"])
}

/// A sentence on the first of several jobs, or on the only one.
fn shortest(ranked: &[Ranked], names: &Names, [of_several, of_one]: [&str; 2]) -> Option<String> {
    let (best, judgement) = best(ranked)?;
    let (name, time) = (names.name(&best.row.job, &best.row.device), Nanos(best.value as u64));
    Some(match ranked.len() {
        1 => format!("{of_one} {name} takes {time}{}.", interval(best)),
        _ => format!("{of_several}: {name}, {time}{judgement}."),
    })
}

fn interval(ranked: &Ranked) -> String {
    ranked.ci.map_or(", without an interval".into(), |(lo, hi)| {
        format!(" (95 % interval {} to {})", Nanos(lo as u64), Nanos(hi as u64))
    })
}

/// The first of the jobs, and whether its interval is below those of all others.
fn best<'r, 'a>(all: &'r [Ranked<'a>]) -> Option<(&'r Ranked<'a>, String)> {
    let best = all.iter().min_by(|one, other| one.value.total_cmp(&other.value))?;
    let others = all.len() - 1;
    let Some((_, hi)) = best.ci else {
        return Some((best, " (without an interval: the order may be chance)".into()));
    };
    let ends = all.iter().filter(|other| !std::ptr::eq(*other, best)).map(|other| other.ci);
    let without = ends.clone().filter(Option::is_none).count();
    let overlapping = ends.flatten().filter(|(lo, _)| *lo <= hi).count();
    let judgement = match (overlapping, without, others) {
        (_, _, 0) => String::new(),
        (0, 0, 1) => ", faster than the other: the intervals do not overlap".into(),
        (0, 0, _) => format!(", faster than all {others} others: the intervals do not overlap"),
        (1, 0, 1) => ", but the interval overlaps the interval of the other job".into(),
        (0, _, _) => format!(", but {without} of {} have no interval", counted(others, "other")),
        (_, 0, _) => format!(", but the interval overlaps the intervals of {overlapping} of {others} others"),
        _ => format!(
            ", but the interval overlaps the intervals of {overlapping} of {others} others, and {without} have none"
        ),
    };
    Some((best, judgement))
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
