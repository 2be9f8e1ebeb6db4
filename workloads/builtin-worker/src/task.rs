//! The task of a rank, reduced to what a worker without training needs.

use std::{fs, path::PathBuf};

use anyhow::{Context, bail};
use schema::{
    catalog::{Fault, Model, Stress, Synthetic},
    spec::{AllReduce, Program, Training},
};

/// The simulated speed of an all-reduce: a link of 10 GB/s, with a latency of 50 us.
const LINK_BYTES_PER_US: u64 = 10_000;
const LATENCY_US: u64 = 50;

pub(crate) struct Task {
    pub(crate) cost: Cost,
    /// The worker ends after this number of steps; if absent, on the order to stop.
    pub(crate) steps: Option<u64>,
    pub(crate) samples_per_step: u64,
    /// Bytes passed to collectives that each step reports.
    pub(crate) sent_bytes: Option<u64>,
    /// A data folder, which this worker does not read.
    pub(crate) data: Option<PathBuf>,
    restore: Option<PathBuf>,
}

/// The cost of its steps.
pub(crate) enum Cost {
    Synthetic(Synthetic),
    /// The batch of the job is the load in percent.
    Stress {
        stress: Stress,
        dial_percent: u32,
    },
}

impl Task {
    pub(crate) fn of(program: Program) -> anyhow::Result<Task> {
        match program {
            Program::Training(training) => Task::training(*training),
            Program::AllReduce(all_reduce) => Ok(Task::all_reduce(&all_reduce)),
            Program::Command(_) => bail!("the spec names a command, not a workload"),
        }
    }

    fn training(training: Training) -> anyhow::Result<Task> {
        let samples_per_step = u64::from(training.micro_batch()) * u64::from(training.plan.ga);
        let cost = match training.workload.model {
            Model::Synthetic(model) => Cost::Synthetic(model),
            Model::Stress(stress) => Cost::Stress { stress, dial_percent: training.global_batch },
            _ => bail!("workload '{}' is not synthetic", training.workload.name),
        };
        Ok(Task {
            cost,
            steps: training.steps,
            samples_per_step,
            sent_bytes: None,
            data: training.data,
            restore: training.restore,
        })
    }

    fn all_reduce(all_reduce: &AllReduce) -> Task {
        let model = Synthetic {
            step_us: LATENCY_US + all_reduce.bytes / LINK_BYTES_PER_US,
            busy_percent: 0,
            noise_percent: 0.0,
            warmup_steps: 0,
            memory_bytes: all_reduce.bytes,
            fault: None,
        };
        let sent_bytes = Some(all_reduce.bytes);
        let cost = Cost::Synthetic(model);
        Task { cost, steps: None, samples_per_step: 0, sent_bytes, data: None, restore: None }
    }

    /// The fault to trigger.
    pub(crate) fn fault(&self) -> Option<Fault> {
        match &self.cost {
            Cost::Synthetic(model) => model.fault,
            Cost::Stress { .. } => None,
        }
    }

    /// The number of steps in the checkpoint to continue from; `None` without a checkpoint.
    ///
    /// # Errors
    /// The file is no checkpoint of this worker.
    pub(crate) fn restored_steps(&self) -> anyhow::Result<Option<u64>> {
        let Some(path) = &self.restore else { return Ok(None) };
        let text = fs::read_to_string(path).with_context(|| path.display().to_string())?;
        let steps = text.strip_prefix("step = ").and_then(|rest| rest.trim_end().parse().ok());
        Ok(Some(
            steps.with_context(|| format!("{}: not a checkpoint of the synthetic worker", path.display()))?,
        ))
    }
}

/// The content of a checkpoint: the number of steps is all of the state.
pub(crate) fn checkpoint(steps: u64) -> String {
    format!("step = {steps}\n")
}
