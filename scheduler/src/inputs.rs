//! The inputs of a run of the scheduler: the jobs of a trace, checked against the catalog and the cluster, and the tables of
//! measured times.

use std::{
    collections::HashSet,
    hash::{Hash, Hasher},
    path::{Path, PathBuf},
    sync::Arc,
};

use anyhow::Context as _;
use engine::{
    cluster::JobId,
    job::{JobRequest, Pausing, Payload, SharedRequest},
};
use formats::trace::{Trace, TraceLine, TraceRow};
use jobs::{
    command_line::{self, CommandLine},
    workload_lookup,
};
use model::Table;
use record::{
    rows::{self, RowError},
    run_dir::RunDir,
};
use schema::{
    catalog::{Catalog, CatalogProgram},
    job::Job,
    plan::Plan,
    units::Nanos,
};

/// The use of the jobs of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    Run,
    /// The jobs are simulated. A job need not be in the catalog if the trace has its step time.
    Simulate,
}

/// Reads the jobs of a trace, in its order. `most_devices` is the largest number of devices of one type in the cluster.
///
/// # Errors
/// Fails at the first line that no trace may have, or that this cluster and catalog do not: with an unknown workload, a plan that the
/// workload does not support, a plan for another number of devices, a number of devices that its bounds exclude, or more devices than
/// `most_devices`. An elastic job may ask for more devices than there are.
pub fn read_jobs(
    trace: &Path,
    catalog: &Catalog,
    purpose: Purpose,
    most_devices: u32,
) -> Result<Vec<JobRequest>, RowError> {
    let (mut jobs, mut known) = (Vec::new(), KnownRequests::default());
    Trace::read_each(trace, |row, at| {
        let job = job(row, JobId(jobs.len() as u32), at, (catalog, purpose, most_devices))?;
        jobs.push(known.share(job));
        Ok(())
    })?;
    Ok(jobs)
}

/// The jobs of a trace that was read, as [`read_jobs`] makes them.
///
/// # Errors
/// See [`read_jobs`].
pub fn jobs(
    trace: &Trace,
    catalog: &Catalog,
    purpose: Purpose,
    most_devices: u32,
) -> Result<Vec<JobRequest>, RowError> {
    let limits = (catalog, purpose, most_devices);
    let (rows, mut known) = (trace.rows.iter().enumerate(), KnownRequests::default());
    rows.map(|(number, row)| {
        let job = job(row.clone(), JobId(number as u32), trace.line(number), limits)?;
        Ok(known.share(job))
    })
    .collect()
}

/// The shared parts of the requests so far.
#[derive(Default)]
struct KnownRequests(HashSet<KnownRequest>);

/// A request by what tells it apart. Its numbers with a fraction are finite.
#[derive(PartialEq)]
struct KnownRequest(Arc<SharedRequest>);

impl KnownRequests {
    /// Lets a job share its request with the earlier jobs that have the same.
    fn share(&mut self, job: JobRequest) -> JobRequest {
        let request = KnownRequest(Arc::clone(&job.shared));
        match self.0.get(&request) {
            Some(KnownRequest(shared)) => JobRequest { shared: Arc::clone(shared), ..job },
            None => {
                self.0.insert(request);
                job
            }
        }
    }
}

impl Eq for KnownRequest {}

impl Hash for KnownRequest {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let SharedRequest { what, plan, devices, user, virtual_cluster, recurring_job, search, .. } =
            &*self.0;
        (what, plan, devices, user, virtual_cluster, recurring_job, search).hash(state);
        self.0.learning_rate.map(f64::to_bits).hash(state);
        self.0.loss_curve.map(|curve| curve.at(1).to_bits()).hash(state);
    }
}

/// The job of a line.
fn job(
    row: TraceRow,
    id: JobId,
    at: TraceLine<'_>,
    (catalog, purpose, most_devices): (&Catalog, Purpose, u32),
) -> Result<JobRequest, RowError> {
    let refuse = |(column, message): (&str, String)| at.refuse(column, message);
    let (what, plan) = what(&row, catalog, purpose).map_err(refuse)?;
    let why_no_checkpoint = why_no_checkpoint(&what, catalog);
    let is_program = is_users_program(&what, catalog);
    let devices = row.devices.or(plan.map(|plan| plan.ranks())).unwrap_or(1);
    if devices > most_devices && !row.elastic {
        let column = if row.devices.is_some() { "devices" } else { "job" };
        let message = format!("asks for {devices} devices, and the cluster has {most_devices} of one type");
        return Err(refuse((column, message)));
    }
    if let Some(problem) = row.out_of_bounds(devices) {
        return Err(refuse(problem));
    }
    let steps_regex = row.steps_regex.as_deref().map(command_line::steps_regex).transpose();
    let steps_regex = steps_regex.map_err(|why| refuse(("steps_regex", why)))?;
    Ok(JobRequest {
        id,
        arrival: Nanos::from_secs_f64(row.submit_s),
        steps: row.steps,
        part_ns: None,
        submitted_at: row.submitted_at(),
        step_ns: row.step_ns,
        name: row.name,
        shared: Arc::new(SharedRequest {
            takes_no_checkpoint: why_no_checkpoint,
            pausing: pausing(is_program, steps_regex.is_some()),
            steps_in_start: steps_in_start(is_program, steps_regex.is_some()),
            what,
            plan,
            devices,
            cpus: row.cpus,
            elastic: row.elastic,
            min_devices: row.min_devices,
            max_devices: row.max_devices,
            steps_regex,
            class: row.class,
            priority: row.priority,
            weight: row.weight.unwrap_or(1),
            learning_rate: row.learning_rate,
            loss_curve: row.loss_curve,
            device_type: row.device_type,
            user: row.user,
            virtual_cluster: row.vc,
            recurring_job: row.recurring_job,
            search: row.search,
        }),
    })
}

/// The payload and the plan of a line, or the name of the invalid column and the error.
fn what(
    row: &TraceRow,
    catalog: &Catalog,
    purpose: Purpose,
) -> Result<(Payload, Option<Plan>), (&'static str, String)> {
    let job = match (&row.job, &row.command) {
        (Some(job), _) => job,
        (None, command) => {
            let command = command.as_deref().unwrap_or_default();
            let CommandLine(argv) = command.parse().map_err(|why| ("command", why))?;
            return Ok((Payload::Command(argv), None));
        }
    };
    if let Some(program) = catalog.program(&job.workload) {
        return of_program(program, job, row);
    }
    let has_step_time = purpose == Purpose::Simulate && row.step_ns.is_some();
    let training = |global_batch| Payload::Training { workload: job.workload.clone(), global_batch };
    let workload = match catalog.get(&job.workload) {
        Some(workload) => workload,
        None if has_step_time => return Ok((training(job.global_batch), job.plan)),
        None => {
            let unknown = workload_lookup::workload(catalog, &job.workload).map(|_| String::new());
            return Err(("job", unknown.unwrap_or_else(|error| error.to_string())));
        }
    };
    let global_batch = job.global_batch.unwrap_or(workload.global_batch);
    let plan = job.plan.unwrap_or(workload.plan);
    check_devices(row, &job.workload, &plan)?;
    // A step time from elsewhere may be of a plan that our own worker does not support.
    match workload.refuses(&plan, global_batch).filter(|_| !has_step_time) {
        Some(reason) => Err(("job", reason)),
        None => Ok((training(Some(global_batch)), Some(plan))),
    }
}

/// The same for a program of the catalog.
fn of_program(
    program: &CatalogProgram,
    job: &Job,
    row: &TraceRow,
) -> Result<(Payload, Option<Plan>), (&'static str, String)> {
    let global_batch = job.global_batch.unwrap_or(program.batches[0]);
    let plan = job.plan.unwrap_or(program.plan);
    check_devices(row, &program.name, &plan)?;
    if row.elastic
        && let Some(why) = program.keeps_its_plan()
    {
        return Err(("elastic", format!("{} keeps its plan: {why}; write false", program.name)));
    }
    for (column, is_given) in [
        ("search", row.search.is_some()),
        ("learning_rate", row.learning_rate.is_some()),
        ("loss_curve", row.loss_curve.is_some()),
    ] {
        if is_given {
            let name = &program.name;
            let message = format!(
                "says something of workloads that Tandem trains, and {name} is a program; leave it empty"
            );
            return Err((column, message));
        }
    }
    match program.refuses(&plan, global_batch) {
        Some(reason) => Err(("job", reason)),
        None => Ok((
            Payload::Training { workload: program.name.clone(), global_batch: Some(global_batch) },
            Some(plan),
        )),
    }
}

fn check_devices(row: &TraceRow, workload: &str, plan: &Plan) -> Result<(), (&'static str, String)> {
    let Some(devices) = row.devices.filter(|devices| *devices != plan.ranks()) else { return Ok(()) };
    let takes = format!("{plan}, the plan of {workload}, takes {}", plan.ranks());
    Err(("devices", format!("is {devices}, and {takes}; name a plan in job")))
}

/// Why a job takes no checkpoint.
fn why_no_checkpoint(what: &Payload, catalog: &Catalog) -> Option<&'static str> {
    match what {
        Payload::Command(_) => Some("it is a command"),
        Payload::Training { workload, .. } => catalog.program(workload)?.takes_no_checkpoint(),
    }
}

/// Whether a job runs a program of the user's.
fn is_users_program(what: &Payload, catalog: &Catalog) -> bool {
    match what {
        Payload::Command(_) => true,
        Payload::Training { workload, .. } => catalog.program(workload).is_some(),
    }
}

/// The step hook holds a command. Without it, steps are found in output that the command has already written, and it is frozen.
fn pausing(is_users_program: bool, has_steps_regex: bool) -> Pausing {
    match (is_users_program, has_steps_regex) {
        (false, _) => Pausing::FreesMemory,
        (true, true) => {
            Pausing::Freezes("its steps are found in its output, and nothing can hold it between two of them")
        }
        (true, false) => Pausing::HoldsMemory,
    }
}

/// See [`SharedRequest::steps_in_start`].
fn steps_in_start(is_users_program: bool, has_steps_regex: bool) -> u64 {
    match (is_users_program, has_steps_regex) {
        (false, _) => 0,
        (true, true) => 1,
        (true, false) => 2,
    }
}

/// Reads the results of runs of `profile` into one table.
///
/// # Errors
/// Fails if a path is no run, or if a file of a run cannot be read.
pub fn table(runs: &[PathBuf]) -> anyhow::Result<Table> {
    let mut table = Table::default();
    for path in runs {
        let run = RunDir::open(path)?;
        let summaries = rows::read(&run.summary_path())
            .with_context(|| format!("make its tables with `profile derive {}`", path.display()))?;
        let interference = match run.interference_path() {
            path if path.is_file() => rows::read(&path)?,
            _ => Vec::new(),
        };
        table.add(&run.manifest()?, &summaries, &interference);
    }
    Ok(table)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(rows: &str, purpose: Purpose, most_devices: u32) -> Result<Vec<JobRequest>, RowError> {
        let text = format!("name,submit_s,job,command,steps,devices,elastic,step_ns,steps_regex\n{rows}");
        let trace = Trace::parse(Path::new("t.csv"), text.as_bytes()).unwrap();
        jobs(&trace, &Catalog::embedded(), purpose, most_devices)
    }

    #[test]
    fn what_a_line_leaves_out_is_its_workloads() {
        let rows = "a,0.5,lstm,,10,,,,\nb,1,,\"python train.py 'a b'\",,2,,,^step\nc,1,nobody,,5,8,,100,\n";
        let asked = read(rows, Purpose::Simulate, 8).unwrap();
        let [a, b, c] = &asked[..] else { panic!("{asked:?}") };
        let lstm = Catalog::embedded().get("lstm").unwrap().clone();
        let what = Payload::Training { workload: "lstm".into(), global_batch: Some(lstm.global_batch) };
        assert_eq!((&a.what, a.plan, a.devices), (&what, Some(lstm.plan), 1));
        assert_eq!((a.arrival, a.id, a.steps), (Nanos(500_000_000), JobId(0), Some(10)));
        assert_eq!(b.what, Payload::Command(["python", "train.py", "a b"].map(str::to_owned).into()));
        assert_eq!((b.devices, b.steps, b.steps_regex.as_deref()), (2, None, Some("^step")));
        assert_eq!(c.what, Payload::Training { workload: "nobody".into(), global_batch: None });
        assert_eq!((c.plan, c.devices, c.step_ns), (None, 8, Some(100)));
        assert_eq!([a, b, c].map(|asked| asked.takes_no_checkpoint), [None, Some("it is a command"), None]);
        assert_eq!((a.pausing, c.pausing), (Pausing::FreesMemory, Pausing::FreesMemory));
        assert!(matches!(b.pausing, Pausing::Freezes(_)), "{:?}", b.pausing);
        let acts = read("a,0,ppo-cartpole,,10,,,,\n", Purpose::Run, 1).unwrap()[0].takes_no_checkpoint;
        assert_eq!(acts, None, "the state of an environment is saved, too");
    }

    #[test]
    fn what_cannot_be_is_refused_by_line_and_column() {
        for (row, purpose, message) in [
            ("a,0,nobody,,5,,,,\n", Purpose::Simulate, "column 'job': there is no workload 'nobody'"),
            (
                "a,0,lsmt,,5,,,7,\n",
                Purpose::Run,
                "column 'job': there is no workload 'lsmt'; did you mean 'lstm'",
            ),
            (
                "a,0,lstm@dp4,,5,,,,\n",
                Purpose::Run,
                "column 'job': asks for 4 devices, and the cluster has 2",
            ),
            ("a,0,nobody,,5,4,,7,\n", Purpose::Simulate, "column 'devices': asks for 4 devices"),
            (
                "a,0,lstm,,5,2,,,\n",
                Purpose::Run,
                "column 'devices': is 2, and dp1, the plan of lstm, takes 1",
            ),
            ("a,0,lstm@b7@dp2,,5,,,,\n", Purpose::Run, "column 'job': a batch of 7 cannot be cut into 2"),
            ("a,0,,'x,,,,,\n", Purpose::Run, "column 'command': a quote"),
            ("a,0,,x,,,,,(\n", Purpose::Run, "column 'steps_regex': regex parse error"),
        ] {
            let error = read(row, purpose, 2).unwrap_err().to_string();
            assert!(error.starts_with("t.csv: line 2: ") && error.contains(message), "{error}");
        }
        assert_eq!(read("a,0,lstm@dp4,,5,,true,,\n", Purpose::Run, 2).unwrap()[0].devices, 4);
        // The plan of the job, and not the trace, has the number of devices.
        let text = "name,submit_s,job,steps,elastic,max_devices\na,0,lstm@dp4,5,true,3\n";
        let trace = Trace::parse(Path::new("t.csv"), text.as_bytes()).unwrap();
        let error = jobs(&trace, &Catalog::embedded(), Purpose::Run, 8).unwrap_err().to_string();
        assert!(
            error.contains("line 2: column 'max_devices': is 3, and the job asks for 4 devices"),
            "{error}"
        );
        assert!(read("a,0,lstm@b7@dp2,,5,,,9,\n", Purpose::Simulate, 2).is_ok(), "measured elsewhere");
        assert!(table(&[PathBuf::from("nowhere")]).unwrap_err().to_string().contains("is no run"));
    }
}
