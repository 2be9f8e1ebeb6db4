//! The inputs and the effects of the machine.

use formats::decision::Settled;
use record::rows::ErrorKind;

/// What happens to a launch: orders of the cluster, and what is heard of its processes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    /// All ranks are ready.
    Ready,
    /// Suspends it in the way of the run.
    Suspend,
    /// Suspends it by a stop of its processes, because it obeys no grant.
    Freeze,
    /// Lets it train on.
    Resume,
    /// A periodic checkpoint is due.
    Save,
    /// Ends it, with all that it has done saved or not.
    Stop { checkpoint: bool },
    /// It has used up its grant.
    CameToRest,
    /// A rank has answered the first command that not all ranks have answered, or refused it for this reason.
    Answered(Option<String>),
    /// The move of its memory has ended, or failed for this reason.
    Moved(Result<(), String>),
    /// It has to be ended for this reason, which completes a sentence that begins with its name.
    Failed(ErrorKind, String),
    /// Its processes have ended.
    Exited,
}

/// What a launcher has to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Tell the cluster.
    Settled(Settled),
    /// Grant it work if it has too little.
    Grant,
    /// Stop all its processes, or let them go on.
    Freeze,
    Thaw,
    /// Command all ranks to move their tensors off the device, or back.
    Pause,
    Resume,
    /// Command all ranks to write the checkpoint with this number. The numbers of a launch count from 1.
    Save(u32),
    /// All ranks have written the checkpoint with this number.
    Saved(u32),
    /// A periodic checkpoint was refused for this reason. The launch trains on.
    NotSaved(String),
    /// Move the memory of its process.
    Move(Place),
    /// Let it leave at the end of a step.
    Leave,
    /// End its processes at once.
    Kill,
}

/// Where the memory of a process is moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    Host,
    Device,
}

/// A command to all ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PendingCommand {
    Pause,
    Resume,
    /// `is_last` for the checkpoint after which the launch leaves.
    Save {
        number: u32,
        is_last: bool,
    },
}

impl PendingCommand {
    pub(super) fn what(self) -> &'static str {
        match self {
            PendingCommand::Pause => "pause",
            PendingCommand::Resume => "resume",
            PendingCommand::Save { .. } => "write a checkpoint",
        }
    }
}
