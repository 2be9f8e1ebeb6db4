//! Helios: arrival times, durations, GPUs, cores, users and virtual clusters, also with the names of jobs of the artifact of Lucid.

use super::timed::{Layout, Length};

/// The columns, with `jobname`, which only the files of Lucid have. `cpu_num` counts the cores of all hosts of the job, and `duration`
/// is in seconds, from start to end.
///
/// The state of a job is left out: a job that failed or was cancelled held its GPUs as long as one that was completed, and
/// the simulators of Helios and Lucid run all of them. So are the start and the end that the scheduler of the cluster chose, and
/// the columns of Lucid about models, which were drawn from the durations. Jobs without a GPU are left out, as in these simulators.
pub(super) fn layout() -> Layout<'static> {
    Layout {
        workload: "helios",
        name: "job_id",
        arrival: "submit_time",
        gpus: "gpu_num",
        length: Length::Duration("duration"),
        cores: Some(("cpu_num", 1.0)),
        user: "user",
        vc: "vc",
        recurring_job: "jobname",
        ..Layout::default()
    }
}

#[cfg(test)]
mod tests {
    use super::super::{ImportError, Imported, TraceFormat, read_text, refusal};

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
        assert_eq!(left_out, [("a duration of 0".into(), 1), ("no GPU requested".into(), 1)].into());
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
    fn invalid_rows_are_left_out_and_refused_with_line_and_column_if_strict() {
        let header = "job_id,user,vc,gpu_num,cpu_num,submit_time,duration\n";
        let valid = "9,u,v,2.0,8.0,2020-06-09 18:41:00+08:00,5\n";
        for (row, reason, message) in [
            (
                "1,u,v,1,1,yesterday,5",
                "'submit_time' is no date such as",
                "submit_time': 'yesterday' is no date",
            ),
            ("1,u,v,1,1,2020-06-09 18:41:00,-5", "'duration' is below 0", "duration': '-5' is below 0"),
            ("1,u,v,1,1,2020-06-09 18:41:00,", "'duration' is empty", "duration': is empty"),
            (
                "1,u,v,1,1,2020-06-09 18:41:00,inf",
                "'duration' is not finite",
                "duration': 'inf' is not finite",
            ),
            ("1,u,v,1,1,2020-06-09 18:41:00,NaN", "'duration' is empty", "duration': is empty"),
            ("1,u,v,1,1,2020-06-09 18:41:00,0", "a duration of 0", "duration': a duration of 0"),
            (
                "1,u,v,1,1,2020-06-09 18:41:00,4e9",
                "'duration' is more than a hundred",
                "duration': '4e9' is more than",
            ),
            (
                "1,u,v,one,1,2020-06-09 18:41:00,5",
                "'gpu_num' is no whole number",
                "gpu_num': 'one' is no whole",
            ),
            (
                "1,u,v,2.5,1,2020-06-09 18:41:00,5",
                "'gpu_num' is no whole number",
                "gpu_num': '2.5' is no whole",
            ),
            (
                "1,u,v,1,70000,2020-06-09 18:41:00,5",
                "more cores than 65,535",
                "cpu_num': 70000 cores are too many",
            ),
            (",u,v,1,1,2020-06-09 18:41:00,5", "'job_id' is empty", "job_id': is empty"),
            ("1,u,v,1", "the line has another number", "has 4 cells, and the table has 7 columns"),
        ] {
            let text = format!("{header}{valid}\n{row}\n");
            let Imported { rows, left_out } = import(&text).unwrap();
            assert_eq!((rows.len(), rows[0].devices()), (1, 2), "{row}");
            assert_eq!(rows[0].submit_utc.as_deref(), Some("2020-06-09T10:41:00Z"));
            let [(counted, 1)] =
                left_out.iter().map(|(reason, jobs)| (reason, *jobs)).collect::<Vec<_>>()[..]
            else {
                panic!("{left_out:?}")
            };
            assert!(counted.starts_with(reason), "{counted}");
            let error = refusal(TraceFormat::Helios, "h.csv", &text);
            assert!(error.starts_with("h.csv: line 4: ") && error.contains(message), "{error}");
        }
        let error = import("job_id,user\n").unwrap_err().to_string();
        assert!(
            error.starts_with("h.csv: line 1: there is no column 'submit_time' in the first line"),
            "{error}"
        );
    }
}
