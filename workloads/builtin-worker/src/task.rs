//! The task of a rank, reduced to what a worker without training needs.

use std::{fs, path::PathBuf};

use anyhow::{Context, bail};
use schema::{
    catalog::{Fault, Model, Stress, Synthetic},
    mesh::Mesh,
    spec::{AllReduce, Program, Training},
};

/// The simulated speed of an all-reduce: a link of 10 GB/s, with a latency of 50 us.
const LINK_BYTES_PER_US: u64 = 10_000;
const LATENCY_US: u64 = 50;

/// The learning rate at which the loss of a synthetic job falls fastest: that of the catalog.
const BEST_LEARNING_RATE: f64 = 0.1;

pub(crate) struct Task {
    pub(crate) cost: Cost,
    /// The worker ends after this number of steps; if absent, on the order to stop.
    pub(crate) steps: Option<u64>,
    /// Samples that this rank accounts for: 0 if another rank reports those that it works on.
    pub(crate) samples_per_step: u64,
    /// The learning rate of the definition, or of the job if it has one of its own.
    pub(crate) learning_rate: f64,
    /// Bytes that each step reports as sent.
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
    /// The task of `rank`, one of `ranks`.
    ///
    /// # Errors
    /// The program is not one of this worker, or its plan has no such rank.
    pub(crate) fn of(program: Program, rank: u32, ranks: u32) -> anyhow::Result<Task> {
        match program {
            Program::Training(training) => Task::training(*training, rank),
            Program::AllReduce(all_reduce) => Ok(Task::all_reduce(&all_reduce, ranks)),
            Program::Command(_) => bail!("the spec names a command, not a workload"),
        }
    }

    fn training(training: Training, rank: u32) -> anyhow::Result<Task> {
        let mesh = Mesh::of(&training.plan);
        if rank >= mesh.ranks() {
            bail!("plan '{}' has no rank {rank}", training.plan);
        }
        let at = mesh.coordinates(rank);
        let accounts = at.tensor == 0 && at.stage + 1 == mesh.stages;
        let samples = u64::from(training.micro_batch()) * u64::from(training.plan.ga);
        let samples_per_step = if accounts { samples } else { 0 };
        let cost = match training.workload.model {
            Model::Synthetic(model) => Cost::Synthetic(model),
            Model::Stress(stress) => Cost::Stress { stress, dial_percent: training.global_batch },
            _ => bail!("workload '{}' is not synthetic", training.workload.name),
        };
        Ok(Task {
            cost,
            steps: training.steps,
            samples_per_step,
            learning_rate: training.workload.optimizer.learning_rate(),
            sent_bytes: None,
            data: training.data,
            restore: training.restore,
        })
    }

    fn all_reduce(all_reduce: &AllReduce, ranks: u32) -> Task {
        let model = Synthetic {
            step_us: LATENCY_US + all_reduce.bytes / LINK_BYTES_PER_US,
            busy_percent: 0,
            noise_percent: 0.0,
            warmup_steps: 0,
            memory_bytes: all_reduce.bytes,
            fault: None,
        };
        let sent_bytes = Some(sent_by_ring(all_reduce.bytes, ranks));
        let cost = Cost::Synthetic(model);
        Task {
            cost,
            steps: None,
            samples_per_step: 0,
            learning_rate: 0.0,
            sent_bytes,
            data: None,
            restore: None,
        }
    }

    /// The loss after this number of steps; `None` if this rank accounts for no samples, and if the loss is no longer finite.
    ///
    /// It is as if steps of gradient descent went down a parabola whose steepest learning rate is [`BEST_LEARNING_RATE`]: with `x`
    /// times this rate, a step takes `x (2 - x)` of the squared distance away, so that a rate above twice the best one diverges. At
    /// the best rate the loss falls slowly without limit, so that it falls in every window.
    pub(crate) fn loss(&self, steps: u64) -> Option<f64> {
        let rate = self.learning_rate / BEST_LEARNING_RATE;
        let fall = 1.0 + rate * (2.0 - rate) * steps as f64 / 20.0;
        (self.samples_per_step > 0 && fall > 0.0).then(|| 1.0 + 1.0 / fall)
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

/// Bytes that each of `ranks` sends in an all-reduce by the ring algorithm: see [`schema::wire::Step`].
fn sent_by_ring(bytes: u64, ranks: u32) -> u64 {
    let ranks = u128::from(ranks.max(1));
    (2 * (ranks - 1) * u128::from(bytes) / ranks) as u64
}

/// The content of a checkpoint: the number of steps is all of the state.
pub(crate) fn checkpoint(steps: u64) -> String {
    format!("step = {steps}\n")
}

#[cfg(test)]
mod tests {
    use schema::catalog::Catalog;

    use super::*;

    #[test]
    fn one_of_the_ranks_with_the_same_samples_accounts_for_them() {
        let catalog = Catalog::embedded();
        let workload = catalog.get("synthetic-sleep").expect("the catalog has it");
        let task = |plan: &str, rank| {
            let plan = plan.parse().expect("a plan");
            Task::of(Program::Training(Box::new(Training::new(workload.clone(), 32, plan))), rank, 8)
        };
        let samples = |plan: &str| {
            let plan = plan.parse::<schema::plan::Plan>().expect("a plan");
            let of = |rank| task(&plan.to_string(), rank).expect("it has the rank").samples_per_step;
            (0..plan.ranks()).map(of).collect::<Vec<_>>()
        };
        assert_eq!(samples("dp2-ga2"), [16, 16]);
        assert_eq!(samples("dp2-tp2-pp2"), [0, 0, 0, 0, 16, 0, 16, 0]);
        assert!(task("dp2", 2).is_err());
    }

    #[test]
    fn the_loss_falls_fastest_at_the_learning_rate_of_the_catalog() {
        let loss = |rate: f64, steps| {
            let catalog = Catalog::embedded();
            let mut workload = catalog.get("synthetic-sleep").expect("the catalog has it").clone();
            assert_eq!(workload.optimizer.learning_rate(), BEST_LEARNING_RATE);
            workload.optimizer.set_learning_rate(rate);
            let training = Training::new(workload, 32, "dp1".parse().expect("a plan"));
            Task::of(Program::Training(Box::new(training)), 0, 1).expect("it is ours").loss(steps)
        };
        assert_eq!((loss(0.1, 0), loss(0.1, 20), loss(0.1, 180)), (Some(2.0), Some(1.5), Some(1.1)));
        // Half and one and a half of the best rate take 3/4 of what it takes.
        assert_eq!((loss(0.05, 80), loss(0.15, 80)), (Some(1.25), Some(1.25)));
        assert_eq!(loss(0.2, 1_000), Some(2.0));
        // Three times the rate adds three times the squared distance in each step.
        let diverges = [6, 7].map(|steps| loss(0.3, steps));
        assert!(diverges[0].is_some_and(|loss| loss > 10.0) && diverges[1].is_none(), "{diverges:?}");
    }

    #[test]
    fn a_ring_sends_most_of_the_tensor_twice() {
        let sent = |bytes, ranks| {
            let all_reduce = AllReduce { bytes, collectives: None, rendezvous: None };
            Task::of(Program::AllReduce(all_reduce), 0, ranks).expect("it is ours").sent_bytes
        };
        assert_eq!(sent(1_000, 2), Some(1_000));
        assert_eq!(sent(1_000, 3), Some(1_333));
        assert_eq!(sent(1_000, 1), Some(0));
    }
}
