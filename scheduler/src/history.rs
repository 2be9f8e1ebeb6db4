//! The history of a run: the jobs of an earlier run, from which a policy may learn.

use std::path::Path;

use formats::{
    history::{EarlierRun, PastJob},
    rows::Outcome,
    trace::Trace,
};
use record::rows::RowError;
use schema::{catalog::Catalog, units::Nanos};

use crate::inputs::{self, Purpose};

/// Reads the jobs of an earlier run from a trace with the lengths of its jobs, or from the outcomes of a run. Jobs that had not
/// ended, or that never ran, have no duration and are left out of outcomes. Jobs that failed are kept: they held their devices.
///
/// # Errors
/// Fails if the file is invalid, at the first job of a trace whose length is not known, and if no job is left.
pub fn read(path: &Path, catalog: &Catalog) -> Result<Vec<PastJob>, RowError> {
    let jobs = match EarlierRun::read(path)? {
        EarlierRun::Trace(trace) => of_trace(&trace, catalog)?,
        EarlierRun::Outcomes(outcomes) => outcomes.into_iter().filter_map(of_outcome).collect(),
    };
    if jobs.is_empty() {
        let message = "no job of this file has ended; name the file of a run that has ended".into();
        return Err(RowError::Row { file: path.into(), line: 1, message });
    }
    Ok(jobs)
}

fn of_trace(trace: &Trace, catalog: &Catalog) -> Result<Vec<PastJob>, RowError> {
    // The number of devices is that of another cluster.
    let asked = inputs::jobs(trace, catalog, Purpose::Simulate, u32::MAX)?;
    let past = |(number, asked): (usize, engine::job::JobRequest)| {
        let length = trace.rows[number].length_ns().map(Nanos);
        let message = "is empty, so that the duration of this job is not known; write the time of a step, or name the outcomes.csv of \
                       a run of this trace";
        Ok(PastJob {
            workload: asked.what.workload().into_owned(),
            global_batch: asked.what.global_batch(),
            submit_utc: asked.submit_utc(),
            plan: asked.plan,
            devices: asked.devices,
            user: asked.user.clone(),
            vc: asked.virtual_cluster.clone(),
            recurring_job: asked.recurring_job.clone(),
            name: asked.name,
            duration_ns: length.ok_or_else(|| trace.line(number).refuse("step_ns", message))?,
        })
    };
    asked.into_iter().enumerate().map(past).collect()
}

fn of_outcome(outcome: Outcome) -> Option<PastJob> {
    outcome.end_ns?;
    Some(PastJob {
        name: outcome.name,
        user: outcome.user,
        vc: outcome.vc,
        recurring_job: outcome.recurring_job,
        workload: outcome.workload,
        global_batch: outcome.global_batch,
        plan: outcome.plan,
        devices: outcome.devices,
        submit_utc: outcome.submit_utc,
        duration_ns: outcome.running_ns.filter(|ns| *ns > 0).map(Nanos)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_text(text: &str) -> Result<Vec<PastJob>, String> {
        let folder = tempfile::tempdir().expect("there is a place for files");
        let path = folder.path().join("h.csv");
        std::fs::write(&path, text).expect("it can be written");
        let error = |error: RowError| error.to_string().replace(&format!("{}/", folder.path().display()), "");
        read(&path, &Catalog::embedded()).map_err(error)
    }

    #[test]
    fn a_trace_and_outcomes_are_both_a_history() {
        let trace = "name,submit_s,job,steps,step_ns,user,vc,recurring_job,submit_utc,devices\n\
            a,0,any,100,1000000,u,v,nightly,2020-08-01T08:00:00Z,3\nb,1,lstm,7,2000000,,,,,\n";
        let [a, b] = &read_text(trace).unwrap()[..] else { panic!("two jobs") };
        let expected = PastJob {
            name: "a".into(),
            user: "u".into(),
            vc: "v".into(),
            recurring_job: Some("nightly".into()),
            workload: "any".into(),
            global_batch: None,
            plan: None,
            devices: 3,
            submit_utc: Some("2020-08-01T08:00:00Z".into()),
            duration_ns: Nanos(100_000_000),
        };
        assert_eq!(*a, expected);
        let lstm = Catalog::embedded().get("lstm").unwrap().clone();
        assert_eq!((b.global_batch, b.plan, b.devices), (Some(lstm.global_batch), Some(lstm.plan), 1));
        // Outcomes of before the columns for recurring jobs and dates. One job did not end, and one was not admitted.
        let header = "job,name,workload,global_batch,plan,devices,user,vc,class,submit_ns,start_ns,end_ns,jct_ns,queued_ns,\
            switching_ns,running_ns,packed_ns,paused_ns,device_time_ns,starts,pauses,retries,steps,steps_asked,steps_lost,\
            predicted_jct_ns,status,err,err_detail\n";
        let rows = "0,a,lstm,20,dp1,2,u,v,guaranteed,0,5,105,105,5,20,80,0,0,160,1,0,0,9,9,0,,ok,,\n\
            1,b,lstm,20,dp1,1,u,v,guaranteed,0,5,45,,5,0,40,0,0,40,1,0,0,3,9,0,,failed,crashed,x\n\
            2,c,lstm,20,dp1,1,u,v,guaranteed,0,5,,,5,0,40,0,0,40,1,0,0,3,9,0,,failed,interrupted,x\n\
            3,d,lstm,20,dp1,9,u,v,guaranteed,0,,,,,,,,,,0,0,0,0,9,0,,unsupported,unsupported,x\n";
        let past = read_text(&format!("{header}{rows}")).unwrap();
        let found: Vec<_> =
            past.iter().map(|job| (job.name.as_str(), job.devices, job.duration_ns.0)).collect();
        assert_eq!(found, [("a", 2, 80), ("b", 1, 40)], "the running time");
    }

    #[test]
    fn a_history_that_cannot_be_is_refused_by_line_and_column() {
        for (text, message) in [
            (
                "name,submit_s,job,steps\na,0,lstm,5\n",
                "h.csv: line 2: column 'step_ns': is empty, so that the duration",
            ),
            ("name,submit_s,job,steps,step_ns\na,0,any,x,5\n", "h.csv: line 2: column 'steps': "),
            ("name,user\na,u\n", "h.csv: line 1: this is neither a trace"),
            ("job,submit_ns\n0,x\n", "h.csv: line 2: "),
            ("name,submit_s,job,steps,step_ns\n", "h.csv: line 1: no job of this file has ended"),
        ] {
            let error = read_text(text).unwrap_err();
            assert!(error.starts_with(message), "{error}");
        }
    }
}
