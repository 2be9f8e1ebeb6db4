//! PAI 2020: the jobs of a cluster of Alibaba with their tasks, users and groups, in three tables.
//!
//! The published tables have no header; a first line with the names of the columns is skipped. Times are seconds of Unix time with
//! another date, of which the hour of the day and the day of the week are right in UTC+8.

use std::collections::HashMap;

use record::rows::RowError;
use schema::job::Job;

use super::{
    Imported, Jobs, LeftOut, Odd, Source, cores_per_rank, steps_of_a_second, submit_utc,
    table::{Cells, Table},
};
use crate::trace::TraceRow;

/// The columns of `pai_job_table.csv`. `start_time` is the arrival.
const JOB_COLUMNS: &[&str] = &["job_name", "inst_id", "user", "status", "start_time", "end_time"];

/// The columns of `pai_task_table.csv`. `start_time` is the start of the first instance of a task; `plan_cpu` and `plan_gpu` are the
/// cores and GPUs of each instance, in percent. `gpu_type` is the type that the scheduler of the cluster chose, and is left out.
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

/// The columns of `pai_group_tag_table.csv`. `gpu_type_spec` is the type of GPU that the job asks for, if it asks for one, and
/// `group` is common to jobs with the same script, arguments and data.
const GROUP_COLUMNS: &[&str] = &["inst_id", "user", "gpu_type_spec", "group", "workload"];

/// The sum of the tasks of a job, which is a gang: its tasks and their instances run together.
#[derive(Default)]
struct Gang {
    gpus: f64,
    cores: f64,
    start: Option<f64>,
    end: Option<f64>,
    /// Why a task of the job is invalid.
    odd: Option<Odd>,
}

impl Gang {
    /// Adds a task.
    ///
    /// # Errors
    /// The task is invalid.
    fn add(&mut self, task: &Cells<'_>) -> Result<(), Odd> {
        // An empty cell stands for no share, one instance, or a task that has not started or ended.
        let optional = |column: &'static str, absent: f64| match task.get(column) {
            "" => Ok(absent),
            _ => task.number(column),
        };
        let time = |column: &'static str| match task.get(column) {
            "" => Ok(None),
            _ => task.seconds(column).map(Some),
        };
        let instances = optional("inst_num", 1.0)?;
        self.gpus += instances * optional("plan_gpu", 0.0)? / 100.0;
        self.cores += instances * optional("plan_cpu", 0.0)? / 100.0;
        let (start, end) = (time("start_time")?, time("end_time")?);
        if let (Some(start), Some(end)) = (start, end)
            && end < start
        {
            task.between(("start_time", start), ("end_time", end))?;
        }
        self.start = self.start.into_iter().chain(start).reduce(f64::min);
        self.end = self.end.into_iter().chain(end).reduce(f64::max);
        Ok(())
    }
}

/// The jobs have a workload that no catalog defines, with steps of about one second that add up to the time from the start of the
/// first task of the job to the end of the last. Devices are the sum over all instances, rounded up, as the simulator of the trace
/// adds them. Jobs that failed are kept, and jobs that had not ended are left out. A job with an invalid task is left out for the
/// reason of its task.
pub(super) fn read(
    jobs: Source<'_>,
    tasks: Source<'_>,
    groups: Option<Source<'_>>,
    mut left_out: LeftOut,
) -> Result<Imported, RowError> {
    let mut gangs: HashMap<String, Gang> = HashMap::new();
    let is_strict = left_out.is_strict;
    Table::without_header(tasks, b",;\t", TASK_COLUMNS).for_each(&mut left_out, |task| {
        let gang = gangs.entry(task.text("job_name")?.to_owned()).or_default();
        // The job of an invalid task is counted, and not the task.
        match gang.add(task) {
            Err(odd) if !is_strict => {
                gang.odd = Some(odd);
                Ok(())
            }
            added => added,
        }
    })?;
    let table = Table::without_header(jobs, b",;\t", JOB_COLUMNS);
    let mut instances = Vec::new();
    let mut jobs = Jobs::read(table, ("job_name", "start_time"), left_out, |cells| {
        let row = job(cells, &gangs)?;
        instances.push(cells.get("inst_id").to_owned());
        Ok(Some(row))
    })?;
    if let Some(groups) = groups {
        let by_instance: HashMap<String, usize> = instances.into_iter().zip(0..).collect();
        let Jobs { jobs: rows, left_out, .. } = &mut jobs;
        Table::without_header(groups, b",;\t", GROUP_COLUMNS).for_each(left_out, |tag| {
            if let Some(&number) = by_instance.get(tag.get("inst_id")) {
                let row = &mut rows[number].row;
                let cell = |column| Some(tag.get(column).to_owned()).filter(|cell| !cell.is_empty());
                // A job has a line for each instance that was tagged.
                row.recurring_job = cell("group").or(row.recurring_job.take());
                row.device_type = cell("gpu_type_spec").or(row.device_type.take());
            }
            Ok(())
        })?;
    }
    jobs.finish(true)
}

fn job(cells: &Cells<'_>, gangs: &HashMap<String, Gang>) -> Result<TraceRow, Odd> {
    let name = cells.text("job_name")?;
    // Sums of percentages such as 33.3 are not exact.
    let whole = |sum: f64| (sum - 1e-9).ceil().max(0.0);
    let no_gpu = || Odd::unsuitable("job_name", "no GPU requested");
    let gang = gangs.get(name).ok_or_else(no_gpu)?;
    if let Some(odd) = &gang.odd {
        return Err(odd.clone());
    }
    let devices = whole(gang.gpus);
    if devices == 0.0 {
        return Err(no_gpu());
    }
    if devices > f64::from(u32::MAX) {
        return Err(Odd::job("job_name", "more GPUs than 4,294,967,295"));
    }
    let devices = devices as u32;
    let not_ended = |column| Odd::job(column, "a job that had not ended, or has no times");
    if !matches!(cells.get("status"), "Terminated" | "Failed") {
        return Err(not_ended("status"));
    }
    let (Some(start), Some(end)) = (gang.start, gang.end) else { return Err(not_ended("job_name")) };
    if cells.get("start_time").is_empty() {
        return Err(not_ended("start_time"));
    }
    let arrival = cells.seconds("start_time")?;
    let (steps, step_ns) = steps_of_a_second(cells.between(("job_name", start), ("job_name", end))?);
    Ok(TraceRow {
        name: name.into(),
        submit_s: arrival,
        submit_utc: submit_utc(arrival),
        job: Some(Job { workload: "pai-2020".into(), global_batch: None, plan: None, device: None }),
        steps,
        step_ns,
        devices: Some(devices),
        cpus: cores_per_rank("job_name", whole(gang.cores) as u32, devices)?,
        user: cells.get("user").into(),
        ..TraceRow::default()
    })
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
        read(TraceFormat::Pai2020, &tables, None, false)
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
            ("a duration of 0".to_owned(), 1),
            ("no GPU requested".to_owned(), 1),
            ("a job that had not ended, or has no times".to_owned(), 1),
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
            ("5", "1", "1e-8", "no GPU requested"),
            ("5", "1", "-100", "'plan_gpu' is below 0"),
            ("5", "inf", "100", "'inst_num' is not finite"),
            ("5", "1e6", "1e9", "more GPUs than 4,294,967,295"),
            ("1e12", "1", "100", "'start_time' is more than a hundred years in seconds"),
            ("soon", "1", "100", "'start_time' is no number"),
            ("-5", "1", "100", "'start_time' is below 0"),
        ] {
            let jobs = format!("j0,i0,u,Terminated,{arrival},9\nj1,i1,u,Terminated,5,9\n");
            let tasks = format!(
                "j0,w,{instances},Terminated,5,9,100,1,{gpus},T4\n\
                 j1,w,1,Terminated,5,9,100,1,200,T4\n"
            );
            let Imported { rows, left_out } = import(&jobs, &tasks, None).unwrap();
            assert_eq!(left_out, [(reason.to_owned(), 1)].into());
            let [row] = &rows[..] else { panic!("{rows:?}") };
            assert_eq!((row.name.as_str(), row.devices()), ("j1", 2));
        }
    }

    #[test]
    fn invalid_rows_are_refused_with_file_line_and_column() {
        let job = "j0,i0,u,Terminated,5,9\n";
        let task = "j0,w,1,Terminated,5,9,100,1,100,T4\n";
        let error = import(task, job, None).unwrap_err().to_string();
        let message = "tasks.csv: line 1: has 6 columns, and 10 are expected: job_name,task_name";
        assert!(error.starts_with(message), "{error}");
        let early = format!("{}\n\n{}", task.replace("j0", "j1"), task.replace("5,9,", "9,5,"));
        for (jobs, tasks, message) in [
            (
                "j0,i0,u,Terminated,soon,9\n",
                task,
                "jobs.csv: line 1: column 'start_time': 'soon' is no number",
            ),
            (job, &early, "tasks.csv: line 4: column 'end_time': '5' is before 'start_time'"),
            (
                job,
                "j0,w,1,Terminated,5,9,9e6,1,100,T4\n",
                "jobs.csv: line 1: column 'job_name': 90000 cores are too many for 1 GPUs",
            ),
        ] {
            let table =
                |file: &'static str, text| Source { file: Path::new(file), text: str::as_bytes(text) };
            let tables = [table("jobs.csv", jobs), table("tasks.csv", tasks)];
            let error = read(TraceFormat::Pai2020, &tables, None, true).unwrap_err().to_string();
            assert!(error.starts_with(message), "{error}");
            let Imported { rows, left_out } = read(TraceFormat::Pai2020, &tables, None, false).unwrap();
            assert_eq!((rows.len(), left_out.values().sum::<usize>()), (0, 1), "{message}");
        }
        let one = [Source { file: Path::new("jobs.csv"), text: job.as_bytes() }];
        let error = read(TraceFormat::Pai2020, &one, None, false).unwrap_err().to_string();
        let expected = "--format pai-2020 reads pai_job_table.csv, pai_task_table.csv and, if wanted, pai_group_tag_table.csv, in \
                        this order; the number of files is 1";
        assert_eq!(error, expected);
    }
}
