//! A model that knows what was measured, and nothing else.

use std::collections::{BTreeSet, HashMap};

use schema::{
    device::Device,
    manifest::{Cell, Manifest},
    plan::Plan,
    rows::{Interference, Status, Summary},
    sharing::Sharing,
};

use crate::{Neighbour, Prediction, Question, Subject, Throughput};

/// Step times out of `summary.csv`, of jobs alone, and `interference.csv`, of jobs together.
///
/// A question is answered by a row of just that job, batch, plan, number of devices, type of device, sharing mode and co-runners,
/// or not at all; several rows, of several runs or of devices of one type, answer together, so that no single hour decides. All rows
/// are of devices of one node. What a trace says of the step time of its own job is believed where no row
/// is of that job alone, wherever it is put.
///
/// A neighbour slows the job down by as much as it did alone on another device, and several by the product of that. One beside
/// which the job was not measured is taken to cost nothing.
#[derive(Clone, Debug, Default)]
pub struct Table {
    /// By workload, in the order in which runs were added.
    rows: HashMap<String, Vec<Row>>,
    /// By the workload that is slowed down.
    slowdowns: HashMap<String, Vec<Slowdown>>,
    device_types: BTreeSet<String>,
}

#[derive(Clone, Debug)]
struct Row {
    of: Measured,
    /// `None` of a job alone.
    beside: Option<Beside>,
    step_ns: Estimate,
}

/// What a job takes beside one on another device, over what it takes without.
#[derive(Clone, Debug)]
struct Slowdown {
    of: Measured,
    neighbour: Member,
    factor: Estimate,
}

/// The job that a row is of, and where it was.
#[derive(Clone, Debug)]
struct Measured {
    global_batch: Option<u32>,
    plan: Option<Plan>,
    devices: u32,
    device_type: String,
    /// Of each rank; absent where the run does not say.
    threads: Option<u32>,
}

#[derive(Clone, Debug)]
struct Beside {
    co_runners: Vec<Member>,
    sharing: Sharing,
}

/// A number, and its interval where it has one.
type Estimate = (f64, Option<(f64, f64)>);

/// Workload, batch and plan of a member of a group.
type Member = (String, Option<u32>, Option<Plan>);

impl Table {
    /// Adds what a run measured.
    pub fn add(&mut self, manifest: &Manifest, summaries: &[Summary], interference: &[Interference]) {
        for row in summaries.iter().filter(|row| row.group.is_none()) {
            let Some(step_ns) = alone(row) else { continue };
            let Some((devices, device_type)) = devices_of(manifest, &row.device) else { continue };
            let Summary { global_batch, plan, .. } = *row;
            let of = Measured { global_batch, plan, devices, device_type, threads: Some(row.threads) };
            self.knows(&of);
            self.rows.entry(row.workload.clone()).or_default().push(Row { of, beside: None, step_ns });
        }
        for row in interference.iter().filter(|row| row.status == Status::Ok) {
            let Some((devices, device_type)) = devices_of(manifest, &row.device) else { continue };
            let Some(company) = company(manifest, row) else { continue };
            let is_of_row = |summary: &&Summary| {
                summary.group.as_ref() == Some(&row.group)
                    && summary.seat == Some(row.seat)
                    && summary.sharing == row.sharing
            };
            let threads = summaries.iter().find(is_of_row).map(|summary| summary.threads);
            let Interference { global_batch, plan, .. } = *row;
            let of = Measured { global_batch, plan, devices, device_type, threads };
            match company {
                Company::OnItsDevices(co_runners) => {
                    let Some(step_ns) = together(row) else { continue };
                    self.knows(&of);
                    let beside = Some(Beside { co_runners, sharing: row.sharing.clone() });
                    self.rows.entry(row.workload.clone()).or_default().push(Row { of, beside, step_ns });
                }
                Company::Neighbour(neighbour) => {
                    let Some(factor) = row.slowdown else { continue };
                    self.knows(&of);
                    let factor = (factor, row.slowdown_ci_lo.zip(row.slowdown_ci_hi));
                    let slowdowns = self.slowdowns.entry(row.workload.clone()).or_default();
                    slowdowns.push(Slowdown { of, neighbour, factor });
                }
            }
        }
    }

    /// Types of the devices that any row is of.
    pub fn device_types(&self) -> impl Iterator<Item = &str> {
        self.device_types.iter().map(String::as_str)
    }

    fn knows(&mut self, of: &Measured) {
        self.device_types.insert(of.device_type.clone());
    }

    /// What this neighbour makes of a step time of so many threads; 1 where nobody has measured it.
    fn slowdown(&self, question: &Question<'_>, threads: Option<u32>, neighbour: &Neighbour<'_>) -> Estimate {
        let slowdowns = self.slowdowns.get(question.job.workload).into_iter().flatten();
        let is_of_both = |slowdown: &&Slowdown| {
            slowdown.of.answers(question)
                && threads.zip(slowdown.of.threads).is_none_or(|(asked, measured)| asked == measured)
                && is(&slowdown.neighbour, &neighbour.job)
        };
        let factors: Vec<Estimate> = slowdowns.filter(is_of_both).map(|slowdown| slowdown.factor).collect();
        let (factor, interval) = pooled(&factors).unwrap_or((1.0, Some((1.0, 1.0))));
        // While it is not its turn, it costs nothing.
        let in_turn = |factor: f64| 1.0 + (factor - 1.0) * neighbour.share;
        (in_turn(factor), interval.map(|(lo, hi)| (in_turn(lo), in_turn(hi))))
    }
}

impl Throughput for Table {
    fn predict(&self, question: &Question<'_>) -> Option<Prediction> {
        let of_workload = self.rows.get(question.job.workload).into_iter().flatten();
        let answers: Vec<&Row> = of_workload.filter(|row| row.answers(question)).collect();
        // Where any number of threads will do, those of the first row.
        let threads = answers.first().and_then(|first| first.of.threads);
        let alike = answers.iter().filter(|row| row.of.threads == threads);
        let measured = pooled(&alike.map(|row| row.step_ns).collect::<Vec<_>>());
        let told = || question.job.step_ns.filter(|_| question.co_runners.is_empty());
        let undisturbed = measured.or_else(|| told().map(|ns| (ns as f64, None)))?;
        let slowdowns = question.neighbours.iter().map(|next| self.slowdown(question, threads, next));
        let (step_ns, step_ns_ci) = slowdowns.fold(undisturbed, times);
        Some(Prediction { step_ns, step_ns_ci })
    }

    fn minds_neighbours(&self) -> bool {
        !self.slowdowns.is_empty()
    }
}

impl Row {
    fn answers(&self, question: &Question<'_>) -> bool {
        self.of.answers(question)
            && match &self.beside {
                None => question.co_runners.is_empty(),
                Some(beside) => beside.sharing == *question.sharing && beside.are(question.co_runners),
            }
    }
}

impl Measured {
    /// Whether the question is of such a job in such a place, whoever else is there.
    fn answers(&self, question: &Question<'_>) -> bool {
        let job = &question.job;
        (self.global_batch, self.plan) == (job.global_batch, job.plan)
            && question.placement == [self.devices]
            && question.device_type == self.device_type
            && question.cpus.is_none_or(|cpus| self.threads.is_none_or(|threads| threads == u32::from(cpus)))
    }
}

impl Beside {
    /// Whether these are the co-runners, in whatever order.
    fn are(&self, co_runners: &[Subject<'_>]) -> bool {
        let as_often = |subject: &Subject<'_>| {
            self.co_runners.iter().filter(|member| is(member, subject)).count()
                == co_runners.iter().filter(|other| same(other, subject)).count()
        };
        self.co_runners.len() == co_runners.len() && co_runners.iter().all(as_often)
    }
}

fn is(member: &Member, subject: &Subject<'_>) -> bool {
    (member.0.as_str(), member.1, member.2) == (subject.workload, subject.global_batch, subject.plan)
}

/// Whether two are the same to a row, whatever a trace says of their step times.
fn same(a: &Subject<'_>, b: &Subject<'_>) -> bool {
    (a.workload, a.global_batch, a.plan) == (b.workload, b.global_batch, b.plan)
}

/// How long a job takes adds up from the mean of its steps; what is known of the interval is known of their median. A program
/// without steps is one step as a whole.
fn alone(row: &Summary) -> Option<Estimate> {
    if row.status != Status::Ok {
        return None;
    }
    let Some(median) = row.step_ns_median else {
        return Some((row.wall_ns? as f64, interval(row.wall_ns_ci_lo, row.wall_ns_ci_hi, 1.0)));
    };
    let mean = row.global_batch.zip(row.samples_per_s.filter(|rate| *rate > 0.0));
    let step_ns = mean.map_or(median as f64, |(batch, samples_per_s)| f64::from(batch) * 1e9 / samples_per_s);
    let scale = step_ns / median as f64;
    Some((step_ns, interval(row.step_ns_median_ci_lo, row.step_ns_median_ci_hi, scale)))
}

/// What several rows say of one question: the geometric mean, and all that lies in the interval of any. Rows of different
/// hours differ by more than their own intervals know.
fn pooled(rows: &[Estimate]) -> Option<Estimate> {
    let (first, rest) = rows.split_first()?;
    let logs: f64 = rows.iter().map(|(value, _)| value.ln()).sum();
    let around = |found: Option<(f64, f64)>, (_, interval): &Estimate| {
        let ((lo, hi), (row_lo, row_hi)) = found.zip(*interval)?;
        Some((lo.min(row_lo), hi.max(row_hi)))
    };
    Some(((logs / rows.len() as f64).exp(), rest.iter().fold(first.1, around)))
}

fn times((a, a_interval): Estimate, (b, b_interval): Estimate) -> Estimate {
    let interval = a_interval.zip(b_interval).map(|((a_lo, a_hi), (b_lo, b_hi))| (a_lo * b_lo, a_hi * b_hi));
    (a * b, interval)
}

fn interval(lo: Option<u64>, hi: Option<u64>, scale: f64) -> Option<(f64, f64)> {
    lo.zip(hi).map(|(lo, hi)| (lo as f64 * scale, hi as f64 * scale))
}

/// The interval is that of the slowdown: what the job takes alone moves with the day, and the ratio does not.
fn together(row: &Interference) -> Option<Estimate> {
    let slowdown = row.slowdown_ci_lo.zip(row.slowdown_ci_hi);
    let step_ns_ci =
        row.step_ns_alone.zip(slowdown).map(|(alone, (lo, hi))| (alone as f64 * lo, alone as f64 * hi));
    Some((row.step_ns_together? as f64, step_ns_ci))
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

/// The other members of a row's group.
enum Company {
    /// All of them share a device with it.
    OnItsDevices(Vec<Member>),
    /// The only other one shares none with it, and both run all the time.
    Neighbour(Member),
}

/// `None` where it is of neither kind: of what several neighbours cost together, or neighbours and co-runners, nobody asks.
fn company(manifest: &Manifest, row: &Interference) -> Option<Company> {
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
    let members: Vec<Member> = others().map(|(_, other)| member(other)).collect();
    if others().all(|(_, other)| shares(other)) {
        return Some(Company::OnItsDevices(members));
    }
    let [neighbour] = &members[..] else { return None };
    matches!(row.sharing, Sharing::TimeSlice { .. }).then(|| Company::Neighbour(neighbour.clone()))
}

#[cfg(test)]
mod tests;
