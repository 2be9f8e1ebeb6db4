//! The folder and the environment of a user's program.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The options of all programs of a run. If present, the words `{launch}`, `{repeat}` and `{run}` are filled in for each launch, here and
/// in the commands of the programs. Files keep the words as typed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Surroundings {
    /// The folder in which the program runs; if absent, the folder of the harness.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// Variables that are added to the environment.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub environment: BTreeMap<String, String>,
    /// A command for a shell before each launch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prepare: Option<String>,
    /// A command for a shell after each launch, however it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cleanup: Option<String>,
}

impl Surroundings {
    /// The surroundings of a program whose definition names this folder. `options` are those of all programs of the run, and a folder in
    /// them comes first.
    pub fn with_folder(options: Option<&Surroundings>, folder: Option<&String>) -> Option<Surroundings> {
        let cwd = options.and_then(|options| options.cwd.as_ref()).or(folder).cloned();
        match options {
            Some(options) => Some(Surroundings { cwd, ..options.clone() }),
            None => cwd.map(|cwd| Surroundings { cwd: Some(cwd), ..Surroundings::default() }),
        }
    }

    /// The texts in which words are filled in.
    pub fn texts(&self) -> impl Iterator<Item = &str> {
        let commands = self.prepare.iter().chain(&self.cleanup);
        self.cwd.iter().chain(self.environment.values()).chain(commands).map(String::as_str)
    }
}
