//! Makes the rows of `outcomes.csv` from the state of jobs.

use formats::rows::Outcome;
use record::rows::{ErrorKind, Status};
use schema::units::Nanos;

use super::{packing::Packing, shares::Shares};
use crate::job::{Ending, Job, JobRequest, State};

/// Makes one row for each job. The first `arrived` jobs have arrived by `now`.
pub(super) fn outcomes(
    asked: &[JobRequest],
    jobs: &[Job],
    packing: &Packing,
    shares: &Shares,
    now: Nanos,
    arrived: usize,
) -> impl Iterator<Item = Outcome> {
    let row = move |(n, ((asked, job), share))| outcome(asked, job, packing, share, now, n < arrived);
    asked.iter().zip(jobs).zip(shares.until(now)).enumerate().map(row)
}

/// Whether the job was admitted. The engine refuses a job before it starts, and a worker when it has started.
pub(super) fn is_admitted(job: &Job) -> bool {
    status(&job.state) != Status::Unsupported || job.account.starts > 0
}

pub(super) fn end(state: &State) -> Option<Nanos> {
    match state {
        State::Ended { at, .. } => Some(*at),
        _ => None,
    }
}

fn status(state: &State) -> Status {
    match state {
        State::Ended { how: Ending::Finished, .. } => Status::Ok,
        State::Ended { how: Ending::ByPolicy, .. } => Status::EndedByPolicy,
        State::Ended { how: Ending::Failed(ErrorKind::Unsupported, _), .. } => Status::Unsupported,
        _ => Status::Failed,
    }
}

fn outcome(
    asked: &JobRequest,
    job: &Job,
    packing: &Packing,
    busy_share: Nanos,
    now: Nanos,
    has_arrived: bool,
) -> Outcome {
    let (status, end) = (status(&job.state), end(&job.state));
    let err = match &job.state {
        State::Ended { how: Ending::Finished | Ending::ByPolicy, .. } => None,
        State::Ended { how: Ending::Failed(kind, why), .. } => Some((*kind, why.to_string())),
        _ => Some((ErrorKind::Interrupted, "the run ended before the job did".to_owned())),
    };
    let is_admitted = is_admitted(job);
    let has_account = is_admitted && has_arrived;
    let account = if has_account { job.account_at(now) } else { job.account.clone() };
    let known = |time: Nanos| has_account.then_some(time.0);
    let (err, err_detail) = err.unzip();
    Outcome {
        job: asked.id,
        name: asked.name.clone(),
        workload: asked.what.workload().into_owned(),
        global_batch: asked.what.global_batch(),
        plan: asked.plan,
        devices: asked.devices,
        user: asked.user.clone(),
        vc: asked.virtual_cluster.clone(),
        class: asked.class,
        recurring_job: asked.recurring_job.clone(),
        submit_utc: asked.submit_utc(),
        submit_ns: asked.arrival.0,
        start_ns: account.first_start.map(|at| at.0),
        end_ns: end.filter(|_| is_admitted).map(|at| at.0),
        jct_ns: end.filter(|_| status == Status::Ok).map(|at| (at - asked.arrival).0),
        queued_ns: known(account.queued),
        switching_ns: known(account.switching),
        starting_ns: known(account.starting),
        running_ns: known(account.running),
        packed_ns: known(packing.of(asked.id, now)),
        paused_ns: known(account.paused),
        device_time_ns: known(account.device_time),
        busy_share_ns: known(busy_share),
        alone_ns: None,
        fair_ns: None,
        // It is not known when a command without steps of its own began to train.
        first_100_ns: job
            .first_steps
            .filter(|_| asked.steps.is_some() && asked.part_ns.is_none())
            .map(|at| (at - asked.arrival).0),
        starts: account.starts,
        pauses: account.pauses,
        stops: Some(account.stops),
        migrations: Some(account.migrations),
        retries: job.retries,
        steps: job.steps,
        steps_asked: asked.steps,
        steps_lost: account.steps_lost,
        loss: job.loss,
        steps_skipped: 0,
        skipped_ns: 0,
        predicted_jct_ns: None,
        status,
        err,
        err_detail,
    }
}
