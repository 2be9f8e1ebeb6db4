//! The columns of traces of clusters and simulators.
//!
//! A job that failed or was cancelled held its GPUs as long as one that was completed, so that jobs of all states are kept.

use super::timed::{Layout, Length};

/// Seren and Kalos: `trace_seren.csv` and `trace_kalos.csv`. `duration` is not read, because that of Kalos contains the time in the
/// queue, in the example of its own documentation.
pub(super) fn acme() -> Layout<'static> {
    Layout {
        workload: "acme",
        name: "job_id",
        arrival: "submit_time",
        gpus: "gpu_num",
        length: Length::Between("start_time", "end_time"),
        cores: Some(("cpu_num", 1.0)),
        user: "user",
        ..Layout::default()
    }
}

/// ElasticFlow: `job_id,submit_time,iteration,model_name,ddl,batch_size,num_gpu,duration` and further columns. Deadlines are left out.
pub(super) fn elastic_flow() -> Layout<'static> {
    Layout {
        workload: "elasticflow",
        name: "job_id",
        arrival: "submit_time",
        gpus: "num_gpu",
        length: Length::Duration("duration"),
        steps: "iteration",
        ..Layout::default()
    }
}

/// PAI in 2023: `openb_pod_list_*.csv`. A pod that asks for a part of a GPU gets one. `gpu_spec` names types of GPU.
/// `pod_phase` is left out: nearly all pods whose last phase was running were deleted at times of their own.
pub(super) fn pai_2023() -> Layout<'static> {
    Layout {
        workload: "pai-2023",
        name: "name",
        arrival: "creation_time",
        gpus: "num_gpu",
        length: Length::Between("scheduled_time", "deletion_time"),
        cores: Some(("cpu_milli", 1000.0)),
        device_type: "gpu_spec",
        ..Layout::default()
    }
}

/// `sacct --parsable2`. A cancelled job that never ran has a duration of 0.
pub(super) fn sacct() -> Layout<'static> {
    Layout {
        workload: "sacct",
        name: "JobID",
        arrival: "Submit",
        gpus: "AllocTRES",
        length: Length::Duration("Elapsed"),
        cores: Some(("AllocCPUS", 1.0)),
        user: "User",
        vc: "Partition",
        recurring_job: "JobName",
        state: Some(("State", &["COMPLETING", "PENDING", "REQUEUED", "RESIZING", "RUNNING", "SUSPENDED"])),
        has_parts: true,
        ..Layout::default()
    }
}

/// Shockwave: lines of tabs without a header, as its `parse_trace` splits them. The duration is that of the job alone; that it
/// changes its batch while it trains (`mode`) is left out.
pub(super) fn shockwave() -> Layout<'static> {
    Layout {
        workload: "shockwave",
        headless: &[
            "job_type",
            "command",
            "working_directory",
            "num_steps_arg",
            "needs_data_dir",
            "total_steps",
            "scale_factor",
            "mode",
            "priority_weight",
            "SLO",
            "duration",
            "arrival_time",
        ],
        arrival: "arrival_time",
        gpus: "scale_factor",
        length: Length::Duration("duration"),
        steps: "total_steps",
        ..Layout::default()
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Imported, TraceFormat, read_text, refusal};

    type Row<'a> = (&'a str, f64, u32, Option<u64>, Option<u64>, Option<u16>);

    /// Name, arrival, devices, steps, length in seconds and cores of each job, and why others are left out.
    fn check(format: TraceFormat, text: &str, rows: &[Row<'_>], left_out: &[(&str, usize)]) -> Imported {
        let imported = read_text(format, "t", text).unwrap();
        let read: Vec<Row<'_>> = imported
            .rows
            .iter()
            .map(|row| {
                let length_s = row.length_ns().map(|ns| ns.div_ceil(1_000_000_000));
                (row.name.as_str(), row.submit_s, row.devices(), row.steps, length_s, row.cpus)
            })
            .collect();
        assert_eq!(read, rows, "{format}");
        let counts: Vec<(&str, usize)> =
            imported.left_out.iter().map(|(reason, rows)| (reason.as_str(), *rows)).collect();
        assert_eq!(counts, left_out, "{format}");
        imported
    }

    /// The columns of `trace_kalos.csv`. The duration of its example contains the time in the queue.
    #[test]
    fn jobs_of_acme_run_from_start_to_end() {
        let text = "job_id,user,node_num,gpu_num,cpu_num,mem_per_pod_GB,shared_mem_per_pod,type,state,submit_time,start_time,\
                    end_time,fail_time,stop_time,duration,queue,gpu_time\n\
                    d1,ua,2,16,240,1000,100.0,Other,FAILED,2023-05-17 11:00:58+00:00,2023-05-17 11:01:08+00:00,\
                    2023-05-17 11:01:16+00:00,2023-05-17 11:01:16+00:00,,18,10.0,288.0\n\
                    d2,ub,1,8,,1000,100.0,Other,CANCELLED,2023-05-17 19:00:00+08:00,2023-05-17 19:00:10+08:00,\
                    2023-05-17 19:01:10+08:00,,,70,10.0,560.0\n\
                    d3,ub,1,0,4,1000,100.0,Other,COMPLETED,2023-05-17 11:00:58+00:00,,,,,0,0,0\n";
        let rows = [("d2", 0.0, 8, Some(60), Some(60), None), ("d1", 58.0, 16, Some(8), Some(8), Some(15))];
        let imported = check(TraceFormat::Acme, text, &rows, &[("no GPU requested", 1)]);
        assert_eq!(imported.rows[0].submit_utc.as_deref(), Some("2023-05-17T11:00:00Z"));
        assert_eq!(imported.rows[1].user, "ua");
    }

    #[test]
    fn jobs_of_elasticflow_have_their_steps() {
        let text = "job_id,submit_time,iteration,model_name,ddl,batch_size,num_gpu,duration,best_effort\n\
                    0,10,200,resnet50_cifar10,4426,256,2,100,0\n1,25.0,0,vgg16,4426,256,1,100,0\n";
        let left_out = [("'iteration' is no number above 0", 1)];
        check(TraceFormat::ElasticFlow, text, &[("0", 0.0, 2, Some(200), Some(100), None)], &left_out);
    }

    #[test]
    fn pods_of_pai_run_from_their_schedule_to_their_deletion() {
        let text = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time\n\
                    p0,88000,1,8,1000,,LS,Succeeded,9437497,9437607,9437507.0\n\
                    p1,4000,1,1,220,V100M32,BE,Running,9437500,9437600,9437500.0\n\
                    p2,6000,1,1,1000,V100M16|V100M32,BE,Failed,9437499,9437609,9437509.0\n\
                    p3,6000,1,1,1000,,BE,Pending,9437499,9437609,\n\
                    p4,6000,1,1,1000,,BE,Failed,9437499,9437500,9437509.0\n";
        let rows = [
            ("p0", 0.0, 8, Some(100), Some(100), Some(11)),
            ("p2", 2.0, 1, Some(100), Some(100), Some(6)),
            ("p1", 3.0, 1, Some(100), Some(100), Some(4)),
        ];
        let left_out = [("'deletion_time' is before 'scheduled_time'", 1), ("'scheduled_time' is empty", 1)];
        let imported = check(TraceFormat::Pai2023, text, &rows, &left_out);
        let types: Vec<_> = imported.rows.iter().map(|row| row.device_type.as_deref()).collect();
        assert_eq!(types, [None, None, Some("V100M32")]);
    }

    #[test]
    fn jobs_of_slurm_have_the_gpus_that_they_were_given() {
        let text = "JobID|JobName|User|Partition|State|Submit|Elapsed|AllocCPUS|AllocTRES\n\
                    7|train \"a|ana|gpu|COMPLETED|2024-03-01T08:00:00|1-00:00:10|16|billing=16,cpu=16,gres/gpu:a100=4,gres/gpu=4,node=1\n\
                    7.batch|batch|||COMPLETED|2024-03-01T08:00:00|1-00:00:10|16|cpu=16,gres/gpu=4\n\
                    8_1|b|bob|gpu|CANCELLED by 10|2024-03-01T08:01:00|00:05:00|8|cpu=8,gres/gpu:v100=2\n\
                    9|c|bob|cpu|FAILED|2024-03-01T08:01:00|00:05:00|8|cpu=8,node=1\n\
                    10|c|bob|gpu|RUNNING|2024-03-01T08:01:00|00:05:00|8|cpu=8,gres/gpu=1\n\
                    11|c|bob|gpu|CANCELLED by 10|2024-03-01T08:01:00|00:00:00|8|cpu=8,gres/gpu=1\n\
                    12|c|bob|gpu|PENDING|Unknown|00:00:00|8|\n13|c|bob|gpu|FAILED|2024-03-01T08:02:00|00:05|8|\n";
        let rows = [
            ("7", 0.0, 4, Some(86_410), Some(86_410), Some(4)),
            ("8_1", 60.0, 2, Some(300), Some(300), Some(4)),
        ];
        let left_out = [
            ("'AllocTRES' is empty", 1),
            ("a duration of 0", 1),
            ("a job that had not ended", 2),
            ("no GPU requested", 1),
        ];
        let imported = check(TraceFormat::Sacct, text, &rows, &left_out);
        let first = &imported.rows[0];
        assert_eq!((first.user.as_str(), first.vc.as_str()), ("ana", "gpu"));
        assert_eq!(first.recurring_job.as_deref(), Some("train \"a"));
        let error = refusal(TraceFormat::Sacct, "t", text);
        assert_eq!(error, "t: line 6: column 'State': a job that had not ended");
    }

    #[test]
    fn jobs_of_shockwave_are_lines_without_a_header() {
        let job = |gpus: &str, arrival: &str| {
            format!(
                "LM (batch size 10)\tpython3 main.py --cuda\tlm\t--steps\t1\t3000\t{gpus}\tgns\t1\t-1.000000\t600\t{arrival}\n"
            )
        };
        let rows = [
            ("shockwave-1", 0.0, 2, Some(3000), Some(600), None),
            ("shockwave-2", 56.0, 1, Some(3000), Some(600), None),
        ];
        check(TraceFormat::Shockwave, &(job("2", "0") + &job("1", "56")), &rows, &[]);
        let error = read_text(TraceFormat::Shockwave, "t", "a\tb\n").unwrap_err().to_string();
        assert!(
            error.starts_with("t: line 1: has 2 columns, and 12 are expected: job_type,command"),
            "{error}"
        );
    }
}
