//! What can be trained: the typed form of `workloads/catalog/*.toml`.
//!
//! One file holds one model family. The programs embed the files of the repository, and `--catalog` adds a
//! user's file. An invalid definition is refused with its file and line before anything starts.

mod entry;
mod model;
mod problem;
mod program;
mod refusal;

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Range,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};
use toml::Spanned;

use crate::{
    files::read_text,
    plan::{Axis, Plan},
};
pub use entry::CatalogEntry;
pub use model::*;
pub(crate) use program::is_number;
pub use program::{CatalogProgram, ProgramCheckpoint, ProgramModel, SaveOrder, SaveSignal, SavedSign, Words};

/// All workloads known to a program, and the programs of the user's files, by name. No two of them have the same name.
#[derive(Clone, Debug, Default)]
pub struct Catalog {
    workloads: BTreeMap<String, Workload>,
    programs: BTreeMap<String, CatalogProgram>,
    /// Where each program is defined: the file, and the line in it.
    lines: BTreeMap<String, (String, usize)>,
}

/// A workload that Tandem's own workers train.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Workload {
    pub name: String,
    /// A one-line description for `profile list`.
    pub about: String,
    /// The paper or repository the architecture is taken from.
    pub source: String,
    /// Sets that it belongs to, as in `set:quick`.
    #[serde(default)]
    pub sets: Vec<String>,
    /// The global batch of a job that names none.
    pub global_batch: u32,
    /// The plan of a job that names none.
    #[serde(default)]
    pub plan: Plan,
    /// Axes in which plans of this workload may differ from `dp1`.
    pub axes: Vec<Axis>,
    /// Trainable parameters as published; `profile verify` compares the built model with it.
    pub parameters: Option<u64>,
    /// Floating-point operations of one training step per sample, two for each multiply-add of matrix
    /// products and convolutions in the forward and backward passes. A backward pass counts twice its
    /// forward pass. DCGAN: 8 D + 3 G forward passes; TD3: see its file. Neither recomputation nor acting
    /// in an environment is counted.
    pub flops_per_sample: Option<u64>,
    /// The batch and the number of steps that `profile verify` runs.
    pub verify: Verify,
    pub optimizer: Optimizer,
    pub model: Model,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Verify {
    pub global_batch: u32,
    pub steps: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Optimizer {
    /// Stochastic gradient descent with momentum and L2 penalty, as in PyTorch's `SGD`.
    Sgd { learning_rate: f64, momentum: f64, weight_decay: f64 },
    /// Kingma and Ba, ICLR 2015, with the penalty added to the gradient.
    Adam { learning_rate: f64, beta1: f64, beta2: f64, epsilon: f64, weight_decay: f64 },
    /// Loshchilov and Hutter, ICLR 2019, with a decoupled penalty.
    Adamw { learning_rate: f64, beta1: f64, beta2: f64, epsilon: f64, weight_decay: f64 },
}

impl Optimizer {
    pub fn learning_rate(&self) -> f64 {
        match *self {
            Optimizer::Sgd { learning_rate, .. }
            | Optimizer::Adam { learning_rate, .. }
            | Optimizer::Adamw { learning_rate, .. } => learning_rate,
        }
    }

    /// Replaces the learning rate of the definition.
    pub fn set_learning_rate(&mut self, rate: f64) {
        match self {
            Optimizer::Sgd { learning_rate, .. }
            | Optimizer::Adam { learning_rate, .. }
            | Optimizer::Adamw { learning_rate, .. } => *learning_rate = rate,
        }
    }

    /// Numbers that the optimizer keeps per parameter between steps.
    pub fn state_per_parameter(&self) -> u64 {
        match self {
            Optimizer::Sgd { momentum, .. } => u64::from(*momentum != 0.0),
            // The means of the gradient and of its square.
            Optimizer::Adam { .. } | Optimizer::Adamw { .. } => 2,
        }
    }
}

/// What an entry of a catalog file defines.
#[derive(Serialize)]
#[serde(untagged)]
pub enum Definition<'a> {
    Workload(&'a Workload),
    Program(&'a CatalogProgram),
}

/// An invalid definition. Lines count from 1.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{file}: line {line}: {message}")]
pub struct CatalogError {
    pub file: String,
    pub line: usize,
    pub message: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CatalogFile {
    #[serde(default)]
    workload: Vec<Spanned<Workload>>,
    #[serde(default)]
    program: Vec<Spanned<CatalogProgram>>,
}

impl Catalog {
    /// The catalog embedded in the program.
    pub fn embedded() -> Catalog {
        let mut catalog = Catalog::default();
        for (file, text) in model::EMBEDDED {
            catalog.add(file, text).expect("a test reads every embedded file");
        }
        catalog
    }

    /// The embedded catalog plus files of the user.
    ///
    /// # Errors
    /// See [`Catalog::add_file`].
    pub fn open(files: &[PathBuf]) -> Result<Catalog, CatalogError> {
        let mut catalog = Catalog::embedded();
        for file in files {
            catalog.add_file(file)?;
        }
        Ok(catalog)
    }

    /// Adds the definitions of one file. If one of them is invalid, none is added.
    pub fn add(&mut self, file: &str, text: &str) -> Result<(), CatalogError> {
        let error = |span: Option<Range<usize>>, message: String| CatalogError {
            file: file.into(),
            line: span.map_or(1, |s| text[..s.start.min(text.len())].matches('\n').count() + 1),
            message,
        };
        let parsed: CatalogFile =
            toml::from_str(text).map_err(|e| error(e.span(), e.message().to_string()))?;
        if parsed.workload.is_empty() && parsed.program.is_empty() {
            return Err(error(None, "it defines neither a workload nor a program".into()));
        }
        let mut added = BTreeMap::new();
        for spanned in parsed.workload {
            let span = spanned.span();
            let workload = spanned.into_inner();
            if let Some(problem) = problem::problem(&workload) {
                return Err(error(Some(span), problem));
            }
            let name = workload.name.clone();
            if self.programs.contains_key(&name) {
                return Err(error(
                    Some(span),
                    format!("workload '{name}' has the name of a program; rename one"),
                ));
            }
            if self.workloads.contains_key(&name) || added.insert(name.clone(), workload).is_some() {
                return Err(error(Some(span), format!("workload '{name}' is defined twice; rename one")));
            }
        }
        let (mut programs, mut lines) = (BTreeMap::new(), BTreeMap::new());
        for spanned in parsed.program {
            let span = spanned.span();
            let program = spanned.into_inner();
            let name = program.name.clone();
            let problem = program.problem().or_else(|| {
                let is_workload = self.workloads.contains_key(&name) || added.contains_key(&name);
                is_workload.then(|| format!("program '{name}' has the name of a workload; rename it"))
            });
            if let Some(problem) = problem {
                return Err(error(Some(span), problem));
            }
            let twice = error(Some(span), format!("program '{name}' is defined twice; rename one"));
            if self.programs.contains_key(&name) || programs.insert(name.clone(), program).is_some() {
                return Err(twice);
            }
            lines.insert(name, (twice.file, twice.line));
        }
        self.workloads.append(&mut added);
        self.programs.append(&mut programs);
        self.lines.append(&mut lines);
        Ok(())
    }

    /// Adds a file of the user.
    pub fn add_file(&mut self, path: &Path) -> Result<(), CatalogError> {
        let file = path.display().to_string();
        let text = read_text(path).map_err(|e| CatalogError {
            file: file.clone(),
            line: 1,
            message: format!("cannot be read: {e}"),
        })?;
        self.add(&file, &text)
    }

    pub fn get(&self, name: &str) -> Option<&Workload> {
        self.workloads.get(name)
    }

    pub fn program(&self, name: &str) -> Option<&CatalogProgram> {
        self.programs.get(name)
    }

    /// An error of a program's definition that shows only where the program is to run, with the file and line of the definition.
    pub fn error_of_program(&self, name: &str, problem: &str) -> CatalogError {
        let (file, line) = self.lines.get(name).cloned().unwrap_or_default();
        CatalogError { file, line, message: format!("program '{name}': {problem}") }
    }

    /// All programs in alphabetical order.
    pub fn programs(&self) -> impl Iterator<Item = &CatalogProgram> {
        self.programs.values()
    }

    /// The workloads of a set in alphabetical order; empty for an unknown set.
    pub fn set(&self, name: &str) -> impl Iterator<Item = &Workload> {
        self.iter().filter(move |workload| workload.sets.iter().any(|set| set == name))
    }

    /// The names of all sets that have members.
    pub fn sets(&self) -> BTreeSet<&str> {
        self.iter().flat_map(|workload| &workload.sets).map(String::as_str).collect()
    }

    /// All workloads in alphabetical order.
    pub fn iter(&self) -> impl Iterator<Item = &Workload> {
        self.workloads.values()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) const GOOD: &str = r#"
[[workload]]
name = "a"
about = "x"
source = "x"
global_batch = 8
axes = ["ga"]
verify = { global_batch = 2, steps = 3 }
optimizer.sgd = { learning_rate = 0.1, momentum = 0.9, weight_decay = 0.0 }
model.synthetic = { step_us = 10, busy_percent = 0 }
"#;

    #[test]
    fn the_readme_lists_the_workloads_that_train() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../README.md");
        let readme = std::fs::read_to_string(path).unwrap();
        let (_, list) = readme.split_once("| family | workloads | taken from |").unwrap();
        let rows = list.lines().skip(2).take_while(|line| line.starts_with('|'));
        let names = rows.flat_map(|row| row.split('|').nth(2).unwrap().split(','));
        let mut listed: Vec<&str> = names.map(|name| name.trim().trim_matches('`')).collect();
        listed.sort_unstable();
        let catalog = Catalog::embedded();
        let trains = catalog.iter().filter(|workload| workload.model.worker() == "torch-worker");
        let mut trained: Vec<&str> = trains.map(|workload| workload.name.as_str()).collect();
        trained.sort_unstable();
        assert_eq!(listed, trained, "workloads/README.md");
    }

    #[test]
    fn every_embedded_file_is_good_and_round_trips() {
        let catalog = Catalog::embedded();
        assert!(catalog.iter().count() > 0);
        for workload in catalog.iter() {
            let json = serde_json::to_string(workload).unwrap();
            assert_eq!(&serde_json::from_str::<Workload>(&json).unwrap(), workload);
        }
    }

    #[test]
    fn every_file_of_the_folder_is_embedded() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../catalog");
        let mut files: Vec<_> = std::fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        files.sort();
        assert_eq!(files, model::EMBEDDED.iter().map(|(file, _)| *file).collect::<Vec<_>>());
    }

    #[test]
    fn invalid_definitions_are_refused_with_file_and_line() {
        let twice = format!("{GOOD}{GOOD}");
        let cases: [(&str, String, usize, &str); 7] = [
            ("unknown key", GOOD.replace("about", "abuot"), 4, "unknown field `abuot`"),
            ("unknown table", format!("{GOOD}\n[other]\n"), 12, "unknown field `other`"),
            ("duplicate", twice, 12, "workload 'a' is defined twice"),
            (
                "impossible plan",
                GOOD.replace("axes", "plan = \"ga3\"\naxes"),
                2,
                "its plan 'ga3' is impossible: a batch of 8 cannot be cut into 3",
            ),
            (
                "axis it has not",
                GOOD.replace("axes", "plan = \"gc\"\naxes"),
                2,
                "its plan 'gc' is impossible: a runs no plans with gc; it runs ga",
            ),
            ("misspelled plan", GOOD.replace("axes", "plan = \"ga1\"\naxes"), 7, "is spelled 'dp1'"),
            ("name", GOOD.replace("\"a\"", "\"A@\""), 2, "use a-z, 0-9 and '-'"),
        ];
        for (what, text, line, message) in cases {
            let mut catalog = Catalog::default();
            let error = catalog.add("mine.toml", &text).unwrap_err();
            assert!(error.message.contains(message), "{what}: {error}");
            assert_eq!((error.file.as_str(), error.line), ("mine.toml", line), "{what}: {error}");
            assert_eq!(catalog.iter().count(), 0, "{what}");
        }
    }
}
