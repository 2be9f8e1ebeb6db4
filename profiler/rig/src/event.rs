//! Events of a rig, which report the state of all launches to its caller.

use record::launch_end::LaunchEnd;
use schema::{units::Nanos, wire::Event};

/// One launch in a rig. Numbers count up from 0 and are never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Member(pub u32);

/// The number of steps that a checkpoint of a program holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SavedSteps {
    /// From the first start of its job on.
    OfJob(u64),
    /// From the start of this launch on.
    OfLaunch(u64),
}

/// An event of a rig; `launch` is the name of the member's launch.
#[derive(Clone, Debug, PartialEq)]
pub enum RigEvent {
    /// A rank's program runs; `pid` is its own. This is the first event of a rank.
    Started { member: Member, launch: String, rank: u32, pid: u32 },
    /// What a rank said, at its own time. Events of one rank come in order.
    Said { member: Member, rank: u32, at: Nanos, event: Event },
    /// A program that defines a checkpoint has saved its work, on an order or by itself.
    Saved { member: Member, steps: SavedSteps, was_ordered: bool },
    /// A program has not followed an order to save, or its output cannot be searched for checkpoints, for this reason.
    NotSaved { member: Member, why: String },
    /// Nothing of the launch is left, and its end is on file.
    Ended { member: Member, launch: String, end: LaunchEnd },
}
