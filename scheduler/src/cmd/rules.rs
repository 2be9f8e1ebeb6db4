//! The options that `sched run` and `sched sim` have in common.

use std::{path::PathBuf, time::Duration};

use anyhow::ensure;
use cli::heading;
use model::switch_costs::Named;
use record::{
    manifest::{Scheduling, SizeOfError},
    placement::Placement,
    suspension::Suspension,
};
use schema::sharing::{Sharing, SharingError};

use super::above_zero;
use crate::sources::{Source, Sources};

/// The measurements of jobs and switches, and the settings for all jobs.
#[derive(clap::Args)]
pub(super) struct Rules {
    /// A run of `profile` that measured the jobs, alone or together. Policies and predictions use its step times. Repeatable.
    ///
    /// A step time alone is the geometric mean over the measurements that began within 15 minutes of the newest, and a slowdown of
    /// jobs together is that over all measurements.
    #[arg(long, value_name = "RUN")]
    pub(super) table: Vec<PathBuf>,
    /// What the policy believes of step times [default: tables].
    ///
    /// tables: the step times of --table. trace: the step times of the trace alone. Otherwise directories of runs of `profile` and models of
    /// `sched fit` (MODEL.json), separated by commas. Where the tables have no row of a job alone, the first fitted model that has an
    /// answer gives its time, and then the trace, for the plan and the devices that it asks for. Slowdowns of jobs together come from
    /// tables, and then from models that were fitted to some. Fitted models alone follow the tables of --table; `trace,MODEL.json` leaves those out.
    #[arg(long, value_name = "SOURCE,..")]
    model: Option<Source>,
    /// Let the policy learn from the steps of jobs: the fitted models that it believes are fitted again during the run.
    ///
    /// A job that reports 20 steps or more while it has its devices for itself is an observation. The journal has the version of the
    /// model at each turn.
    #[arg(long, help_heading = heading::BELIEFS)]
    pub(super) refit: bool,
    /// Take fitted models for the devices of the cluster, though they were fitted to devices of another type.
    #[arg(long, help_heading = heading::BELIEFS)]
    any_device: bool,
    /// Random errors of what the policy believes, as SIGMA[:BIAS]: each prediction is multiplied by a log-normal factor.
    ///
    /// The factor is drawn once for each job, plan, number and type of devices, and has this standard deviation and this mean on
    /// the log scale: 0.2 makes two thirds of the predictions right within 20 %, and 0:0.7 makes all of them twice as long.
    #[arg(long, help_heading = heading::BELIEFS, value_name = "SIGMA[:BIAS]", value_parser = size_of_error)]
    belief_error: Option<SizeOfError>,
    /// The step time of a job on more nodes than it needs, over that on the fewest, where no table has it; 1 for full speed.
    #[arg(long, help_heading = heading::BELIEFS, value_name = "FACTOR", value_parser = super::positive)]
    spread_slowdown: Option<f64>,
    /// An earlier run of the same users' jobs, from which the policy may learn: a trace with the lengths of its jobs, or the
    /// outcomes.csv of a run of `sched`.
    ///
    /// Policies are shown the names of its jobs, users, recurring jobs, workloads, devices, dates and durations. `qssf`,
    /// `gittins`, `lucid` and programs learn from them.
    #[arg(long, help_heading = heading::BELIEFS, value_name = "FILE")]
    pub(super) history: Option<PathBuf>,
    /// The costs of switches that `profile calibrate` has measured.
    #[arg(long, value_name = "FILE")]
    pub(super) machine: Option<PathBuf>,
    /// The cost of a restart after a stop or a resumption after a pause, for jobs without a measurement.
    ///
    /// `40s,9:60s` is 40 s, and 60 s from 9 devices on.
    #[arg(long, value_name = "TIME[,DEVICES:TIME..]")]
    pub(super) switch_cost: Option<Named>,
    /// The cost of a resumption after a pause, for jobs without a measurement [default: that of --switch-cost]. A job that is paused keeps
    /// its process, so that it goes on sooner than one that is started again.
    #[arg(long, help_heading = heading::SWITCHES, value_name = "TIME", value_parser = humantime::parse_duration, requires = "switch_cost")]
    pub(super) resume_cost: Option<Duration>,
    /// The cost of the first start of a job, if --machine and the tables lack it [default: 0s]. The lengths of jobs in published
    /// traces include the start.
    #[arg(long, help_heading = heading::SWITCHES, value_name = "TIME", value_parser = humantime::parse_duration, requires = "switch_cost")]
    pub(super) start_cost: Option<Duration>,
    /// The number of simulations with drawn times, from which predictions have 95 % intervals.
    ///
    /// Each simulation draws step times and slowdowns within the intervals of the tables, a drift of the machine as large as that
    /// between the runs of the tables, and the costs of switches. docs/scheduler.md has the distributions.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(20..))]
    pub(super) draws: Option<u32>,
    /// The interval between checkpoints of each job that trains [default: a checkpoint only when a job is stopped].
    ///
    /// A job that fails is started again from its last checkpoint, and so are the jobs of a run that is resumed.
    #[arg(long, help_heading = heading::RULES, value_name = "TIME", value_parser = above_zero)]
    checkpoint_every: Option<Duration>,
    /// The nodes on which a policy places a job: `consolidated` or `spread`.
    ///
    /// Consolidated: a job waits for the smallest number of nodes that can hold it. That is one node if the job is not larger than
    /// a node, and else whole nodes and, for the rest, a part of one more. Spread: a job starts as soon as enough devices of one
    /// type are free, on any nodes.
    #[arg(long, help_heading = heading::RULES, value_name = "PLACEMENT", default_value_t = Placement::Consolidated)]
    placement: Placement,
    /// How jobs share a device.
    ///
    /// alone: each job has its devices for itself. time-slice[:SLICE]: all jobs run at once, scheduled by the device or the kernel;
    /// on cores, a time slice such as 20ms, up to 100ms, can be given where the kernel's own are shorter. step-gate[:QUANTUM]: one
    /// job runs at a time, in turns that end at a step. A turn lasts QUANTUM, a number of steps such as 8 or a time such as 250ms
    /// or 2s (default 1s).
    #[arg(long, value_name = "MODE", default_value_t = Sharing::TIME_SLICE, value_parser = sharing)]
    pub(super) sharing: Sharing,
    /// How a policy that suspends jobs does it: step-gate, pause, checkpoint or cuda-checkpoint.
    ///
    /// step-gate: a job is held at the boundary of a step, and its memory stays on the device. pause: its tensors are moved to the
    /// memory of the host as well. checkpoint: a job is stopped with a checkpoint and started again from it; pauses are refused.
    /// cuda-checkpoint: a job is held, and NVIDIA's program of this name moves all of its device memory to the host.
    #[arg(long, help_heading = heading::RULES, value_name = "WORD", default_value_t = Suspension::default())]
    pub(super) suspend: Suspension,
    /// The maximum number of jobs on a device [default: 2, and 1 with --sharing alone].
    #[arg(long, help_heading = heading::RULES, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    jobs_per_device: Option<u32>,
    /// The maximum number of times that a failed job is started again.
    #[arg(long, help_heading = heading::RULES, value_name = "N", default_value_t = 2)]
    retries: u32,
}

impl Rules {
    /// The tables of --table, and what --model names.
    pub(super) fn sources(&self) -> Sources {
        let mut sources = Sources::new(&self.table);
        self.model.iter().for_each(|source| drop(sources.of(source)));
        sources
    }

    /// The settings in the manifest of a run on devices. `progress_every` is the interval between reports of progress.
    ///
    /// # Errors
    /// Fails if options contradict each other, and if a fitted model cannot be read.
    pub(super) fn scheduling(
        &self,
        policy: &str,
        progress_every: Option<Duration>,
        sources: &mut Sources,
    ) -> anyhow::Result<Scheduling> {
        let is_alone = self.sharing == Sharing::Alone;
        ensure!(
            !is_alone || self.jobs_per_device.is_none_or(|most| most == 1),
            "under --sharing alone, a device has one job; leave out --jobs-per-device, or share by time-slice or step-gate"
        );
        let model = sources.of(&self.model.clone().unwrap_or_default());
        ensure!(
            !self.refit || !model.fitted.is_empty(),
            "--refit fits a model again, and the policy believes none; add --model MODEL.json, which `sched fit` makes"
        );
        let seconds = |time: Option<Duration>| time.map(|time| time.as_secs_f64());
        let mut scheduling = Scheduling {
            lacking: Vec::new(),
            policy: policy.into(),
            placement: self.placement,
            sharing: self.sharing.clone(),
            suspension: self.suspend,
            tables: sources.tables.len() as u32,
            history: self.history.is_some(),
            model: Some(model.tables),
            fitted: sources.fitted_files()?,
            fitted_model: model.fitted,
            any_device: self.any_device,
            refit: self.refit,
            belief_error: self.belief_error,
            spread_slowdown: self.spread_slowdown,
            switch_cost_s: None,
            checkpoint_every_s: seconds(self.checkpoint_every),
            progress_every_s: seconds(progress_every),
            jobs_per_device: self.jobs_per_device.unwrap_or(if is_alone { 1 } else { 2 }),
            retries: self.retries,
            counts_cpus: true,
            host_cores: None,
            switch_cost_from: Vec::new(),
            resume_cost_s: None,
            start_cost_s: None,
            fast_forward: None,
            simulated: None,
        };
        if let Some(named) = &self.switch_cost {
            named.record(&mut scheduling);
            scheduling.resume_cost_s = seconds(self.resume_cost);
            scheduling.start_cost_s = seconds(self.start_cost);
        }
        Ok(scheduling)
    }
}

/// A mode in which jobs that come and go can share devices.
fn sharing(text: &str) -> Result<Sharing, String> {
    let why = match text.parse::<Sharing>() {
        Ok(Sharing::Sequential) => {
            "'sequential' runs each member of a fixed group to its end, and the jobs of a trace come and go; write alone, under which \
             a device has one job at a time, or step-gate, under which its jobs take turns"
        }
        Ok(Sharing::Mps { .. }) => {
            "'mps' is measured by `profile colocate`, and sched cannot start its daemon for jobs that come and go; write time-slice, \
             under which the driver divides the time"
        }
        Ok(Sharing::CpuShares { .. }) => {
            "'cpu-shares' has weights for the positions in a fixed group, and the jobs of a trace come and go; write time-slice or \
             step-gate, under which jobs have equal shares"
        }
        Ok(sharing) if sharing.seats().is_some() => {
            "the weights of 'step-gate' are for the positions in a fixed group, and the jobs of a trace come and go; leave the \
             weights out, and jobs have equal shares"
        }
        Ok(sharing) => return Ok(sharing),
        Err(SharingError::Mode { mode }) => {
            return Err(format!(
                "'{mode}' is no sharing mode of sched; write alone, time-slice[:SLICE] or step-gate[:QUANTUM]"
            ));
        }
        Err(error) => return Err(error.to_string()),
    };
    Err(why.into())
}

fn size_of_error(text: &str) -> Result<SizeOfError, String> {
    let wrong =
        || format!("'{text}' is not the size of an error; write SIGMA[:BIAS], such as 0.2 or 0.2:-0.1");
    let number = |text: &str| text.parse::<f64>().ok().filter(|number| number.is_finite());
    let (sigma, bias) = text.split_once(':').unwrap_or((text, "0"));
    let sigma = number(sigma).filter(|sigma| *sigma >= 0.0).ok_or_else(wrong)?;
    Ok(SizeOfError { sigma, bias: number(bias).ok_or_else(wrong)? })
}
