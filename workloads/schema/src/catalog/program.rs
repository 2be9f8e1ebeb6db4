//! A user's program in the catalog: the command line for each batch and plan that it can train with.

mod numbers;
mod problem;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use self::numbers::filled;
use crate::plan::{Axis, Plan};

/// A program that is a workload: a job names it, a batch and a plan, and its definition says what to type for these.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CatalogProgram {
    pub name: String,
    /// A one-line description for `profile list`.
    #[serde(default)]
    pub about: String,
    /// The program and its arguments, split as a shell splits them. Names in braces stand for numbers of the job:
    /// `{ranks}`, `{batch}`, `{micro_batch}`, `{dp}`, `{tp}`, `{pp}`, `{ga}` and `{zero}`. `{words}` stands for the words of all axes,
    /// which otherwise follow the command.
    pub command: String,
    /// The global batches that the program can train with. The first is the batch of a job that names none.
    pub batches: Vec<u32>,
    /// The plan of a job that names none.
    #[serde(default)]
    pub plan: Plan,
    /// Axes in which plans of this program may differ from `dp1`.
    #[serde(default)]
    pub axes: Vec<Axis>,
    /// The highest degrees, or stages of zero, of axes that have them.
    #[serde(default)]
    pub most: BTreeMap<Axis, u16>,
    /// What an axis adds to the command, with the same names in braces.
    #[serde(default)]
    pub words: BTreeMap<Axis, Words>,
}

/// What an axis adds to a command.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(
    untagged,
    expecting = "expected a text, or two texts: for plans without the axis, and for plans with it"
)]
pub enum Words {
    /// For plans that use the axis.
    On(String),
    /// For plans that do not use the axis, and for plans that do.
    OffOn([String; 2]),
}

/// The place of the words of all axes in a command.
const WORDS: &str = "{words}";

impl CatalogProgram {
    /// The program and its arguments for a job with this global batch and plan.
    pub fn arguments(&self, global_batch: u32, plan: &Plan) -> Vec<String> {
        let used = plan.axes();
        let mut words = Vec::new();
        for (axis, of_axis) in &self.words {
            let text = match of_axis {
                Words::On(on) => used.contains(axis).then_some(on),
                Words::OffOn([off, on]) => Some(if used.contains(axis) { on } else { off }),
            };
            words.extend(text.into_iter().flat_map(|text| split(text)));
        }
        let mut arguments = split(&self.command);
        match arguments.iter().position(|word| word == WORDS) {
            Some(place) => drop(arguments.splice(place..=place, words)),
            None => arguments.extend(words),
        }
        arguments.iter().map(|word| filled(word, global_batch, plan)).collect()
    }

    /// Returns the reason why the program cannot run under this plan and batch on any machine.
    pub fn refuses(&self, plan: &Plan, global_batch: u32) -> Option<String> {
        if let Some(axis) = plan.axes().into_iter().find(|axis| !self.axes.contains(axis)) {
            let runs: Vec<String> = self.axes.iter().map(Axis::to_string).collect();
            let runs = if runs.is_empty() { "dp1 alone".into() } else { runs.join(", ") };
            return Some(format!("{} runs no plans with {axis}; it runs {runs}", self.name));
        }
        if let Some(reason) = self.refuses_degree(plan) {
            return Some(reason);
        }
        if !self.batches.contains(&global_batch) {
            let batches: Vec<String> = self.batches.iter().map(u32::to_string).collect();
            return Some(format!("{} trains with batches {}", self.name, batches.join(", ")));
        }
        (!global_batch.is_multiple_of(plan.batch_divisor()))
            .then(|| format!("a batch of {global_batch} cannot be cut into {}", plan.batch_divisor()))
    }

    fn refuses_degree(&self, plan: &Plan) -> Option<String> {
        let is_above =
            |(axis, most): &(&Axis, &u16)| degree(plan, **axis).is_some_and(|degree| degree > **most);
        let (axis, most) = self.most.iter().find(is_above)?;
        Some(format!("{} runs plans up to {axis}{most}", self.name))
    }
}

/// The degree of an axis in a plan, or its stage of zero. `None` for an axis without degrees.
fn degree(plan: &Plan, axis: Axis) -> Option<u16> {
    match axis {
        Axis::Dp => Some(plan.dp),
        Axis::Tp => Some(plan.tp),
        Axis::Pp => Some(plan.pp),
        Axis::Zero => Some(plan.zero.into()),
        Axis::Ga => Some(plan.ga),
        Axis::Gc | Axis::Offload | Axis::Bf16 => None,
    }
}

/// The words of a text that a definition was checked for.
fn split(text: &str) -> Vec<String> {
    shlex::split(text).unwrap_or_default()
}
