//! How a launch ended: the file `jobs/<launch>.end.json` of a run.

use schema::units::Nanos;
use serde::{Deserialize, Serialize};

use crate::rows::ErrorKind;

/// How a launch ended, written beside its spec when all of its processes are gone:
/// `jobs/<launch>.end.json`. A launch without this file was killed together with the harness.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LaunchEnd {
    pub format: u32,
    pub mono_ns: Nanos,
    /// When it was ordered to stop because enough of it was measured. Steps that ended later do not count.
    /// Absent if it ended by itself.
    pub enough_mono_ns: Option<Nanos>,
    /// Absent if the launch succeeded.
    pub err: Option<ErrorKind>,
    pub err_detail: Option<String>,
    /// The time for which the harness waited after SIGTERM before it killed a process. Absent if no process was killed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub killed_after: Option<Nanos>,
    #[serde(default, skip_serializing_if = "Notes::are_empty")]
    pub notes: Notes,
    /// One entry per rank, from the kernel's accounts of it and its children when they were reaped.
    pub ranks: Vec<RankEnd>,
}

/// Facts about a user's program besides its events.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Notes {
    /// A process of the program has imported PyTorch.
    pub has_pytorch: bool,
    /// Number of processes that take optimizer steps without events. They obey no grant.
    pub unheard: u32,
    /// Several optimizers of the program take turns, and steps are the calls of one of them.
    #[serde(default)]
    pub alternating: bool,
    /// Calls of optimizers that are no steps, if optimizers take turns: at least so many, as the count may be some seconds old.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uncounted_calls: Option<u64>,
    /// A process takes optimizer steps where the grant page of its harness cannot be reached, so nothing is known of them.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub ungated: bool,
    /// A process of the program has loaded the libraries of PyTorch, and the step hook was not told that PyTorch was imported.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub lacks_hook: bool,
    /// The reason why the user's cleanup command failed. Absent if the command succeeded, and for a launch without a cleanup command.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cleanup_failed: Option<String>,
}

impl Notes {
    fn are_empty(&self) -> bool {
        *self == Notes::default()
    }
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RankEnd {
    pub exit_code: Option<i32>,
    pub signal: Option<i32>,
    /// The rank ended by an exit or a fault of its own, before the order to stop.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub by_itself: bool,
    /// The start of its process. Absent in older files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub began_mono_ns: Option<u64>,
    /// Time from its start to its end.
    pub wall_ns: Option<u64>,
    /// Largest resident set of a single process of the rank.
    pub rss_peak_bytes: Option<u64>,
    pub cpu_ns: Option<u64>,
}

impl RankEnd {
    /// The line that a leash reports.
    pub fn to_line(&self) -> String {
        serde_json::to_string(self).expect("its fields are numbers")
    }

    pub fn from_line(line: &str) -> serde_json::Result<RankEnd> {
        serde_json::from_str(line)
    }
}
