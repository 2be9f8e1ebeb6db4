//! What is asked of a run alike, whether it is simulated or not.

use std::{path::PathBuf, time::Duration};

use schema::manifest::Scheduling;

use super::above_zero;

/// What is known of jobs and switches, and what holds for all jobs.
#[derive(clap::Args)]
pub(super) struct Rules {
    /// A run of `profile` that measured the jobs, alone or together: what the policy believes, and what is predicted from. Repeatable;
    /// of a job alone those that began within 15 minutes of the newest answer, of jobs together all, by their geometric mean.
    #[arg(long, value_name = "RUN")]
    pub(super) table: Vec<PathBuf>,
    /// What switches cost, as `profile calibrate` has measured it.
    #[arg(long, value_name = "FILE")]
    pub(super) machine: Option<PathBuf>,
    /// What it costs to go on after a stop or a pause, for jobs of which that was not measured.
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    pub(super) switch_cost: Option<Duration>,
    /// The interval between checkpoints of each job that trains [default: a checkpoint only where a job is stopped].
    ///
    /// A job that fails goes on from there, and so does a run that is resumed.
    #[arg(long, value_name = "TIME", value_parser = above_zero)]
    checkpoint_every: Option<Duration>,
    /// How many jobs a policy may put on a device at once.
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..))]
    jobs_per_device: u32,
    /// How often a job that fails is started again.
    #[arg(long, value_name = "N", default_value_t = 2)]
    retries: u32,
    /// A file of further workloads.
    #[arg(long, value_name = "FILE")]
    pub(super) catalog: Vec<PathBuf>,
}

impl Rules {
    /// As in the manifest of a run on devices. `progress_every` is the interval between reports of progress.
    pub(super) fn scheduling(&self, policy: &str, progress_every: Option<Duration>) -> Scheduling {
        let seconds = |time: Option<Duration>| time.map(|time| time.as_secs_f64());
        Scheduling {
            policy: policy.into(),
            tables: self.table.len() as u32,
            switch_cost_s: seconds(self.switch_cost),
            checkpoint_every_s: seconds(self.checkpoint_every),
            progress_every_s: seconds(progress_every),
            jobs_per_device: self.jobs_per_device,
            retries: self.retries,
            simulated: None,
        }
    }
}
