//! A model of measured times only.

mod estimate;

use std::{
    collections::{BTreeSet, HashMap},
    time::{Duration, SystemTime},
};

use record::{
    manifest::{Cell, Manifest},
    rows::{Interference, Status, Summary, Warnings},
};
use schema::{device::Device, job::command_name, plan::Plan, sharing::Sharing};

use self::estimate::{Estimate, pooled, step_alone, times};
use crate::{
    HostDrift, JobKey, Neighbour, PredictRequest, Prediction, Throughput, host_drift::effects_of_runs,
    switch_costs::StartsAndExits,
};

/// Rows of jobs alone are pooled if their runs began within this time of the newest one.
const AS_NEW: Duration = Duration::from_secs(15 * 60);

/// Step times of jobs alone, from `summary.csv`, and their slowdowns by others, from `interference.csv`.
///
/// A question is answered only by rows of exactly this job, batch, plan, number of devices, type of device,
/// sharing mode and co-runners. Several rows, of several runs or of devices of one type, are pooled. All
/// rows are of devices of one node. The step time in the trace of a job is used if no row is of that job
/// alone and the question is about what the trace asks for.
///
/// The speed of a machine may change from one hour to the next, so only the newest runs count for a job
/// alone. A slowdown is a ratio of times of the same minutes and changes less, so all runs count for it.
///
/// A neighbour slows a job down as much as a single neighbour did on another device, and several by the
/// product. If the interval contains 1, or the pair was not measured, a neighbour is assumed to cost
/// nothing, because its cost is usually small.
#[derive(Clone, Debug, Default)]
pub struct Table {
    /// Rows by workload, in the order in which runs were added.
    alone: HashMap<String, Vec<Alone>>,
    /// Rows by the workload that is slowed down.
    slowdowns: HashMap<String, Vec<Slowdown>>,
    minds_neighbours: bool,
    device_types: BTreeSet<String>,
    starts_and_exits: StartsAndExits,
    /// The programs that were measured without steps alone.
    without_steps: BTreeSet<String>,
    /// The workloads that were measured with steps.
    with_steps: BTreeSet<String>,
}

#[derive(Clone, Debug)]
struct Alone {
    /// Whether the time is the duration of a program without steps.
    is_duration: bool,
    of: Measured,
    /// Start of the run.
    began: Option<SystemTime>,
    step_ns: Estimate,
    peak_memory_bytes: Option<u64>,
    warnings: Warnings,
}

/// Step time of a job in company over its step time alone.
#[derive(Clone, Debug)]
struct Slowdown {
    of: Measured,
    company: Company,
    factor: Estimate,
    warnings: Warnings,
}

/// The job of a row, and its placement.
#[derive(Clone, Debug)]
struct Measured {
    global_batch: Option<u32>,
    plan: Option<Plan>,
    devices: u32,
    device_type: String,
    /// Threads of each rank; absent if the run does not record them.
    threads: Option<u32>,
}

/// The other members of a row's group.
#[derive(Clone, Debug)]
enum Company {
    /// All of them share a device with the job.
    CoRunners(Vec<Member>, Sharing),
    /// The only other job shares no device with it, and both run all the time.
    Neighbour(Member),
}

/// Workload, batch and plan of a member of a group.
type Member = (String, Option<u32>, Option<Plan>);

impl Table {
    /// Adds the measurements of a run.
    pub fn add(&mut self, manifest: &Manifest, summaries: &[Summary], interference: &[Interference]) {
        let began = manifest.started();
        let programs = Programs::new(manifest);
        for row in summaries.iter().filter(|row| row.group.is_none()) {
            let Some(step_ns) = step_alone(row) else { continue };
            let Some((devices, device_type)) = devices_of(manifest, &row.device) else { continue };
            if row.vary.is_some() && row.plan.is_some() {
                // A job of a trace has the values of the program's definition, which may be others.
                continue;
            }
            let (workload, global_batch) = programs.job((&row.job, &row.workload), row.global_batch);
            let plan = row.plan;
            let of = Measured { global_batch, plan, devices, device_type, threads: Some(row.threads) };
            self.device_types.insert(of.device_type.clone());
            let times = [row.startup_ns, row.exit_ns];
            self.starts_and_exits.add(workload, (global_batch, plan), devices, times);
            let measured =
                if row.step_ns_median.is_some() { &mut self.with_steps } else { &mut self.without_steps };
            measured.insert(workload.to_owned());
            self.alone.entry(workload.to_owned()).or_default().push(Alone {
                is_duration: row.step_ns_median.is_none(),
                of,
                began,
                step_ns,
                peak_memory_bytes: row.peak_memory_bytes,
                warnings: row.warnings.clone(),
            });
        }
        for row in interference.iter().filter(|row| row.status == Status::Ok) {
            let Some(factor) = row.slowdown else { continue };
            let Some((devices, device_type)) = devices_of(manifest, &row.device) else { continue };
            let Some(company) = company(manifest, &programs, row) else { continue };
            let is_of_row = |summary: &&Summary| {
                summary.group.as_ref() == Some(&row.group)
                    && summary.seat == Some(row.seat)
                    && summary.sharing == row.sharing
            };
            let threads = summaries.iter().find(is_of_row).map(|summary| summary.threads);
            let (workload, global_batch) = programs.job((&row.job, &row.workload), row.global_batch);
            let plan = row.plan;
            let of = Measured { global_batch, plan, devices, device_type, threads };
            self.device_types.insert(of.device_type.clone());
            self.minds_neighbours |= matches!(company, Company::Neighbour(_));
            let factor = (factor, row.slowdown_ci_lo.zip(row.slowdown_ci_hi));
            let slowdowns = self.slowdowns.entry(workload.to_owned()).or_default();
            slowdowns.push(Slowdown { of, company, factor, warnings: row.warnings.clone() });
        }
    }

    /// The programs that were measured without steps alone, and never with them.
    pub fn programs_without_steps(&self) -> impl Iterator<Item = &str> {
        self.without_steps.difference(&self.with_steps).map(String::as_str)
    }

    /// Types of the devices in all rows.
    pub fn device_types(&self) -> impl Iterator<Item = &str> {
        self.device_types.iter().map(String::as_str)
    }

    /// The starts and exits of jobs alone.
    pub fn starts_and_exits(&self) -> &StartsAndExits {
        &self.starts_and_exits
    }

    /// The drift of the machine, from the differences between runs of jobs alone.
    pub fn host_drift(&self) -> HostDrift {
        let speeds = self.speeds();
        let newest = speeds.last().map(|(began, _)| *began);
        let is_new = |began: &SystemTime| newest.is_some_and(|newest| is_as_new(*began, newest));
        let pooled = speeds.iter().filter(|(began, _)| is_new(began)).count();
        let effects: Vec<f64> = speeds.iter().map(|(_, effect)| *effect).collect();
        HostDrift::of_runs(&effects, pooled as u32)
    }

    /// The runs of jobs that other runs have too, by their start, each with the factor by which its steps were longer than those of
    /// the mean run, on the log scale.
    pub fn speeds(&self) -> Vec<(SystemTime, f64)> {
        let rows =
            || self.alone.iter().flat_map(|(workload, rows)| rows.iter().map(move |row| (workload, row)));
        let runs: Vec<SystemTime> =
            rows().filter_map(|(_, row)| row.began).collect::<BTreeSet<_>>().into_iter().collect();
        let mut quantities = HashMap::new();
        let measured = rows().filter_map(|(workload, row)| {
            let run = runs.binary_search(&row.began?).ok()?;
            let Measured { global_batch, plan, devices, ref device_type, threads } = row.of;
            let next = quantities.len();
            let key = (workload, global_batch, plan, devices, device_type, threads);
            Some((run, *quantities.entry(key).or_insert(next), row.step_ns.0.ln()))
        });
        let mut measured: Vec<(usize, usize, f64)> = measured.collect();
        let runs_of = |quantity| {
            let of: BTreeSet<usize> =
                measured.iter().filter(|(_, of, _)| *of == quantity).map(|(run, ..)| *run).collect();
            of.len()
        };
        let several: Vec<bool> = (0..quantities.len()).map(|quantity| runs_of(quantity) > 1).collect();
        measured.retain(|(_, quantity, _)| several[*quantity]);
        let is_comparable = |run| measured.iter().any(|(of, ..)| *of == run);
        let effects = effects_of_runs(runs.len(), &measured);
        (0..runs.len()).filter(|run| is_comparable(*run)).map(|run| (runs[run], effects[run])).collect()
    }

    /// The step time of a job beside its co-runners over that of the job alone, and its 95 % interval; `None` if no row has it.
    pub fn slowdown_by_co_runners(&self, question: &PredictRequest<'_>) -> Option<(f64, Option<(f64, f64)>)> {
        let is_company = |company: &Company| are_beside(company, question.co_runners, question.sharing);
        self.slowdown(question, question.cpus.map(u32::from), is_company)
    }

    /// The step time alone, and its number of threads.
    fn alone(&self, question: &PredictRequest<'_>) -> Option<(Estimate, Option<u32>)> {
        let (rows, threads) = self.rows_alone(question)?;
        let step_ns: Vec<Estimate> = rows.iter().map(|row| row.step_ns).collect();
        let part = 1.0 / f64::from(question.job.parts);
        Some((times(pooled(&step_ns)?, (part, Some((part, part)))), threads))
    }

    /// The rows that the step time alone is made from, and their number of threads.
    fn rows_alone(&self, question: &PredictRequest<'_>) -> Option<(Vec<&Alone>, Option<u32>)> {
        let of_workload = self.alone.get(question.job.workload)?;
        // Only the duration of a program has parts.
        let has_parts = |row: &&Alone| question.job.parts == 1 || row.is_duration;
        let rows = of_workload.iter().filter(|row| row.of.answers(question));
        let rows: Vec<&Alone> = rows.filter(has_parts).collect();
        // If any number of threads is acceptable, that of the first row is used.
        let threads = rows.first()?.of.threads;
        let alike = || rows.iter().copied().filter(|row| row.of.threads == threads);
        let newest = alike().filter_map(|row| row.began).max();
        let is_new =
            |row: &&Alone| newest.zip(row.began).is_none_or(|(newest, began)| is_as_new(began, newest));
        Some((alike().filter(is_new).collect(), threads))
    }

    /// The slowdown by a company, as measured with this number of threads.
    fn slowdown(
        &self,
        question: &PredictRequest<'_>,
        threads: Option<u32>,
        is_company: impl Fn(&Company) -> bool,
    ) -> Option<Estimate> {
        let factors = self.rows_together(question, threads, is_company).map(|row| row.factor);
        pooled(&factors.collect::<Vec<_>>())
    }

    fn rows_together(
        &self,
        question: &PredictRequest<'_>,
        threads: Option<u32>,
        is_company: impl Fn(&Company) -> bool,
    ) -> impl Iterator<Item = &Slowdown> {
        let slowdowns = self.slowdowns.get(question.job.workload).into_iter().flatten();
        let with_threads =
            move |of: &Measured| threads.zip(of.threads).is_none_or(|(asked, has)| asked == has);
        let answers = move |row: &&Slowdown| {
            row.of.answers(question) && with_threads(&row.of) && is_company(&row.company)
        };
        slowdowns.filter(answers)
    }
}

impl Table {
    /// The prediction, with the time alone and the slowdown by co-runners of another model where the table has none.
    pub(crate) fn predict_or(
        &self,
        question: &PredictRequest<'_>,
        alone: impl FnOnce() -> Option<Prediction>,
        by_co_runners: impl FnOnce() -> Option<Estimate>,
    ) -> Option<Prediction> {
        let PredictRequest { co_runners, sharing, .. } = question;
        let otherwise = || alone().map(|found| ((found.step_ns, found.step_ns_ci), None));
        let (mut step_ns, threads) = self.alone(question).or_else(otherwise)?;
        if !co_runners.is_empty() {
            let is_company = |company: &Company| are_beside(company, co_runners, sharing);
            let (factor, interval) = self.slowdown(question, threads, is_company).or_else(by_co_runners)?;
            // The uncertainty of the time alone is in both sides of a comparison with taking turns, and
            // cancels.
            step_ns = times((step_ns.0, Some((step_ns.0, step_ns.0))), (factor, interval));
        }
        for Neighbour { job, share } in question.neighbours {
            let slowdown = self.slowdown(
                question,
                threads,
                |company| matches!(company, Company::Neighbour(neighbour) if is(neighbour, job)),
            );
            // A neighbour costs nothing while it is held.
            let in_turn = |factor: f64| 1.0 + (factor - 1.0) * share;
            if let Some((factor, Some((lo, hi)))) = slowdown
                && (lo > 1.0 || hi < 1.0)
            {
                step_ns = times(step_ns, (in_turn(factor), Some((in_turn(lo), in_turn(hi)))));
            }
        }
        let (step_ns, step_ns_ci) = step_ns;
        Some(Prediction { step_ns, step_ns_ci })
    }
}

impl Throughput for Table {
    fn predict(&self, question: &PredictRequest<'_>) -> Option<Prediction> {
        self.predict_or(question, || question.trace_time(), || None)
    }

    /// Those of the rows of the job alone, and of the job beside its co-runners, that make their numbers doubtful.
    fn warnings(&self, question: &PredictRequest<'_>) -> Warnings {
        let Some((alone, threads)) = self.rows_alone(question) else { return Warnings::default() };
        let is_company = |company: &Company| are_beside(company, question.co_runners, question.sharing);
        let together = self.rows_together(question, threads, is_company);
        let together = together.filter(|_| !question.co_runners.is_empty()).map(|row| &row.warnings);
        let all = alone.iter().map(|row| &row.warnings).chain(together);
        all.filter(|warnings| !warnings.leave_valid()).flat_map(Warnings::iter).collect()
    }

    fn peak_memory_bytes(&self, question: &PredictRequest<'_>) -> Option<u64> {
        let rows = self.alone.get(question.job.workload)?.iter().filter(|row| row.of.answers(question));
        rows.filter_map(|row| row.peak_memory_bytes).max()
    }

    fn minds_neighbours(&self) -> bool {
        self.minds_neighbours
    }
}

fn is_as_new(began: SystemTime, newest: SystemTime) -> bool {
    newest.duration_since(began).is_ok_and(|age| age <= AS_NEW)
}

/// Whether a company consists of these co-runners, who share their devices in this mode.
fn are_beside(company: &Company, co_runners: &[JobKey<'_>], sharing: &Sharing) -> bool {
    match company {
        Company::CoRunners(members, mode) => mode == sharing && are(members, co_runners),
        Company::Neighbour(_) => false,
    }
}

impl Measured {
    /// Whether the question is about this job in this placement, with any other jobs.
    fn answers(&self, question: &PredictRequest<'_>) -> bool {
        let job = &question.job;
        (self.global_batch, self.plan) == (job.global_batch, job.plan)
            && question.placement == [self.devices]
            && question.device_type == self.device_type
            && question.cpus.is_none_or(|cpus| self.threads.is_none_or(|threads| threads == u32::from(cpus)))
    }
}

/// Whether the members of a group are these co-runners, in any order.
fn are(members: &[Member], co_runners: &[JobKey<'_>]) -> bool {
    let as_often = |subject: &JobKey<'_>| {
        members.iter().filter(|member| is(member, subject)).count()
            == co_runners.iter().filter(|other| same(other, subject)).count()
    };
    members.len() == co_runners.len() && co_runners.iter().all(as_often)
}

fn is(member: &Member, subject: &JobKey<'_>) -> bool {
    (member.0.as_str(), member.1, member.2) == (subject.workload, subject.global_batch, subject.plan)
}

/// Whether two jobs have the same rows, regardless of step times in traces.
fn same(a: &JobKey<'_>, b: &JobKey<'_>) -> bool {
    (a.workload, a.global_batch, a.plan) == (b.workload, b.global_batch, b.plan)
}

/// Number and type of the devices of a row; `None` if they have several types, or if ranks shared one: the scheduler gives each
/// rank a device of its own.
fn devices_of(manifest: &Manifest, devices: &str) -> Option<(u32, String)> {
    let devices: Vec<Device> = devices.split(',').map(str::parse).collect::<Result<_, _>>().ok()?;
    let facts = |device: &Device| manifest.devices.iter().find(|facts| facts.device == *device);
    let types: Vec<String> =
        devices.iter().map(|device| Some(facts(device)?.device_type())).collect::<Option<_>>()?;
    let first = types.first()?;
    let is_own = |rank: usize| !devices[..rank].iter().any(|other| other.shares_with(&devices[rank]));
    let fits = (0..devices.len()).all(|rank| types[rank] == *first && is_own(rank));
    fits.then(|| (types.len() as u32, first.clone()))
}

/// Maps the jobs of programs in the rows of a run to names made from their commands. A trace has the commands alone, without the name
/// and the batch that the user chose. A program of the catalog keeps its name, as it does in a trace.
struct Programs<'a>(HashMap<&'a str, String>);

impl<'a> Programs<'a> {
    fn new(manifest: &'a Manifest) -> Programs<'a> {
        let cells = manifest.cells.iter();
        Programs(
            cells
                .filter(|cell| cell.plan.is_none())
                .filter_map(|cell| Some((&*cell.job, command_name(cell.command.as_deref()?))))
                .collect(),
        )
    }

    /// The workload and the batch under which a trace names the job of a row.
    fn job<'b>(
        &'b self,
        (job, workload): (&str, &'b str),
        global_batch: Option<u32>,
    ) -> (&'b str, Option<u32>) {
        self.0.get(job).map_or((workload, global_batch), |name| (name, None))
    }
}

/// The other members of a row's group. `None` for several neighbours, or neighbours and co-runners at once,
/// because no question is about those. Also `None` for groups with values of `--vary`: a job of a trace has those of the definition.
fn company(manifest: &Manifest, programs: &Programs<'_>, row: &Interference) -> Option<Company> {
    let mut groups = manifest.groups.iter();
    let group = groups.find(|group| group.name == row.group && group.sharing == row.sharing)?;
    let cell = |name: &String| manifest.cells.iter().find(|cell| cell.name == *name);
    let cells: Vec<&Cell> = group.members.iter().map(cell).collect::<Option<_>>()?;
    let own = *cells.get(row.seat as usize)?;
    if cells.iter().any(|cell| cell.plan.is_some() && !cell.vary.is_empty()) {
        return None;
    }
    let others = || cells.iter().enumerate().filter(|(seat, _)| *seat != row.seat as usize);
    let shares = |other: &Cell| {
        other.devices.iter().any(|device| own.devices.iter().any(|own| own.shares_with(device)))
    };
    let member = |cell: &Cell| {
        let (workload, global_batch) = programs.job((&cell.job, &cell.workload), cell.global_batch);
        (workload.to_owned(), global_batch, cell.plan)
    };
    let members: Vec<Member> = others().map(|(_, other)| member(other)).collect();
    if others().all(|(_, other)| shares(other)) {
        return Some(Company::CoRunners(members, row.sharing.clone()));
    }
    let [neighbour] = &members[..] else { return None };
    matches!(row.sharing, Sharing::TimeSlice { .. }).then(|| Company::Neighbour(neighbour.clone()))
}

#[cfg(test)]
mod tests;
