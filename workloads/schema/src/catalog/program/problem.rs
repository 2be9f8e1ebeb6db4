//! Errors of a program's definition, found before anything starts.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    CatalogProgram, ProgramCheckpoint, WORDS, Words, degree,
    numbers::{is_number, is_of_launch},
};
use crate::{
    braces,
    plan::{Axis, Plan, Precision},
    values::{self, Values},
};

/// The length of a name that fits into tables and names of files.
const LONGEST_NAME: usize = 40;

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
    /// The first semantic error of the definition, with the name of the program.
    pub(in crate::catalog) fn problem(&self) -> Option<String> {
        let legal = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        let is_long = self.name.len() > LONGEST_NAME;
        if self.name.is_empty() || is_long || !self.name.chars().all(legal) || self.name.starts_with("cmd-") {
            let shown: String = self.name.chars().take(2 * LONGEST_NAME).collect();
            return Some(format!(
                "program name '{shown}': use up to {LONGEST_NAME} of a-z, 0-9 and '-', and begin with another word than cmd-"
            ));
        }
        self.problem_of_texts()
            .or_else(|| self.problem_of_defaults())
            .or_else(|| self.problem_of_folder())
            .or_else(|| self.problem_of_batches())
            .or_else(|| {
                let refused = self.batches.iter().find_map(|batch| self.refuses(&self.plan, *batch));
                refused.map(|why| format!("its plan '{}' is impossible: {why}", self.plan))
            })
            .or_else(|| self.problem_of_axes())
            .or_else(|| self.problem_of_degrees())
            .or_else(|| self.problem_of_plans())
            .or_else(|| self.problem_of_checkpoint())
            .or_else(|| self.problem_of_loss())
            .map(|problem| format!("program '{}': {problem}", self.name))
    }

    /// The command and the words of axes, each with its key.
    fn texts(&self) -> impl Iterator<Item = (String, &str)> {
        let of_axes = self.words.iter().flat_map(|(axis, words)| {
            let texts = match words {
                Words::On(on) => std::slice::from_ref(on),
                Words::OffOn(both) => both,
            };
            texts.iter().map(move |text| (format!("words.{axis}"), text.as_str()))
        });
        std::iter::once(("command".to_owned(), self.command.as_str())).chain(of_axes)
    }

    fn problem_of_texts(&self) -> Option<String> {
        for (key, text) in self.texts() {
            let Some(words) = shlex::split(text) else {
                return Some(format!("{key}: a quote is not closed, or a backslash is at the end"));
            };
            if words.is_empty() && key == "command" {
                return Some("command: expected a program".into());
            }
            let has_words = |word: &String| braces::names(word).any(|name| name == "words");
            let places = words.iter().filter(|word| has_words(word)).count();
            if places > 1 || (places == 1 && !words.iter().any(|word| word == WORDS)) {
                return Some(format!("{key}: {{words}} stands once, as a word of its own"));
            }
            let is_known = |name: &str| {
                is_of_launch(name)
                    || is_number(name)
                    || self.defaults.contains_key(name)
                    || (key == "command" && name == "words")
            };
            if let Some(unknown) =
                words.iter().flat_map(|word| braces::names(word)).find(|name| !is_known(name))
            {
                return Some(format!(
                    "{key}: nothing fills {{{unknown}}}; names in braces are {{ranks}} {{batch}} {{micro_batch}} {{dp}} {{tp}} \
                     {{pp}} {{ga}} {{zero}} {{launch}} {{repeat}} {{run}} {{checkpoint}}, {{words}} in the command, and those with a value \
                     in [program.defaults]; add {unknown} = \"..\" there, or write {{{{{unknown}}}}} for the text itself"
                ));
            }
        }
        None
    }

    fn problem_of_defaults(&self) -> Option<String> {
        let illegal = |(name, value): (&String, &String)| {
            let checked = values::check_name(name).and_then(|()| values::check_value(value));
            checked.err().map(|why| format!("defaults.{name}: {why}"))
        };
        self.defaults.iter().find_map(illegal).or_else(|| {
            let unused = self.defaults.keys().find(|name| !self.has_name(name))?;
            Some(format!(
                "defaults.{unused}: no command or words have {{{unused}}}; write it in one, or remove the value here"
            ))
        })
    }

    /// Whether the command or words have a name in braces.
    fn has_name(&self, name: &str) -> bool {
        self.texts().any(|(_, text)| braces::names(text).any(|other| other == name))
    }

    /// Whether the folder is there is checked only when the program is to run.
    fn problem_of_folder(&self) -> Option<String> {
        let folder = self.folder.as_deref()?;
        if folder.is_empty() {
            return Some("folder: expected a path; leave out the key for the current folder".into());
        }
        let name = braces::names(folder).next()?;
        Some(format!("folder: {{{name}}} is not filled in here; write a path without names in braces"))
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
            if self.axes.contains(&axis) && self.by_default(batch, &without) == self.by_default(batch, &with)
            {
                return Some(format!("axes: {axis} does not change the command; {}", remedy(axis)));
            }
        }
        let with_ranks = [Axis::Dp, Axis::Tp, Axis::Pp].into_iter().filter(|axis| self.axes.contains(axis));
        let lacking = with_ranks
            .into_iter()
            .find(|axis| !self.has_name("ranks") && !self.has_name(&axis.to_string()))?;
        Some(format!(
            "axes: {lacking} has several ranks, and the command does not have their number; {}",
            remedy(lacking)
        ))
    }

    fn by_default(&self, global_batch: u32, plan: &Plan) -> Vec<String> {
        self.arguments(global_batch, plan, &Values::new())
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

    /// A checkpoint has a folder of its job, and a folder belongs to a checkpoint.
    fn problem_of_checkpoint(&self) -> Option<String> {
        let names_folder = self.texts().any(|(_, text)| ProgramCheckpoint::names_folder(text));
        let Some(checkpoint) = &self.checkpoint else {
            let why = "{checkpoint} is the folder of a job that saves; add [program.checkpoint], or write {launch} for a folder of \
                       each launch";
            return names_folder.then(|| format!("command: {why}"));
        };
        let names_folder = names_folder || ProgramCheckpoint::names_folder(&checkpoint.resume);
        checkpoint.problem().or_else(|| {
            let why = "neither the command nor checkpoint.resume has {checkpoint}, the folder of each job, so that jobs would \
                       overwrite each other's checkpoints";
            (!names_folder).then(|| format!("checkpoint: {why}"))
        })
    }

    fn problem_of_loss(&self) -> Option<String> {
        let pattern = self.loss.as_ref()?;
        let mut names: Vec<&str> = braces::names(pattern).collect();
        names.sort_unstable();
        (names != ["loss", "step"]).then(|| {
            format!(
                "loss: a pattern has {{step}} and {{loss}} once each, as \"step {{step}} loss {{loss}}\", and '{pattern}' has not"
            )
        })
    }

    /// No two plans have the same command.
    fn problem_of_plans(&self) -> Option<String> {
        let mut seen: BTreeMap<Vec<String>, Plan> = BTreeMap::new();
        let plans = small_plans(&self.axes).into_iter();
        for plan in plans.filter(|plan| self.refuses_degree(plan).is_none()) {
            let other = seen.insert(self.by_default(64, &plan), plan);
            if let Some(other) = other {
                return Some(format!(
                    "plans {other} and {plan} have the same command; name what differs in the command or in words"
                ));
            }
        }
        None
    }
}

fn remedy(axis: Axis) -> String {
    match axis {
        Axis::Dp | Axis::Tp | Axis::Pp => format!("write {{ranks}} or {{{axis}}} in it, or in words.{axis}"),
        Axis::Ga | Axis::Zero => format!("write {{{axis}}} in it, or give words.{axis}"),
        Axis::Gc | Axis::Offload | Axis::Bf16 => format!("give words.{axis}"),
    }
}

/// All plans with no degree, one of 2 or one of 4 on these axes.
fn small_plans(axes: &[Axis]) -> Vec<Plan> {
    let mut plans = vec![Plan::default()];
    for axis in axes {
        let with = |plan: &Plan| match axis {
            Axis::Dp => [2, 4].map(|dp| Plan { dp, ..*plan }).to_vec(),
            Axis::Tp => [2, 4].map(|tp| Plan { tp, ..*plan }).to_vec(),
            Axis::Pp => [2, 4].map(|pp| Plan { pp, ..*plan }).to_vec(),
            Axis::Zero => [1, 2, 3].map(|zero| Plan { zero, ..*plan }).to_vec(),
            Axis::Ga => [2, 4].map(|ga| Plan { ga, ..*plan }).to_vec(),
            Axis::Gc => vec![Plan { gc: true, ..*plan }],
            Axis::Offload => vec![Plan { offload: true, ..*plan }],
            Axis::Bf16 => vec![Plan { precision: Precision::Bf16, ..*plan }],
        };
        plans.extend(plans.iter().flat_map(with).collect::<Vec<_>>());
    }
    // What cannot be combined, such as zero with tp, does not parse.
    plans.retain(|plan| plan.to_string().parse::<Plan>().is_ok());
    plans
}
