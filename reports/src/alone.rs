//! The rows of jobs that were measured alone, in the order and with the names that figures show.

use std::{collections::BTreeSet, sync::LazyLock};

use record::rows::{Measurement, Status, Summary};
use schema::catalog::Catalog;

use crate::{
    chart::{Axis, MarkValue, RowMark, RowOf},
    colours::Colours,
    doubt,
    run::Run,
};

/// The number of rows in one figure. A run with more has a figure for each workload.
const MOST_ROWS: usize = 60;
/// Values that differ by more than this factor are shown on a logarithmic axis.
const LINEAR_UP_TO: f64 = 30.0;
/// The widest interval from few repeats that is drawn, in percent of the estimate, as in the tables of
/// `profile`.
const WIDEST_PERCENT: f64 = 100.0;
const FEW_REPEATS: u32 = 5;

/// Samples per second, and their interval.
pub type Rate = (f64, Option<(f64, f64)>);

/// A part of the jobs of a run, which becomes one figure.
pub struct JobsOfFigure<'a> {
    /// The workload, if each workload is a part; otherwise empty.
    pub name: String,
    /// Rows of one workload are next to each other.
    pub rows: Vec<&'a Summary>,
}

/// All jobs alone, by workload in order of first appearance, in parts that a figure can show.
pub fn parts(run: &Run) -> Vec<JobsOfFigure<'_>> {
    let rows = || run.summaries.iter().filter(|row| row.group.is_none());
    let mut workloads: Vec<&str> = Vec::new();
    for row in rows() {
        if !workloads.contains(&&*row.workload) {
            workloads.push(&row.workload);
        }
    }
    let of = |workload: &str| rows().filter(|row| row.workload == workload).collect::<Vec<_>>();
    let whole: Vec<&Summary> = workloads.iter().flat_map(|workload| of(workload)).collect();
    match whole.len() {
        0 => Vec::new(),
        1..=MOST_ROWS => vec![JobsOfFigure { name: String::new(), rows: whole }],
        _ => workloads.iter().map(|name| JobsOfFigure { name: (*name).into(), rows: of(name) }).collect(),
    }
}

impl<'a> JobsOfFigure<'a> {
    /// Sorts by a number within each workload. Rows without one come last.
    pub fn sort(&mut self, number: impl Fn(&Summary) -> Option<f64>) {
        for rows in self.rows.chunk_by_mut(|one, other| one.workload == other.workload) {
            let numbered = rows.iter().map(|row| (number(row).unwrap_or(f64::INFINITY), *row));
            let mut sorted: Vec<(f64, &Summary)> = numbered.collect();
            sorted.sort_by(|one, other| one.0.total_cmp(&other.0));
            rows.iter_mut().zip(sorted).for_each(|(place, (_, row))| *place = row);
        }
    }

    pub fn by_workload(&self) -> impl Iterator<Item = &[&'a Summary]> {
        self.rows.chunk_by(|one, other| one.workload == other.workload)
    }

    /// Warnings of the rows that are drawn.
    pub fn doubts(&self, is_drawn: impl Fn(&Summary) -> bool) -> Vec<String> {
        doubts(self.rows.iter().copied().filter(|row| is_drawn(row)))
    }

    /// The rows that are not drawn, each with the reason.
    pub fn missing(&self, is_drawn: impl Fn(&Summary) -> bool, otherwise: &str) -> Vec<String> {
        let absent = self.rows.iter().filter(|row| !is_drawn(row));
        absent.map(|row| format!("{}: {}", row.job, why_absent(row, otherwise))).collect()
    }

    /// How often the jobs were launched, and where their intervals come from.
    pub fn intervals(&self) -> String {
        let repeats = || self.rows.iter().map(|row| row.repeats).filter(|repeats| *repeats > 0);
        let (least, most) = (repeats().min().unwrap_or(0), repeats().max().unwrap_or(0));
        match (least, most) {
            (_, 0) => "No launch has numbers.".into(),
            (_, 1) => "Each job was launched once, so that there are no intervals.".into(),
            (least, most) if least == most => {
                format!("Each job was launched {most} times. Intervals are 95 %, between launches.")
            }
            (least, most) => format!(
                "Each job was launched {least} to {most} times. Intervals are 95 %, between launches; a job \
                 with one launch has none."
            ),
        }
    }
}

/// The rows of a figure with the names of their jobs.
pub struct Names {
    on_several: BTreeSet<String>,
}

impl Names {
    pub fn of(run: &Run) -> Names {
        let mut seen: Vec<(&str, &str)> = run.summaries.iter().map(|row| (&*row.job, &*row.device)).collect();
        seen.sort_unstable();
        seen.dedup();
        let twice = seen.windows(2).filter(|pair| pair[0].0 == pair[1].0);
        Names { on_several: twice.map(|pair| pair[0].0.to_owned()).collect() }
    }

    /// The name of a job, with its device if the run measured it on several.
    pub fn name(&self, job: &str, device: &str) -> String {
        if self.on_several.contains(job) { format!("{job} on {device}") } else { job.into() }
    }
}

/// The title of a plane whose points are plans of a workload at one batch: `gpt2-mini@b8 lr=0.1`.
pub fn title(workload: &str, batch: Option<u32>, vary: Option<&str>) -> String {
    let batch = batch.map_or(String::new(), |batch| format!("@b{batch}"));
    let vary = vary.map_or(String::new(), |values| format!(" {values}"));
    format!("{workload}{batch}{vary}")
}

/// The doubtful rows among these, each with the reason.
pub fn doubts<'a>(rows: impl IntoIterator<Item = &'a Summary>) -> Vec<String> {
    let doubts = rows.into_iter().map(|row| (row, doubt::of_job(row)));
    doubts
        .filter(|(_, doubt)| !doubt.is_empty())
        .map(|(row, doubt)| format!("{}: {doubt}", row.job))
        .collect()
}

/// Why a row has no value. `otherwise` is the reason if its job did not fail.
pub fn why_absent(row: &Summary, otherwise: &str) -> String {
    match (row.status, row.err) {
        (Status::Ok, _) => otherwise.into(),
        (status, Some(err)) if err.to_string() == status.to_string() => {
            format!("{status}: {}", row.err_detail.as_deref().unwrap_or("no reason is known"))
        }
        (status, err) => {
            let known = [err.map(|err| err.to_string()), row.err_detail.clone()];
            let reason: Vec<String> = known.into_iter().flatten().collect();
            format!(
                "{status}: {}",
                if reason.is_empty() { "no reason is known".into() } else { reason.join(": ") }
            )
        }
    }
}

/// The interval of the median step. One that is wider than the tables of `profile` show is left out.
pub fn step_interval(row: &Summary) -> Option<(f64, f64)> {
    let says_nothing =
        row.repeats < FEW_REPEATS && row.half_width_percent.is_some_and(|half| half > WIDEST_PERCENT);
    let ends = row.step_ns_median_ci_lo.zip(row.step_ns_median_ci_hi).filter(|_| !says_nothing)?;
    Some((ends.0 as f64, ends.1 as f64))
}

/// Samples per second, and an interval as wide as that of the median step: a launch that is slower by a
/// factor is so in both.
pub fn throughput(row: &Summary) -> Option<Rate> {
    let per_s = row.samples_per_s.filter(|rate| rate.is_finite() && row.status == Status::Ok)?;
    let median = row.step_ns_median.map(|ns| ns as f64);
    let of_step = median.zip(step_interval(row)).filter(|(_, (lo, _))| *lo > 0.0);
    Some((per_s, of_step.map(|(median, (lo, hi))| (per_s * median / hi, per_s * median / lo))))
}

/// Whether a workload is a stressor, whose samples are the share of its time that it works. None is fast.
pub fn is_stressor(workload: &str) -> bool {
    static CATALOG: LazyLock<Catalog> = LazyLock::new(Catalog::embedded);
    CATALOG.get(workload).is_some_and(|of| of.sets.iter().any(|set| set == "stress"))
}

/// A row of dots. A row without a value has a note instead.
pub fn dot_row(name: String, row: &Summary, colours: &Colours, dot: Result<MarkValue, String>) -> RowOf {
    match dot {
        Ok(quantity) => {
            let colour = colours.of(&row.workload);
            let mark = RowMark { part: String::new(), colour, quantity, doubt: doubt::of_job(row) };
            RowOf { name, marks: vec![mark], note: too_few(row) }
        }
        Err(note) => RowOf { name, marks: Vec::new(), note },
    }
}

fn too_few(row: &Summary) -> String {
    let has_hidden = row.step_ns_median_ci_lo.is_some() && step_interval(row).is_none();
    if has_hidden { "too few repeats for an interval".into() } else { String::new() }
}

/// The rows of a job on a device that have numbers.
pub fn launches<'a>(run: &'a Run, of: &Summary) -> Vec<&'a Measurement> {
    let is_of = |row: &&Measurement| {
        row.group.is_none() && row.status == Status::Ok && (&row.job, &row.device) == (&of.job, &of.device)
    };
    run.measurements.iter().filter(is_of).collect()
}

/// The axis for values that may differ by orders of magnitude.
pub fn scaled(axis: Axis, values: impl IntoIterator<Item = f64>) -> Axis {
    let ends =
        values.into_iter().fold((f64::INFINITY, 0.0_f64), |(lo, hi), value| (lo.min(value), hi.max(value)));
    if ends.0 > 0.0 && ends.1 / ends.0 > LINEAR_UP_TO { axis.log() } else { axis }
}

#[cfg(test)]
pub(crate) mod tests;
