//! A user's program in the catalog: the command line for each batch and plan that it can train with.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::plan::{Axis, Plan, Precision};

/// A program that is a workload: a job names it, a batch and a plan, and its definition says what to type for these.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CatalogProgram {
    pub name: String,
    /// A one-line description for `profile list`.
    #[serde(default)]
    pub about: String,
    /// The program and its arguments, split as a shell splits them. Placeholders in braces stand for numbers of the job:
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
    /// What an axis adds to the command, with the same placeholders.
    #[serde(default)]
    pub words: BTreeMap<Axis, Words>,
}

/// What an axis adds to a command.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Words {
    /// For plans that use the axis.
    On(String),
    /// For plans that do not use the axis, and for plans that do.
    OffOn([String; 2]),
}

/// Placeholders that are filled in when a launch begins.
const OF_LAUNCH: [&str; 3] = ["launch", "repeat", "run"];

/// The place of the words of all axes in a command.
const WORDS: &str = "{words}";

/// The plan that uses an axis least, for comparison with a plan without the axis.
const LEAST: [(Axis, &str, &str); 8] = [
    (Axis::Dp, "dp1", "dp2"),
    (Axis::Tp, "dp1", "tp2"),
    (Axis::Pp, "dp1", "pp2"),
    (Axis::Zero, "dp2", "dp2-zero1"),
    (Axis::Ga, "dp1", "ga2"),
    (Axis::Gc, "dp1", "gc"),
    (Axis::Offload, "dp1", "offload"),
    (Axis::Bf16, "dp1", "bf16"),
];

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
        let above = |(axis, most): (&Axis, &u16)| degree(plan, *axis).is_some_and(|degree| degree > *most);
        if let Some((axis, most)) = self.most.iter().find(|of_axis| above(*of_axis)) {
            return Some(format!("{} runs plans up to {axis}{most}", self.name));
        }
        if !self.batches.contains(&global_batch) {
            let batches: Vec<String> = self.batches.iter().map(u32::to_string).collect();
            return Some(format!("{} trains with batches {}", self.name, batches.join(", ")));
        }
        (!global_batch.is_multiple_of(plan.batch_divisor()))
            .then(|| format!("a batch of {global_batch} cannot be cut into {}", plan.batch_divisor()))
    }

    /// The first semantic error of the definition, with the name of the program.
    pub(super) fn problem(&self) -> Option<String> {
        let legal = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        if self.name.is_empty() || !self.name.chars().all(legal) || self.name.starts_with("cmd-") {
            return Some(format!(
                "program name '{}': use a-z, 0-9 and '-', and begin with another word than cmd-",
                self.name
            ));
        }
        self.problem_of_texts()
            .or_else(|| self.problem_of_batches())
            .or_else(|| {
                self.refuses(&self.plan, self.batches[0])
                    .map(|why| format!("its plan '{}' is impossible: {why}", self.plan))
            })
            .or_else(|| self.problem_of_axes())
            .or_else(|| self.problem_of_degrees())
            .or_else(|| self.problem_of_plans())
            .map(|problem| format!("program '{}': {problem}", self.name))
    }

    fn problem_of_texts(&self) -> Option<String> {
        let of_axis = |(axis, words): (&Axis, &Words)| {
            let texts = match words {
                Words::On(on) => vec![on.clone()],
                Words::OffOn(both) => both.to_vec(),
            };
            texts.into_iter().map(move |text| (format!("words.{axis}"), text)).collect::<Vec<_>>()
        };
        let command = ("command".to_owned(), self.command.clone());
        for (key, text) in std::iter::once(command).chain(self.words.iter().flat_map(of_axis)) {
            let Some(words) = shlex::split(&text) else {
                return Some(format!("{key}: a quote is not closed, or a backslash is at the end"));
            };
            if words.is_empty() && key == "command" {
                return Some("command: expected a program".into());
            }
            let is_known = |name: &str| {
                OF_LAUNCH.contains(&name)
                    || number(name, 1, &Plan::default()).is_some()
                    || (key == "command" && name == "words")
            };
            if let Some(unknown) =
                words.iter().flat_map(|word| placeholders(word)).find(|name| !is_known(name))
            {
                return Some(format!(
                    "{key}: nothing fills {{{unknown}}}; placeholders are {{ranks}} {{batch}} {{micro_batch}} {{dp}} {{tp}} \
                     {{pp}} {{ga}} {{zero}} {{launch}} {{repeat}} {{run}} and, in the command, {{words}}; write {{{{{unknown}}}}} for \
                     the text itself"
                ));
            }
        }
        None
    }

    fn problem_of_batches(&self) -> Option<String> {
        if self.batches.is_empty() || self.batches.contains(&0) {
            return Some("batches: name one or more, from 1 on".into());
        }
        let mut seen = BTreeSet::new();
        let twice = self.batches.iter().find(|batch| !seen.insert(**batch))?;
        Some(format!("batches: {twice} is named twice"))
    }

    /// Each axis changes the command, and words belong to an axis that plans have.
    fn problem_of_axes(&self) -> Option<String> {
        let mut seen = BTreeSet::new();
        if let Some(twice) = self.axes.iter().find(|axis| !seen.insert(**axis)) {
            return Some(format!("axes: {twice} is named twice"));
        }
        if let Some(axis) = self.words.keys().find(|axis| !self.axes.contains(axis)) {
            return Some(format!(
                "words.{axis}: the axes have no {axis}; add it to axes, or remove its words"
            ));
        }
        if self.axes.contains(&Axis::Zero) && !self.axes.contains(&Axis::Dp) {
            return Some("axes: zero divides state among data-parallel ranks; add dp".into());
        }
        // A number of samples that all these plans can cut.
        let batch = 64;
        for (axis, without, with) in LEAST {
            let [without, with]: [Plan; 2] =
                [without, with].map(|plan| plan.parse().expect("a canonical plan"));
            if self.axes.contains(&axis) && self.arguments(batch, &without) == self.arguments(batch, &with) {
                return Some(format!("axes: {axis} does not change the command; {}", remedy(axis)));
            }
        }
        let names = |name: &str| {
            let mut texts = vec![&self.command];
            for words in self.words.values() {
                match words {
                    Words::On(on) => texts.push(on),
                    Words::OffOn(both) => texts.extend(both),
                }
            }
            texts.into_iter().any(|text| placeholders(text).any(|found| found == name))
        };
        let with_ranks = [Axis::Dp, Axis::Tp, Axis::Pp].into_iter().filter(|axis| self.axes.contains(axis));
        let lacking = with_ranks.into_iter().find(|axis| !names("ranks") && !names(&axis.to_string()))?;
        Some(format!(
            "axes: {lacking} has several ranks, and the command does not have their number; {}",
            remedy(lacking)
        ))
    }

    fn problem_of_degrees(&self) -> Option<String> {
        let (axis, most) = self.most.iter().find(|(axis, most)| {
            let least = degree(&Plan::default(), **axis).map(|one| one + 1);
            !self.axes.contains(*axis) || least.is_none_or(|least| **most < least)
        })?;
        Some(match degree(&Plan::default(), *axis) {
            _ if !self.axes.contains(axis) => {
                format!("most.{axis}: the axes have no {axis}; add it to axes, or remove it here")
            }
            None => format!("most.{axis}: {axis} has no degrees; remove it here"),
            Some(one) => format!("most.{axis}: {most} leaves no plan with {axis}; use {} or more", one + 1),
        })
    }

    /// No two plans have the same command.
    fn problem_of_plans(&self) -> Option<String> {
        let mut seen: BTreeMap<Vec<String>, Plan> = BTreeMap::new();
        for plan in small_plans(&self.axes) {
            let other = seen.insert(self.arguments(64, &plan), plan);
            if let Some(other) = other {
                return Some(format!(
                    "plans {other} and {plan} have the same command; name what differs in the command or in words"
                ));
            }
        }
        None
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

fn remedy(axis: Axis) -> String {
    match axis {
        Axis::Dp | Axis::Tp | Axis::Pp => format!("write {{ranks}} or {{{axis}}} in it, or in words.{axis}"),
        Axis::Ga | Axis::Zero => format!("write {{{axis}}} in it, or give words.{axis}"),
        Axis::Gc | Axis::Offload | Axis::Bf16 => format!("give words.{axis}"),
    }
}

/// All plans of degrees up to 2 on these axes.
fn small_plans(axes: &[Axis]) -> Vec<Plan> {
    let mut plans = vec![Plan::default()];
    for axis in axes {
        let with = plans.clone().into_iter().map(|plan| match axis {
            Axis::Dp => Plan { dp: 2, ..plan },
            Axis::Tp => Plan { tp: 2, ..plan },
            Axis::Pp => Plan { pp: 2, ..plan },
            Axis::Zero => Plan { zero: 1, ..plan },
            Axis::Ga => Plan { ga: 2, ..plan },
            Axis::Gc => Plan { gc: true, ..plan },
            Axis::Offload => Plan { offload: true, ..plan },
            Axis::Bf16 => Plan { precision: Precision::Bf16, ..plan },
        });
        plans.extend(with.collect::<Vec<_>>());
    }
    // What cannot be combined, such as zero with tp, does not parse.
    plans.retain(|plan| plan.to_string().parse::<Plan>().is_ok());
    plans
}

/// The words of a text that a definition was checked for.
fn split(text: &str) -> Vec<String> {
    shlex::split(text).unwrap_or_default()
}

/// The number that a placeholder stands for.
fn number(name: &str, global_batch: u32, plan: &Plan) -> Option<u32> {
    Some(match name {
        "ranks" => plan.ranks(),
        "batch" => global_batch,
        "micro_batch" => global_batch / plan.batch_divisor(),
        "dp" => plan.dp.into(),
        "tp" => plan.tp.into(),
        "pp" => plan.pp.into(),
        "ga" => plan.ga.into(),
        "zero" => plan.zero.into(),
        _ => return None,
    })
}

/// A part of a word: text as it is, or the name of a placeholder.
enum Piece<'a> {
    Text(&'a str),
    Placeholder(&'a str),
}

/// The pieces of a word. A placeholder in double braces is text in single braces; other braces are text.
fn pieces(word: &str) -> Vec<Piece<'_>> {
    let mut pieces = Vec::new();
    let mut rest = word;
    while let Some(brace) = rest.find('{') {
        let (before, from) = rest.split_at(brace);
        pieces.push(Piece::Text(before));
        let name = |text: &str| {
            let length = text.find(|c: char| !(c.is_ascii_lowercase() || c == '_')).unwrap_or(text.len());
            (length > 0 && text[length..].starts_with('}')).then_some(length)
        };
        let doubled =
            from.strip_prefix("{{").and_then(name).filter(|length| from[length + 2..].starts_with("}}"));
        let (piece, length) = match (doubled, name(&from[1..])) {
            // What belongs to a launch is read again when the launch begins.
            (Some(length), _) if OF_LAUNCH.contains(&&from[2..length + 2]) => {
                (Piece::Text(&from[..length + 4]), length + 4)
            }
            (Some(length), _) => (Piece::Text(&from[1..length + 3]), length + 4),
            (None, Some(length)) => (Piece::Placeholder(&from[1..=length]), length + 2),
            (None, None) => (Piece::Text("{"), 1),
        };
        pieces.push(piece);
        rest = &from[length..];
    }
    pieces.push(Piece::Text(rest));
    pieces
}

fn placeholders(word: &str) -> impl Iterator<Item = &str> {
    pieces(word).into_iter().filter_map(|piece| match piece {
        Piece::Placeholder(name) => Some(name),
        Piece::Text(_) => None,
    })
}

/// The word with its numbers filled in. What belongs to a launch stays as typed.
fn filled(word: &str, global_batch: u32, plan: &Plan) -> String {
    let text = |piece| match piece {
        Piece::Text(text) => text.to_owned(),
        Piece::Placeholder(name) => number(name, global_batch, plan)
            .map_or_else(|| format!("{{{name}}}"), |number| number.to_string()),
    };
    pieces(word).into_iter().map(text).collect()
}

#[cfg(test)]
mod tests;
