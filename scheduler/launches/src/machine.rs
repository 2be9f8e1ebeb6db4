//! The life of a launch whose ranks are processes, as a state machine: inputs in, effects out. It has no clock and does no I/O.
//!
//! A launch is granted steps while it is [`LaunchPhase::Running`] and all its commands are answered. A launch that is to be suspended
//! is granted no more. What follows depends on the way of the run ([`Suspension`]): nothing when the launch rests, the answer to a
//! command, or a move of its memory. A launch that is to be saved before it leaves needs its memory on its device. No input makes a
//! launch that is leaving stay.
//!
//! The phases and their transitions are a table in the README of the scheduler. A test holds both to each other.

mod inputs;
mod phase;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;

use formats::decision::Settled;
use record::{rows::ErrorKind, suspension::Suspension};

use self::{inputs::PendingCommand, phase::Memory};
pub use self::{
    inputs::{Effect, Input, Place},
    phase::LaunchPhase,
};

/// What the life of a launch depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Traits {
    pub ranks: usize,
    /// Whether its ranks answer commands. A program of the user's does not.
    pub answers: bool,
    /// Whether it saves on an order and trains on. Some programs of the user's save only when they are ended.
    pub saves_on_order: bool,
    /// The way in which launches of the run are suspended.
    pub suspension: Suspension,
}

/// See the [module](self).
#[derive(Clone, Debug)]
pub struct LaunchMachine {
    traits: Traits,
    phase: LaunchPhase,
    memory: Memory,
    /// Commands that not all ranks have answered. Ranks answer them in this order.
    pending: VecDeque<PendingCommand>,
    /// The ranks that have answered the first command, and the first reason of a refusal among them.
    answers: usize,
    refused: Option<String>,
    /// The number of checkpoints that were ordered.
    saves: u32,
    /// The reason why the launch is ended from here.
    failure: Option<(ErrorKind, String)>,
}

impl LaunchMachine {
    pub fn new(traits: Traits) -> LaunchMachine {
        LaunchMachine {
            traits,
            phase: LaunchPhase::Starting,
            memory: Memory::OnDevice,
            pending: VecDeque::new(),
            answers: 0,
            refused: None,
            saves: 0,
            failure: None,
        }
    }

    pub fn phase(&self) -> LaunchPhase {
        self.phase
    }

    /// Whether it saves on an order.
    pub fn saves_on_order(&self) -> bool {
        self.traits.saves_on_order
    }

    /// Whether it may be granted work.
    pub fn trains(&self) -> bool {
        self.phase == LaunchPhase::Running && self.pending.is_empty()
    }

    /// Whether a rank has not answered a command.
    pub fn is_commanded(&self) -> bool {
        !self.pending.is_empty()
    }

    /// Whether its memory is on its device as a whole.
    pub fn is_on_device(&self) -> bool {
        self.memory == Memory::OnDevice
    }

    /// The first reason why the launch is ended from here. Later ones follow from the first: an action on a process whose device was
    /// lost fails as well.
    pub fn failure(&self) -> Option<&(ErrorKind, String)> {
        self.failure.as_ref()
    }

    /// Takes an input, and returns its effects in order. An input that has no meaning in the present phase has no effect.
    ///
    /// `is_idle` says whether the launch has used up its grant and does not leave by itself. It stays so while nothing is granted.
    pub fn step(&mut self, input: Input, is_idle: bool) -> Vec<Effect> {
        let mut effects = Vec::new();
        if self.phase == LaunchPhase::Gone {
            return effects;
        }
        match input {
            Input::Ready => {
                if self.phase == LaunchPhase::Starting {
                    self.run(&mut effects);
                }
            }
            Input::Suspend => self.suspend(&mut effects),
            Input::Freeze => self.freeze(&mut effects),
            Input::Resume => self.resume(&mut effects),
            Input::Save => {
                if self.trains() {
                    self.save(false, &mut effects);
                }
            }
            Input::Stop { checkpoint } => self.stop(checkpoint, &mut effects),
            Input::Answered(refused) => self.answered(refused, &mut effects),
            Input::Moved(moved) => self.moved(moved, &mut effects),
            Input::Failed(kind, why) => self.fail(kind, why, &mut effects),
            Input::Exited => self.phase = LaunchPhase::Gone,
            Input::CameToRest => {}
        }
        if self.phase == LaunchPhase::Draining && is_idle && self.pending.is_empty() {
            self.drained(&mut effects);
        }
        effects
    }

    fn run(&mut self, effects: &mut Vec<Effect>) {
        self.phase = LaunchPhase::Running;
        effects.extend([Effect::Settled(Settled::Running), Effect::Grant]);
    }

    fn suspend(&mut self, effects: &mut Vec<Effect>) {
        if self.phase != LaunchPhase::Running {
            return;
        }
        if self.traits.suspension == Suspension::Pause && self.traits.answers {
            self.phase = LaunchPhase::Suspending;
            self.tell(PendingCommand::Pause, effects);
        } else {
            self.phase = LaunchPhase::Draining;
        }
    }

    fn freeze(&mut self, effects: &mut Vec<Effect>) {
        if self.phase == LaunchPhase::Running {
            self.phase = LaunchPhase::Frozen;
            effects.extend([Effect::Freeze, Effect::Settled(Settled::Paused)]);
        }
    }

    /// It rests, and its suspension goes on.
    fn drained(&mut self, effects: &mut Vec<Effect>) {
        if self.traits.suspension == Suspension::CudaCheckpoint {
            self.phase = LaunchPhase::Suspending;
            self.move_to(Place::Host, effects);
        } else {
            self.suspended(effects);
        }
    }

    fn suspended(&mut self, effects: &mut Vec<Effect>) {
        self.phase = LaunchPhase::Suspended;
        effects.push(Effect::Settled(Settled::Paused));
    }

    fn resume(&mut self, effects: &mut Vec<Effect>) {
        if self.phase == LaunchPhase::Frozen {
            effects.push(Effect::Thaw);
            return self.run(effects);
        }
        if self.phase != LaunchPhase::Suspended {
            return;
        }
        self.phase = LaunchPhase::Resuming;
        match self.traits.suspension {
            Suspension::Pause if self.traits.answers => self.tell(PendingCommand::Resume, effects),
            Suspension::CudaCheckpoint => self.move_to(Place::Device, effects),
            Suspension::StepGate | Suspension::Pause | Suspension::Checkpoint => self.run(effects),
        }
    }

    fn stop(&mut self, checkpoint: bool, effects: &mut Vec<Effect>) {
        match self.phase {
            LaunchPhase::Saving | LaunchPhase::Leaving | LaunchPhase::Gone => {}
            // Before it is ready nothing is lost, and to wait for that may take long.
            LaunchPhase::Starting if self.traits.answers => self.kill(effects),
            // A program may train before its first event arrives, and may save its work on SIGTERM.
            LaunchPhase::Starting => self.leave(effects),
            LaunchPhase::Frozen => {
                effects.push(Effect::Thaw);
                if checkpoint {
                    self.save_and_leave(effects);
                } else {
                    // It may save its work on SIGTERM.
                    self.leave(effects);
                }
            }
            _ if checkpoint => match self.memory {
                Memory::OnDevice => self.save_and_leave(effects),
                Memory::OnHost => {
                    self.phase = LaunchPhase::Saving;
                    self.move_to(Place::Device, effects);
                }
                // It goes on when the move has ended.
                Memory::Moving(_) => self.phase = LaunchPhase::Saving,
            },
            // A process whose memory is moved is locked and cannot end by itself.
            _ if !self.is_on_device() => self.kill(effects),
            _ => self.leave(effects),
        }
    }

    fn answered(&mut self, refused: Option<String>, effects: &mut Vec<Effect>) {
        self.answers += 1;
        self.refused = self.refused.take().or(refused);
        if self.answers < self.traits.ranks {
            return;
        }
        self.answers = 0;
        let refused = self.refused.take();
        let Some(command) = self.pending.pop_front() else { return };
        match (command, refused) {
            (PendingCommand::Save { number, .. }, None) => {
                effects.push(Effect::Saved(number));
                // A launch that was being saved when it was stopped is saved twice.
                if self.phase == LaunchPhase::Saving && self.pending.is_empty() {
                    self.leave(effects);
                }
            }
            (PendingCommand::Save { is_last: false, .. }, Some(why)) => effects.push(Effect::NotSaved(why)),
            (PendingCommand::Pause, None) if self.phase == LaunchPhase::Suspending => self.suspended(effects),
            (PendingCommand::Resume, None) if self.phase == LaunchPhase::Resuming => {
                return self.run(effects);
            }
            (PendingCommand::Pause | PendingCommand::Resume, None) => {}
            (_, Some(_)) if self.phase == LaunchPhase::Leaving => {}
            // The engine takes its devices for free, so it cannot stay.
            (command, Some(why)) => {
                self.fail(ErrorKind::Internal, format!("did not {}: {why}", command.what()), effects);
            }
        }
        if self.trains() {
            effects.push(Effect::Grant);
        }
    }

    /// The move of its memory has ended.
    fn moved(&mut self, moved: Result<(), String>, effects: &mut Vec<Effect>) {
        let Memory::Moving(to) = self.memory else { return };
        if let Err(why) = moved {
            // The driver may have lost its memory.
            let why = format!("could not be suspended or go on: {why}");
            return self.fail(ErrorKind::Suspension, why, effects);
        }
        self.memory = if to == Place::Host { Memory::OnHost } else { Memory::OnDevice };
        match (self.phase, to) {
            // It is saved first, or it would have been ended at once.
            (LaunchPhase::Saving, Place::Device) => self.save_and_leave(effects),
            (LaunchPhase::Saving, Place::Host) => self.move_to(Place::Device, effects),
            (LaunchPhase::Suspending, Place::Host) => self.suspended(effects),
            (LaunchPhase::Resuming, Place::Device) => self.run(effects),
            _ => {}
        }
    }

    fn fail(&mut self, kind: ErrorKind, why: String, effects: &mut Vec<Effect>) {
        self.failure.get_or_insert((kind, why));
        self.kill(effects);
    }

    fn tell(&mut self, command: PendingCommand, effects: &mut Vec<Effect>) {
        self.pending.push_back(command);
        effects.push(match command {
            PendingCommand::Pause => Effect::Pause,
            PendingCommand::Resume => Effect::Resume,
            PendingCommand::Save { number, .. } => Effect::Save(number),
        });
    }

    fn save(&mut self, is_last: bool, effects: &mut Vec<Effect>) {
        self.saves += 1;
        self.tell(PendingCommand::Save { number: self.saves, is_last }, effects);
    }

    /// Saves it, after which it leaves. A program without such orders may save when it is ended.
    fn save_and_leave(&mut self, effects: &mut Vec<Effect>) {
        if self.traits.saves_on_order {
            self.phase = LaunchPhase::Saving;
            self.save(true, effects);
        } else {
            self.leave(effects);
        }
    }

    fn move_to(&mut self, place: Place, effects: &mut Vec<Effect>) {
        self.memory = Memory::Moving(place);
        effects.push(Effect::Move(place));
    }

    fn leave(&mut self, effects: &mut Vec<Effect>) {
        self.phase = LaunchPhase::Leaving;
        effects.push(Effect::Leave);
    }

    fn kill(&mut self, effects: &mut Vec<Effect>) {
        (self.phase, self.memory) = (LaunchPhase::Leaving, Memory::OnDevice);
        effects.push(Effect::Kill);
    }
}
