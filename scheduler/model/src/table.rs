//! A model that knows what was measured, and nothing else.

use std::collections::{BTreeSet, HashMap};

use schema::{
    device::Device,
    manifest::{Cell, Manifest},
    plan::Plan,
    rows::{Interference, Status, Summary},
    sharing::Sharing,
};

use crate::{Prediction, Question, Subject, Throughput};

/// Step times out of `summary.csv`, of jobs alone, and `interference.csv`, of jobs together.
///
/// A question is answered by a row of just that job, batch, plan, number of devices, type of device, sharing mode and co-runners,
/// or not at all; several rows, of several runs or of devices of one type, answer together, so that no single hour decides. All rows
/// are of devices of one node. What a trace says of the step time of its own job is believed where no row
/// is of that job alone, wherever it is put.
#[derive(Clone, Debug, Default)]
pub struct Table {
    /// By workload, in the order in which runs were added.
    rows: HashMap<String, Vec<Row>>,
    device_types: BTreeSet<String>,
}

#[derive(Clone, Debug)]
struct Row {
    global_batch: Option<u32>,
    plan: Option<Plan>,
    devices: u32,
    device_type: String,
    /// Of each rank; absent where the run does not say.
    threads: Option<u32>,
    /// `None` of a job alone.
    beside: Option<Beside>,
    prediction: Prediction,
}

#[derive(Clone, Debug)]
struct Beside {
    co_runners: Vec<Member>,
    sharing: Sharing,
}

/// Workload, batch and plan of a member of a group.
type Member = (String, Option<u32>, Option<Plan>);

impl Table {
    /// Adds what a run measured.
    pub fn add(&mut self, manifest: &Manifest, summaries: &[Summary], interference: &[Interference]) {
        for summary in summaries.iter().filter(|row| row.group.is_none()) {
            let Some(prediction) = alone(summary) else { continue };
            let Some((devices, device_type)) = devices_of(manifest, &summary.device) else { continue };
            self.push(
                &summary.workload,
                Row {
                    global_batch: summary.global_batch,
                    plan: summary.plan,
                    devices,
                    device_type,
                    threads: Some(summary.threads),
                    beside: None,
                    prediction,
                },
            );
        }
        for row in interference {
            let Some(prediction) = together(row) else { continue };
            let Some((devices, device_type)) = devices_of(manifest, &row.device) else { continue };
            let Some(co_runners) = co_runners(manifest, row) else { continue };
            let is_of_row = |summary: &&Summary| {
                summary.group.as_ref() == Some(&row.group)
                    && summary.seat == Some(row.seat)
                    && summary.sharing == row.sharing
            };
            self.push(
                &row.workload,
                Row {
                    global_batch: row.global_batch,
                    plan: row.plan,
                    devices,
                    device_type,
                    threads: summaries.iter().find(is_of_row).map(|summary| summary.threads),
                    beside: Some(Beside { co_runners, sharing: row.sharing.clone() }),
                    prediction,
                },
            );
        }
    }

    /// Types of the devices that any row is of.
    pub fn device_types(&self) -> impl Iterator<Item = &str> {
        self.device_types.iter().map(String::as_str)
    }

    fn push(&mut self, workload: &str, row: Row) {
        self.device_types.insert(row.device_type.clone());
        self.rows.entry(workload.into()).or_default().push(row);
    }
}

impl Throughput for Table {
    fn predict(&self, question: &Question<'_>) -> Option<Prediction> {
        let of_workload = self.rows.get(question.job.workload).into_iter().flatten();
        let answers: Vec<&Row> = of_workload.filter(|row| row.answers(question)).collect();
        // Where any number of threads will do, those of the first row.
        let threads = answers.first().and_then(|first| first.threads);
        let alike = answers.iter().filter(|row| row.threads == threads);
        let measured = pooled(&alike.map(|row| row.prediction).collect::<Vec<_>>());
        let told = || question.job.step_ns.filter(|_| question.co_runners.is_empty());
        measured.or_else(|| told().map(|ns| Prediction { step_ns: ns as f64, step_ns_ci: None }))
    }
}

impl Row {
    fn answers(&self, question: &Question<'_>) -> bool {
        let job = &question.job;
        (self.global_batch, self.plan) == (job.global_batch, job.plan)
            && question.placement == [self.devices]
            && question.device_type == self.device_type
            && question.cpus.is_none_or(|cpus| self.threads.is_none_or(|threads| threads == u32::from(cpus)))
            && match &self.beside {
                None => question.co_runners.is_empty(),
                Some(beside) => beside.sharing == *question.sharing && beside.are(question.co_runners),
            }
    }
}

impl Beside {
    /// Whether these are the co-runners, in whatever order.
    fn are(&self, co_runners: &[Subject<'_>]) -> bool {
        let is = |member: &Member, subject: &Subject<'_>| {
            (member.0.as_str(), member.1, member.2) == (subject.workload, subject.global_batch, subject.plan)
        };
        let as_often = |subject: &Subject<'_>| {
            self.co_runners.iter().filter(|member| is(member, subject)).count()
                == co_runners.iter().filter(|other| same(other, subject)).count()
        };
        self.co_runners.len() == co_runners.len() && co_runners.iter().all(as_often)
    }
}

/// Whether two are the same to a row, whatever a trace says of their step times.
fn same(a: &Subject<'_>, b: &Subject<'_>) -> bool {
    (a.workload, a.global_batch, a.plan) == (b.workload, b.global_batch, b.plan)
}

/// How long a job takes adds up from the mean of its steps; what is known of the interval is known of their median. A program
/// without steps is one step as a whole.
fn alone(row: &Summary) -> Option<Prediction> {
    if row.status != Status::Ok {
        return None;
    }
    let Some(median) = row.step_ns_median else {
        return Some(Prediction {
            step_ns: row.wall_ns? as f64,
            step_ns_ci: interval(row.wall_ns_ci_lo, row.wall_ns_ci_hi, 1.0),
        });
    };
    let mean = row.global_batch.zip(row.samples_per_s.filter(|rate| *rate > 0.0));
    let step_ns = mean.map_or(median as f64, |(batch, samples_per_s)| f64::from(batch) * 1e9 / samples_per_s);
    let scale = step_ns / median as f64;
    Some(Prediction {
        step_ns,
        step_ns_ci: interval(row.step_ns_median_ci_lo, row.step_ns_median_ci_hi, scale),
    })
}

/// What several rows say of one question: the geometric mean, and all that lies in the interval of any. Rows of different
/// hours differ by more than their own intervals know.
fn pooled(rows: &[Prediction]) -> Option<Prediction> {
    let (first, rest) = rows.split_first()?;
    let logs: f64 = rows.iter().map(|row| row.step_ns.ln()).sum();
    let around = |found: Option<(f64, f64)>, row: &Prediction| {
        let ((lo, hi), (row_lo, row_hi)) = found.zip(row.step_ns_ci)?;
        Some((lo.min(row_lo), hi.max(row_hi)))
    };
    let step_ns_ci = rest.iter().fold(first.step_ns_ci, around);
    Some(Prediction { step_ns: (logs / rows.len() as f64).exp(), step_ns_ci })
}

fn interval(lo: Option<u64>, hi: Option<u64>, scale: f64) -> Option<(f64, f64)> {
    lo.zip(hi).map(|(lo, hi)| (lo as f64 * scale, hi as f64 * scale))
}

/// The interval is that of the slowdown: what the job takes alone moves with the day, and the ratio does not.
fn together(row: &Interference) -> Option<Prediction> {
    let (Status::Ok, Some(step_ns)) = (row.status, row.step_ns_together) else { return None };
    let slowdown = row.slowdown_ci_lo.zip(row.slowdown_ci_hi);
    let step_ns_ci =
        row.step_ns_alone.zip(slowdown).map(|(alone, (lo, hi))| (alone as f64 * lo, alone as f64 * hi));
    Some(Prediction { step_ns: step_ns as f64, step_ns_ci })
}

/// How many devices a row names, and their type; `None` where they are of several.
fn devices_of(manifest: &Manifest, devices: &str) -> Option<(u32, String)> {
    let types: Option<Vec<String>> = devices
        .split(',')
        .map(|name| {
            let device: Device = name.parse().ok()?;
            Some(manifest.devices.iter().find(|facts| facts.device == device)?.device_type())
        })
        .collect();
    let types = types?;
    let first = types.first()?;
    types.iter().all(|other| other == first).then(|| (types.len() as u32, first.clone()))
}

/// The other members of a row's group. `None` where one of them shares no device with it: such a group says what neighbours cost,
/// and co-runners are asked for.
fn co_runners(manifest: &Manifest, row: &Interference) -> Option<Vec<Member>> {
    let mut groups = manifest.groups.iter();
    let group = groups.find(|group| group.name == row.group && group.sharing == row.sharing)?;
    let cell = |name: &String| manifest.cells.iter().find(|cell| cell.name == *name);
    let cells: Vec<&Cell> = group.members.iter().map(cell).collect::<Option<_>>()?;
    let own = *cells.get(row.seat as usize)?;
    let others = || cells.iter().enumerate().filter(|(seat, _)| *seat != row.seat as usize);
    let shares = |other: &Cell| {
        other.devices.iter().any(|device| own.devices.iter().any(|own| own.shares_with(device)))
    };
    let member = |cell: &Cell| (cell.workload.clone(), cell.global_batch, cell.plan);
    others().all(|(_, other)| shares(other)).then(|| others().map(|(_, other)| member(other)).collect())
}

#[cfg(test)]
mod tests;
