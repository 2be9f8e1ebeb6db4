//! PAI 2020: the jobs of a cluster of Alibaba with their tasks, users and groups, in three tables.
//!
//! The published tables have no header; a first line with the names of the columns is skipped. Times are seconds of Unix time with
//! another date, of which the hour of the day and the day of the week are right in UTC+8.

use std::{collections::HashMap, time::Duration};

use serde::{Deserialize, de::DeserializeOwned};

use super::{Found, Imported, Line, Source, cores_per_rank, seconds, steps_of_a_second, submit_utc};
use crate::{
    job::Job,
    rows::{self, RowError},
    trace::TraceRow,
};

/// A line of `pai_job_table.csv`.
#[derive(Deserialize)]
struct JobRow {
    job_name: String,
    inst_id: String,
    user: String,
    status: String,
    /// The arrival.
    start_time: Option<f64>,
}

const JOB_COLUMNS: &[&str] = &["job_name", "inst_id", "user", "status", "start_time", "end_time"];

/// A line of `pai_task_table.csv`. `gpu_type` is the type that the scheduler of the cluster chose, and is left out.
#[derive(Deserialize)]
struct TaskRow {
    job_name: String,
    inst_num: Option<f64>,
    /// The start of its first instance.
    start_time: Option<f64>,
    end_time: Option<f64>,
    /// Cores of each instance, in percent.
    plan_cpu: Option<f64>,
    /// GPUs of each instance, in percent.
    plan_gpu: Option<f64>,
}

const TASK_COLUMNS: &[&str] = &[
    "job_name",
    "task_name",
    "inst_num",
    "status",
    "start_time",
    "end_time",
    "plan_cpu",
    "plan_mem",
    "plan_gpu",
    "gpu_type",
];

/// A line of `pai_group_tag_table.csv`.
#[derive(Deserialize)]
struct GroupRow {
    inst_id: String,
    /// The type of GPU that the job asks for, if it asks for one.
    gpu_type_spec: Option<String>,
    /// Common to jobs with the same script, arguments and data.
    group: String,
}

const GROUP_COLUMNS: &[&str] = &["inst_id", "user", "gpu_type_spec", "group", "workload"];

/// The sum of the tasks of a job, which is a gang: its tasks and their instances run together.
#[derive(Default)]
struct Gang {
    gpus: f64,
    cores: f64,
    start: Option<f64>,
    end: Option<f64>,
    /// A task of the job has a count that is negative or no number.
    invalid: bool,
}

/// The first second of the year 10000, which no date of RFC 3339 can name.
const END_OF_DATES_S: f64 = 253_402_300_800.0;

impl Gang {
    fn add(&mut self, task: &TaskRow) {
        let counts = [task.inst_num, task.plan_cpu, task.plan_gpu];
        self.invalid |= counts.iter().flatten().any(|count| !count.is_finite() || *count < 0.0);
        let of = |percent: Option<f64>| task.inst_num.unwrap_or(1.0) * percent.unwrap_or(0.0) / 100.0;
        self.gpus += of(task.plan_gpu);
        self.cores += of(task.plan_cpu);
        self.start = self.start.into_iter().chain(task.start_time).reduce(f64::min);
        self.end = self.end.into_iter().chain(task.end_time).reduce(f64::max);
    }
}

/// The jobs have a workload that no catalog defines, with steps of about one second that add up to the time from the start of the
/// first task of the job to the end of the last. Devices are the sum over all instances, rounded up, as the simulator of the trace
/// adds them. Jobs that failed are kept, and jobs that had not ended are left out.
pub(super) fn read(
    jobs: Source<'_>,
    tasks: Source<'_>,
    groups: Option<Source<'_>>,
) -> Result<Imported, RowError> {
    let mut gangs: HashMap<String, Gang> = HashMap::new();
    for_each(tasks, TASK_COLUMNS, |task: TaskRow| {
        gangs.entry(task.job_name.clone()).or_default().add(&task);
        Ok(())
    })?;
    let mut imported = Imported::default();
    let mut by_instance: HashMap<String, usize> = HashMap::new();
    for_each(jobs, JOB_COLUMNS, |job: JobRow| {
        let instance = job.inst_id.clone();
        let line = line(job, &gangs)?;
        if matches!(line, Line::Job(_)) {
            by_instance.insert(instance, imported.rows.len());
        }
        imported.add(line);
        Ok(())
    })?;
    if let Some(groups) = groups {
        for_each(groups, GROUP_COLUMNS, |of: GroupRow| {
            if let Some(&number) = by_instance.get(&of.inst_id) {
                let row = &mut imported.rows[number];
                // A job has a line for each instance that was tagged.
                row.recurring_job =
                    Some(of.group).filter(|group| !group.is_empty()).or(row.recurring_job.take());
                row.device_type = of.gpu_type_spec.or(row.device_type.take());
            }
            Ok(())
        })?;
    }
    Ok(imported.starting_at_zero())
}

fn line(job: JobRow, gangs: &HashMap<String, Gang>) -> Found<Line> {
    // Sums of percentages such as 33.3 are not exact.
    let whole = |sum: f64| (sum - 1e-9).ceil().max(0.0);
    let Some(gang) = gangs.get(&job.job_name) else {
        return Ok(Line::LeftOut("they ask for no GPU"));
    };
    if gang.invalid {
        return Ok(Line::LeftOut("a count of a task is negative or no number"));
    }
    let devices = whole(gang.gpus);
    if devices == 0.0 {
        return Ok(Line::LeftOut("they ask for no GPU"));
    }
    if devices > f64::from(u32::MAX) {
        return Ok(Line::LeftOut("they ask for more than 4,294,967,295 GPUs"));
    }
    let devices = devices as u32;
    let ended = matches!(job.status.as_str(), "Terminated" | "Failed");
    let (true, Some(arrival), Some(start), Some(end)) = (ended, job.start_time, gang.start, gang.end) else {
        return Ok(Line::LeftOut("they had not ended, or have no times"));
    };
    if arrival >= END_OF_DATES_S {
        return Ok(Line::LeftOut("their arrival is after the year 9999"));
    }
    if end == start {
        return Ok(Line::LeftOut("their duration is 0"));
    }
    let arrival = Duration::try_from_secs_f64(arrival)
        .map_err(|_| ("start_time", format!("{arrival} is no time; drop the line")))?;
    let (steps, step_ns) = steps_of_a_second(seconds("job_name", end - start)?);
    let row = TraceRow {
        name: job.job_name,
        submit_s: arrival.as_secs_f64(),
        submit_utc: submit_utc(arrival),
        job: Some(Job { workload: "pai-2020".into(), global_batch: None, plan: None, device: None }),
        steps,
        step_ns,
        devices: Some(devices),
        cpus: cores_per_rank("job_name", whole(gang.cores) as u32, devices)?,
        user: job.user,
        ..TraceRow::default()
    };
    Ok(row.into())
}

/// Calls a function with each row of a table without a header. Tables of millions of lines are not kept.
fn for_each<T: DeserializeOwned>(
    Source { file, text }: Source<'_>,
    columns: &[&str],
    mut row: impl FnMut(T) -> Found<()>,
) -> Result<(), RowError> {
    let header = csv::StringRecord::from(columns);
    let mut reader = csv::ReaderBuilder::new().has_headers(false).flexible(true).from_reader(text);
    let mut record = csv::StringRecord::new();
    while reader.read_record(&mut record).map_err(|error| rows::row_error(file, None, &error))? {
        if record == header {
            continue;
        }
        let line = record.position().map_or(1, csv::Position::line);
        if record.len() != columns.len() {
            let message = format!(
                "has {} columns, and {} are expected: {}; give the tables in the order of `sched trace import --help`",
                record.len(),
                columns.len(),
                columns.join(",")
            );
            return Err(RowError::Row { file: file.into(), line, message });
        }
        let parsed = record.deserialize(Some(&header));
        let parsed = parsed.map_err(|error| rows::row_error(file, Some(&header), &error))?;
        row(parsed).map_err(|(column, message)| RowError::Field {
            file: file.into(),
            line,
            column: column.into(),
            message,
        })?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::{ImportError, TraceFormat, read};
    use super::*;

    fn import(jobs: &str, tasks: &str, groups: Option<&str>) -> Result<Imported, ImportError> {
        let table = |file: &'static str, text| Source { file: Path::new(file), text: str::as_bytes(text) };
        let mut tables = vec![table("jobs.csv", jobs), table("tasks.csv", tasks)];
        tables.extend(groups.map(|groups| table("groups.csv", groups)));
        read(TraceFormat::Pai2020, &tables)
    }

    /// The first job is the example of the trace's own documentation: 14 cores and one GPU for a parameter server and two workers.
    #[test]
    fn the_tasks_of_a_job_are_one_gang() {
        let jobs = "j0,i0,ana,Terminated,4550879.0,4551416.0\nj1,i1,bob,Failed,4550800.0,4550990.0\n\
                    j2,i2,bob,Running,4550900.0,\nj3,i3,bob,Terminated,4550900.0,4550901.0\n\
                    j4,i4,bob,Terminated,4550900.0,4550901.0\n";
        let tasks = "j0,ps,1.0,Terminated,4550890.0,4551400.0,600.0,29.29,0.0,\n\
                     j0,worker,2.0,Terminated,4550900.0,4551416.0,400.0,29.29,50.0,T4\n\
                     j1,worker,3.0,Failed,4550900.0,4550990.0,1000.0,29.29,150.0,V100\n\
                     j2,worker,1.0,Running,4550900.0,,100.0,1,100.0,T4\n\
                     j3,worker,1.0,Terminated,4550900.0,4550900.0,100.0,1,25.0,T4\n\
                     j4,worker,1.0,Terminated,4550900.0,4550901.0,100.0,1,,CPU\n";
        let groups = "i0,ana,,g-7,nmt\ni1,bob,V100M32,g-8,\ni1,bob,,,\ni9,eve,T4,g-9,\n";
        let Imported { rows, left_out } = import(jobs, tasks, Some(groups)).unwrap();
        let [early, late] = &rows[..] else { panic!("{rows:?}") };
        // Three instances with one and a half GPUs are 4.5 GPUs, and 30 cores are 6 for each of 5.
        assert_eq!(
            (early.name.as_str(), early.submit_s, early.devices(), early.cpus),
            ("j1", 0.0, 5, Some(6))
        );
        assert_eq!(
            (early.device_type.as_deref(), early.recurring_job.as_deref()),
            (Some("V100M32"), Some("g-8"))
        );
        assert_eq!((early.user.as_str(), early.length_ns()), ("bob", Some(90_000_000_000)));
        assert_eq!((late.name.as_str(), late.submit_s, late.devices(), late.cpus), ("j0", 79.0, 1, Some(14)));
        assert_eq!((late.device_type.as_deref(), late.recurring_job.as_deref()), (None, Some("g-7")));
        // From the start of the parameter server to the end of the workers.
        assert_eq!(late.length_ns(), Some(526_000_000_000));
        // 4,550,879 s are 52 days, 16 h, 7 min and 59 s.
        assert_eq!(late.submit_utc.as_deref(), Some("1970-02-22T16:07:59Z"));
        let expected = [
            ("their duration is 0", 1),
            ("they ask for no GPU", 1),
            ("they had not ended, or have no times", 1),
        ];
        assert_eq!(left_out, expected.into());

        let header = format!("{}\n", TASK_COLUMNS.join(","));
        let without_groups = import(jobs, &(header + tasks), None).unwrap();
        assert_eq!(without_groups.rows.len(), 2);
        assert!(
            without_groups.rows.iter().all(|row| row.recurring_job.is_none() && row.device_type.is_none())
        );
    }

    #[test]
    fn jobs_with_impossible_counts_or_times_are_left_out() {
        for (arrival, instances, gpus, reason) in [
            ("5", "1", "1e-8", "they ask for no GPU"),
            ("5", "1", "-100", "a count of a task is negative or no number"),
            ("5", "1", "NaN", "a count of a task is negative or no number"),
            ("5", "1e6", "1e9", "they ask for more than 4,294,967,295 GPUs"),
            ("1e12", "1", "100", "their arrival is after the year 9999"),
            ("1e19", "1", "100", "their arrival is after the year 9999"),
        ] {
            let jobs = format!("j0,i0,u,Terminated,{arrival},9\nj1,i1,u,Terminated,5,9\n");
            let tasks = format!(
                "j0,w,{instances},Terminated,5,9,100,1,{gpus},T4\n\
                 j1,w,1,Terminated,5,9,100,1,200,T4\n"
            );
            let Imported { rows, left_out } = import(&jobs, &tasks, None).unwrap();
            assert_eq!(left_out, [(reason, 1)].into());
            let [row] = &rows[..] else { panic!("{rows:?}") };
            assert_eq!((row.name.as_str(), row.devices()), ("j1", 2));
        }
    }

    #[test]
    fn invalid_rows_are_refused_with_file_line_and_column() {
        let job = "j0,i0,u,Terminated,5,9\n";
        let task = "j0,w,1,Terminated,5,9,100,1,100,T4\n";
        for (jobs, tasks, message) in [
            (task, job, "tasks.csv: line 1: has 6 columns, and 10 are expected: job_name,task_name"),
            ("j0,i0,u,Terminated,soon,9\n", task, "jobs.csv: line 1: column 'start_time': invalid float"),
            ("j0,i0,u,Terminated,-5,9\n", task, "jobs.csv: line 1: column 'start_time': -5 is no time"),
            (
                job,
                "j0,w,1,Terminated,9,5,100,1,100,T4\n",
                "jobs.csv: line 1: column 'job_name': -4 is no length of time",
            ),
            (
                job,
                "j0,w,1,Terminated,5,9,9e6,1,100,T4\n",
                "jobs.csv: line 1: column 'job_name': 90000 cores are too many for 1 GPUs",
            ),
        ] {
            let error = import(jobs, tasks, None).unwrap_err().to_string();
            assert!(error.starts_with(message), "{error}");
        }
        let one = [Source { file: Path::new("jobs.csv"), text: job.as_bytes() }];
        let error = read(TraceFormat::Pai2020, &one).unwrap_err().to_string();
        let expected = "--format pai-2020 reads pai_job_table.csv, pai_task_table.csv and, if wanted, pai_group_tag_table.csv, in \
                        this order; the number of files is 1";
        assert_eq!(error, expected);
    }
}
