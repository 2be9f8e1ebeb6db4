//! The options that `sched run` and `sched sim` have in common.

use std::{path::PathBuf, time::Duration};

use schema::{manifest::Scheduling, placement::Placement};

use super::above_zero;

/// The measurements of jobs and switches, and the settings for all jobs.
#[derive(clap::Args)]
pub(super) struct Rules {
    /// A run of `profile` that measured the jobs, alone or together. Policies and predictions use its step times. Repeatable: a
    /// step time alone is the geometric mean over the measurements that began within 15 minutes of the newest, and a slowdown of
    /// jobs together is that over all measurements.
    #[arg(long, value_name = "RUN")]
    pub(super) table: Vec<PathBuf>,
    /// The costs of switches that `profile calibrate` has measured.
    #[arg(long, value_name = "FILE")]
    pub(super) machine: Option<PathBuf>,
    /// The cost of a restart after a stop or a resumption after a pause, for jobs without a measurement.
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    pub(super) switch_cost: Option<Duration>,
    /// The interval between checkpoints of each job that trains [default: a checkpoint only when a job is stopped].
    ///
    /// A job that fails is started again from its last checkpoint, and so are the jobs of a run that is resumed.
    #[arg(long, value_name = "TIME", value_parser = above_zero)]
    checkpoint_every: Option<Duration>,
    /// The nodes on which a policy places a job: `consolidated` or `spread`.
    ///
    /// Consolidated: a job waits for the smallest number of nodes that can hold it. That is one node if the job is not larger than
    /// a node, and else whole nodes and, for the rest, a part of one more. Spread: a job starts as soon as enough devices of one
    /// type are free, on any nodes.
    #[arg(long, value_name = "PLACEMENT", default_value_t = Placement::Consolidated)]
    placement: Placement,
    /// The maximum number of jobs on a device.
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..))]
    jobs_per_device: u32,
    /// The maximum number of times that a failed job is started again.
    #[arg(long, value_name = "N", default_value_t = 2)]
    retries: u32,
}

impl Rules {
    /// The settings in the manifest of a run on devices. `progress_every` is the interval between reports of progress.
    pub(super) fn scheduling(&self, policy: &str, progress_every: Option<Duration>) -> Scheduling {
        let seconds = |time: Option<Duration>| time.map(|time| time.as_secs_f64());
        Scheduling {
            policy: policy.into(),
            placement: self.placement,
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
