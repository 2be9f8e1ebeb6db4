//! Every step of a run as a row.

use std::collections::BTreeSet;

use record::{rows::ExportStep, steps::StageStep};
use schema::{units::Nanos, wire::Phases};

use super::{Source, side};
use crate::derive::{self, LaunchSteps};

impl Source {
    /// The steps of each launch that has a row, in pieces, because all of them may not fit into memory. A seat whose job was
    /// started again has the steps of all of its launches. A cell that was never started has none, and neither has a program
    /// that was measured from outside. `tested` are the split keys of the rows to test on.
    ///
    /// # Errors
    /// A file of the run cannot be read, or the manifest does not name a group.
    pub fn steps(&self, tested: &BTreeSet<u32>) -> impl Iterator<Item = anyhow::Result<Vec<ExportStep>>> {
        let launches = self.measurements.iter().filter(|row| !row.launch.is_empty());
        launches.map(|row| {
            let split_key = self.subject(row)?.members.split_key();
            let split = side(split_key, tested);
            let of_row = ExportStep { split_key, split, ..ExportStep::of(row) };
            Ok(derive::steps_of(&self.run, row)?.iter().flat_map(|launch| rows_of(&of_row, launch)).collect())
        })
    }
}

/// A row for each stage of each step.
fn rows_of(of_row: &ExportStep, launch: &LaunchSteps) -> impl Iterator<Item = ExportStep> {
    let of_launch = ExportStep { step_launch: launch.launch.clone(), ..of_row.clone() };
    launch.steps.iter().enumerate().flat_map(move |(place, step)| {
        let of_step = ExportStep {
            index: step.index,
            end_mono_ns: step.end.0,
            dur_ns: step.dur_ns,
            in_window: launch.used.as_ref().map(|used| used.contains(&place)),
            timing: Some(step.timing),
            ..of_launch.clone()
        };
        step.stages.iter().zip(0..).map(move |(part, stage)| with_stage(of_step.clone(), stage, part))
    })
}

fn with_stage(row: ExportStep, stage: u32, part: &StageStep) -> ExportStep {
    let ns = |phase: Option<Nanos>| phase.map(|ns| ns.0);
    let none = Phases::default();
    let phases = part.phases.as_deref().unwrap_or(&none);
    ExportStep {
        stage,
        samples: part.samples,
        loss: part.loss,
        data_ns: ns(phases.data_ns),
        forward_ns: ns(phases.forward_ns),
        backward_ns: ns(phases.backward_ns),
        sync_total_ns: ns(phases.sync_total_ns),
        sync_exposed_ns: ns(phases.sync_exposed_ns),
        optimizer_ns: ns(phases.optimizer_ns),
        offload_ns: ns(phases.offload_ns),
        tensor_ns: ns(phases.tensor_ns),
        gather_ns: ns(phases.gather_ns),
        pipeline_ns: ns(phases.pipeline_ns),
        sent_bytes: part.sent_bytes,
        ..row
    }
}
