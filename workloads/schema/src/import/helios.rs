//! Helios: arrival times, durations, GPUs, cores, users and virtual clusters, also with the names of jobs of the artifact of Lucid.

use serde::Deserialize;

use super::{
    Found, Imported, Line, Source, cores_per_rank, date, rows_of, seconds, steps_of_a_second, submit_utc,
};
use crate::{job::Job, rows::RowError, trace::TraceRow};

/// A line. The state of a job is left out: a job that failed or was cancelled held its GPUs as long as one that was completed, and
/// the simulators of Helios and Lucid run all of them. So are the start and the end that the scheduler of the cluster chose, and
/// the columns of Lucid about models, which were drawn from the durations.
#[derive(Deserialize)]
struct HeliosRow {
    job_id: String,
    user: String,
    vc: String,
    /// Only in the files of Lucid.
    #[serde(default)]
    jobname: String,
    gpu_num: u32,
    /// Cores of all hosts of the job.
    cpu_num: u32,
    /// As `2020-06-09 18:41:01`, in an unknown time zone, which is taken to be UTC.
    submit_time: String,
    /// In seconds, from start to end.
    duration: f64,
}

/// The jobs have a workload that no catalog defines, with steps of about one second that add up to their duration. Jobs without a
/// GPU are left out, as in the simulators of Helios and Lucid, and so are jobs that ended when they started.
pub(super) fn read(source: Source<'_>) -> Result<Imported, RowError> {
    Ok(rows_of(source, line)?.starting_at_zero())
}

fn line(_: usize, row: HeliosRow) -> Found<Line> {
    if row.gpu_num == 0 {
        return Ok(Line::LeftOut("they ask for no GPU"));
    }
    if row.duration == 0.0 {
        return Ok(Line::LeftOut("their duration is 0"));
    }
    let at = date("submit_time", &row.submit_time)?;
    let (steps, step_ns) = steps_of_a_second(seconds("duration", row.duration)?);
    let row = TraceRow {
        name: row.job_id,
        submit_s: at.as_secs_f64(),
        submit_utc: submit_utc(at),
        job: Some(Job { workload: "helios".into(), global_batch: None, plan: None, device: None }),
        steps,
        step_ns,
        devices: Some(row.gpu_num),
        cpus: cores_per_rank("cpu_num", row.cpu_num, row.gpu_num)?,
        user: row.user,
        vc: row.vc,
        recurring_job: Some(row.jobname).filter(|name| !name.is_empty()),
        ..TraceRow::default()
    };
    Ok(row.into())
}

#[cfg(test)]
mod tests {
    use super::super::{ImportError, TraceFormat, read_text};
    use super::*;

    fn import(text: &str) -> Result<Imported, ImportError> {
        read_text(TraceFormat::Helios, "h.csv", text)
    }

    /// The form of `cluster_log.csv` of HeliosData.
    #[test]
    fn a_job_runs_as_long_as_it_did_whatever_its_state() {
        let header =
            "job_id,user,vc,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,duration,queue\n";
        let at = "2020-06-09 18:41:28,2020-06-09 18:41:28,2020-06-17 14:15:21";
        let text = format!(
            "{header}7,u2,vcB,4,18,1,FAILED,{at},249,0\n8,u1,vcA,0,4,1,COMPLETED,{at},9,0\n\
             9,u1,vcA,1,1,1,CANCELLED,{at},0,0\n3,u1,vcA,16,0,2,CANCELLED,2020-06-09 18:41:00,,,36848,0\n"
        );
        let Imported { rows, left_out } = import(&text).unwrap();
        let [early, late] = &rows[..] else { panic!("{rows:?}") };
        assert_eq!((early.name.as_str(), early.submit_s, early.devices(), early.cpus), ("3", 0.0, 16, None));
        assert_eq!((early.steps, early.length_ns()), (Some(36_848), Some(36_848_000_000_000)));
        // 18 cores for 4 GPUs are 5 for each, rounded up.
        assert_eq!((late.name.as_str(), late.submit_s, late.devices(), late.cpus), ("7", 28.0, 4, Some(5)));
        assert_eq!((late.user.as_str(), late.vc.as_str(), &late.recurring_job), ("u2", "vcB", &None));
        assert_eq!(late.submit_utc.as_deref(), Some("2020-06-09T18:41:28Z"));
        assert_eq!(left_out, [("their duration is 0", 1), ("they ask for no GPU", 1)].into());
    }

    /// The form of `cluster_full_log.csv` of Lucid.
    #[test]
    fn jobs_of_lucid_have_the_name_of_their_recurring_job() {
        let text = "job_id,user,vc,jobname,gpu_num,cpu_num,state,submit_time,duration,dataset,model,batchsize,amp,speed,\
                    gpu_util,gmem_util,gmem\n5,u,v,train-a,8,64,COMPLETED,2020-09-01 00:00:09,60.5,CIFAR-10,VGG,64,0,1,2,3,4\n";
        let rows = import(text).unwrap().rows;
        assert_eq!((rows[0].recurring_job.as_deref(), rows[0].cpus), (Some("train-a"), Some(8)));
        assert_eq!(
            (rows[0].steps, rows[0].length_ns().map(|ns| ns.abs_diff(60_500_000_000) <= 61)),
            (Some(61), Some(true))
        );
    }

    #[test]
    fn invalid_rows_are_refused_with_line_and_column() {
        let header = "job_id,user,vc,gpu_num,cpu_num,submit_time,duration\n";
        for (row, message) in [
            ("1,u,v,1,1,yesterday,5", "h.csv: line 2: column 'submit_time': 'yesterday' is no 2017-10-09"),
            ("1,u,v,1,1,2020-06-09 18:41:00,-5", "h.csv: line 2: column 'duration': -5 is no length of time"),
            ("1,u,v,one,1,2020-06-09 18:41:00,5", "h.csv: line 2: column 'gpu_num': invalid digit"),
            (
                "1,u,v,1,70000,2020-06-09 18:41:00,5",
                "h.csv: line 2: column 'cpu_num': 70000 cores are too many",
            ),
        ] {
            let error = import(&format!("{header}{row}\n")).unwrap_err().to_string();
            assert!(error.starts_with(message), "{error}");
        }
    }
}
