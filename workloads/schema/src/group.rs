//! Groups: what `profile colocate` measures beside jobs alone, and what one visit of a group was.

use serde::{Deserialize, Serialize};

use crate::{sharing::Sharing, units::Nanos};

/// Jobs that run together, and how they share. A group that cannot run here keeps the reason.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Group {
    /// The names of its members joined by `+`, in the order of their seats.
    pub name: String,
    pub sharing: Sharing,
    /// Names of cells of the manifest; one may stand here twice.
    pub members: Vec<String>,
    pub unsupported: Option<String>,
}

/// What was done in one visit of a group, written when it was over: `groups/<visit>.json`. Launches that name a visit without
/// one were torn off with the harness, or interrupted by the user, and the visit is made again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Visit {
    pub format: u32,
    pub group: String,
    pub sharing: Sharing,
    pub block: u32,
    /// Which part of the run it was made in, as of its launches.
    #[serde(default)]
    pub part: u32,
    /// When all members that obey a grant had warmed up and were let go together.
    pub barrier_mono_ns: Option<Nanos>,
    /// When the first member was told to leave.
    pub end_mono_ns: Option<Nanos>,
    /// The launches of each seat, in their order: more than one where a member ended by itself and was started again.
    pub launches: Vec<Vec<String>>,
    /// Turns, where members take them: who could run, from when to when.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub turns: Vec<Turn>,
    /// Why the members did not share as asked: the mode could not be set up, or was found not to be kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_shared: Option<String>,
}

/// One member runs and all others are held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Turn {
    pub seat: u32,
    /// From its grant to the moment at which it was seen to be held.
    pub start_mono_ns: Nanos,
    pub end_mono_ns: Nanos,
}
