//! How a program of the catalog saves its work, and goes on from what it has saved.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::{line, split};
use crate::{
    braces::{self, LaunchName},
    words,
};

/// What lets a program save, what shows that it has saved, and how it goes on.
///
/// In its texts, `{checkpoint}` stands for a folder of the job, which is the same in all launches of the job. The harness makes the folder
/// and removes nothing in it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProgramCheckpoint {
    /// What lets the program save. `None` if the program alone decides when it saves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub save: Option<SaveOrder>,
    pub saved: SavedSign,
    /// Words that follow the command when the job goes on from a checkpoint.
    pub resume: String,
    /// Whether a checkpoint of one plan serves another plan.
    #[serde(default)]
    pub portable: bool,
}

/// What lets a program save.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(
    untagged,
    expecting = "expected SIGUSR1, SIGUSR2, SIGHUP, SIGINT or SIGTERM, or { touch = \"PATH\" }"
)]
pub enum SaveOrder {
    /// A signal to each process that trains.
    Signal(SaveSignal),
    /// A file that is made, or whose time is set to now.
    Touch { touch: String },
}

words! {
    /// A signal on which a program saves.
    SaveSignal {
        Usr1 = "SIGUSR1",
        Usr2 = "SIGUSR2",
        Hup = "SIGHUP",
        Int = "SIGINT",
        /// The program saves and ends.
        Term = "SIGTERM",
    }
}

/// What shows that a program has saved.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged, expecting = "expected a text with {step}, or { file = \"PATH\" }")]
pub enum SavedSign {
    /// A part of a line of its output. `{step}` in it is the number of steps that the checkpoint holds, from the first start of the job on.
    Line(String),
    /// A file or a folder that gets its name when it is whole. It holds the steps that have ended by its time.
    File { file: String },
}

/// The name of the number of steps in a line.
const STEP: &str = "step";

impl ProgramCheckpoint {
    /// Whether the program ends when it is to save.
    pub fn saves_at_its_end(&self) -> bool {
        self.save == Some(SaveOrder::Signal(SaveSignal::Term))
    }

    /// The words that follow the command when the job goes on.
    pub(super) fn resume_words(&self) -> Vec<String> {
        split(&self.resume)
    }

    /// Whether a text names the folder of the job.
    pub(super) fn names_folder(text: &str) -> bool {
        braces::names(text).any(|name| name == LaunchName::Checkpoint.to_string())
    }

    /// The first error of the definition, with the key that has it.
    pub(super) fn problem(&self) -> Option<String> {
        let of_launch = |name: &str| name.parse::<LaunchName>().is_ok();
        let unknown = |key: &str, text: &str, is_known: &dyn Fn(&str) -> bool| {
            let name = braces::names(text).find(|name| !is_known(name))?;
            Some(format!(
                "checkpoint.{key}: nothing fills {{{name}}}; write {{{{{name}}}}} for the text itself"
            ))
        };
        match &self.saved {
            SavedSign::Line(line) => {
                let steps = braces::names(line).filter(|name| *name == STEP).count();
                if steps != 1 {
                    return Some(format!(
                        "checkpoint.saved: a line needs {{step}} once, where it has the number of steps that are saved, as in \
                         \"saved checkpoint at step {{step}}\", and '{line}' has it {steps} times; or name the file of a \
                         checkpoint: {{ file = \"{{checkpoint}}/last.pt\" }}"
                    ));
                }
                if let Some(problem) = unknown("saved", line, &|name| name == STEP) {
                    return Some(problem);
                }
            }
            SavedSign::File { file } => {
                if let Some(problem) = unknown("saved.file", file, &of_launch) {
                    return Some(problem);
                }
            }
        }
        if let Some(SaveOrder::Touch { touch }) = &self.save
            && let Some(problem) = unknown("save.touch", touch, &of_launch)
        {
            return Some(problem);
        }
        if let Some(problem) = self.problem_of_paths() {
            return Some(problem);
        }
        if shlex::split(&self.resume).is_none_or(|words| words.is_empty()) {
            return Some(format!(
                "checkpoint.resume: expected the words with which the program goes on, as \"--resume {{checkpoint}}\", and \
                 found '{}'",
                self.resume
            ));
        }
        unknown("resume", &self.resume, &of_launch)
    }
}

impl ProgramCheckpoint {
    /// A file belongs to one job.
    fn problem_of_paths(&self) -> Option<String> {
        let touched = match &self.save {
            Some(SaveOrder::Touch { touch }) => Some(("save.touch", touch)),
            Some(SaveOrder::Signal(_)) | None => None,
        };
        let shown = match &self.saved {
            SavedSign::File { file } => Some(("saved.file", file)),
            SavedSign::Line(_) => None,
        };
        let begins = |path: &str| path.starts_with("{checkpoint}/") || path.starts_with("{launch}/");
        let (key, path) = touched.into_iter().chain(shown).find(|(_, path)| !begins(path))?;
        Some(format!(
            "checkpoint.{key}: '{path}' would be a file of all jobs; begin it with {{checkpoint}}/, the folder of a job"
        ))
    }
}

impl SavedSign {
    /// The number of steps that a line of output says are saved. `None` if the line says nothing of a checkpoint.
    pub fn steps_in(&self, line: &str) -> Option<u64> {
        let SavedSign::Line(pattern) = self else { return None };
        line::numbers(pattern, &[STEP], line)?.first()?.parse().ok()
    }
}

impl fmt::Display for SaveOrder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SaveOrder::Signal(signal) => write!(f, "{signal}"),
            SaveOrder::Touch { touch } => write!(f, "a touch of {touch}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_in_a_line_is_that_of_the_saved_steps() {
        let sign = SavedSign::Line("saved checkpoint at step {step}".into());
        for (line, steps) in [
            ("[rank0]: saved checkpoint at step 120", Some(120)),
            ("saved checkpoint at step 7.", Some(7)),
            ("saved checkpoint at step -7", None),
            ("saved checkpoint at step 99999999999999999999", None),
            ("step 120 loss 3.1", None),
        ] {
            assert_eq!(sign.steps_in(line), steps, "{line}");
        }
        assert_eq!(SavedSign::File { file: "{checkpoint}/x".into() }.steps_in("x"), None);
    }
}
