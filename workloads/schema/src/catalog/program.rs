//! A user's program in the catalog: the command line for each batch and plan that it can train with.

mod checkpoint;
mod line;
mod numbers;
mod problem;
#[cfg(test)]
mod tests;

use std::{
    collections::BTreeMap,
    num::{NonZeroU32, NonZeroU64},
};

use serde::{Deserialize, Serialize};

pub use self::checkpoint::{ProgramCheckpoint, SaveOrder, SaveSignal, SavedSign};
use self::numbers::filled;
pub(crate) use self::numbers::is_number;
use crate::{
    braces,
    plan::{Axis, Plan},
    values::Values,
};

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
    /// which otherwise follow the command. Other names have values in `defaults`.
    pub command: String,
    /// The folder in which the program runs, as typed: relative to the current folder. If absent, that of the harness.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub folder: Option<String>,
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
    /// Names in braces in the command and in words, with the values that they stand for unless `--vary` gives others.
    #[serde(default, skip_serializing_if = "Values::is_empty")]
    pub defaults: Values,
    /// What is known of the model that the program trains.
    #[serde(default, skip_serializing_if = "ProgramModel::is_unknown")]
    pub model: ProgramModel,
    /// A part of a line of output that has the loss of a step, as `step {step} loss {loss}`. Steps may count from any number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loss: Option<String>,
    /// How the program saves its work. `None` if it loses all of it when it is ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checkpoint: Option<ProgramCheckpoint>,
}

/// What formulas for step times need to know of a program's model; absent where it is not known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProgramModel {
    /// Number of trainable parameters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parameters: Option<NonZeroU64>,
    /// Number of layers, or of blocks of a transformer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub layers: Option<NonZeroU32>,
    /// Positions of a sample, such as tokens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sequence: Option<NonZeroU32>,
    /// Width of the hidden layers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hidden: Option<NonZeroU32>,
    /// Numbers that the optimizer keeps for each parameter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state_per_parameter: Option<u32>,
}

impl ProgramModel {
    fn is_unknown(&self) -> bool {
        *self == ProgramModel::default()
    }
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
    /// The program and its arguments for a job with this global batch and plan. Names without one of these values have their default.
    pub fn arguments(&self, global_batch: u32, plan: &Plan, values: &Values) -> Vec<String> {
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
            Some(index) => drop(arguments.splice(index..=index, words)),
            None => arguments.extend(words),
        }
        arguments.iter().map(|word| self.filled(word, global_batch, plan, values)).collect()
    }

    /// The same for a job that goes on from a checkpoint.
    pub fn arguments_to_resume(&self, global_batch: u32, plan: &Plan, values: &Values) -> Vec<String> {
        let words = self.checkpoint.iter().flat_map(ProgramCheckpoint::resume_words);
        let words = words.map(|word| self.filled(&word, global_batch, plan, values));
        self.arguments(global_batch, plan, values).into_iter().chain(words).collect()
    }

    /// A word with values for its names in braces.
    fn filled(&self, word: &str, global_batch: u32, plan: &Plan, values: &Values) -> String {
        let value = |name: &str| values.get(name).or_else(|| self.defaults.get(name)).cloned();
        filled(word, global_batch, plan, value)
    }

    /// The step and its loss in a line of output. `None` if the line has none, or the definition has no pattern for them.
    pub fn loss_in(&self, line: &str) -> Option<(u64, f64)> {
        let pattern = self.loss.as_ref()?;
        let numbers = line::numbers(pattern, &["step", "loss"], line)?;
        let names: Vec<&str> = braces::names(pattern).collect();
        let number = |name: &str| numbers.get(names.iter().position(|other| *other == name)?);
        Some((number("step")?.parse().ok()?, number("loss")?.parse().ok()?))
    }

    /// Why a job of this program loses its work when it is stopped. `None` if the definition has `save`.
    pub fn takes_no_checkpoint(&self) -> Option<&'static str> {
        match &self.checkpoint {
            None => Some("its program defines no checkpoint"),
            Some(ProgramCheckpoint { save: None, .. }) => {
                Some("its definition does not say how to let it save")
            }
            Some(_) => None,
        }
    }

    /// Why a job of this program cannot go on under another plan. `None` if it can.
    pub fn keeps_its_plan(&self) -> Option<&'static str> {
        let is_portable = self.checkpoint.as_ref().is_some_and(|checkpoint| checkpoint.portable);
        self.takes_no_checkpoint().or((!is_portable).then_some("its checkpoints are not portable"))
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
