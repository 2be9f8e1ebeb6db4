//! Groups of jobs, which `profile colocate` measures besides jobs alone, and the record of one visit of a
//! group.

use schema::{sharing::Sharing, units::Nanos};
use serde::{Deserialize, Serialize};

/// Jobs that run together, and their sharing mode. A group that cannot run here has the reason.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Group {
    /// The names of its members joined by `+`, in the order of their seats.
    pub name: String,
    pub sharing: Sharing,
    /// Names of cells of the manifest, with repetition.
    pub members: Vec<String>,
    pub unsupported: Option<String>,
}

/// The record of one visit of a group, written at its end: `groups/<visit>.json`. If launches name a visit
/// without a record, the harness was killed or interrupted during the visit, and the visit is repeated.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Visit {
    pub format: u32,
    pub group: String,
    pub sharing: Sharing,
    pub block: u32,
    /// The part of the run that it was made in, as for its launches.
    #[serde(default)]
    pub part: u32,
    /// When all members that obey a grant had warmed up and were released together.
    pub barrier_mono_ns: Option<Nanos>,
    /// When the first member was ordered to stop.
    pub end_mono_ns: Option<Nanos>,
    /// The launches of each seat in order. There is more than one if a member ended by itself and was
    /// restarted.
    pub launches: Vec<Vec<String>>,
    /// The turns of members under a mode with turns: the member, the start and the end.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub turns: Vec<Turn>,
    /// Why the members did not share as requested: the mode could not be set up, or was found to be
    /// violated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_shared: Option<String>,
}

/// One member runs and all others are held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Turn {
    pub seat: u32,
    /// From the grant to the moment at which the member was observed to be held.
    pub start_mono_ns: Nanos,
    pub end_mono_ns: Nanos,
}
