//! Activation checkpointing forgets activations and changes nothing else.

mod segments;
mod workloads;

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Initial weights and dropout come from torch's one generator, and memory is counted for the whole process: tests that
/// run side by side must take turns.
pub(crate) fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    tch::set_num_threads(1);
    turn
}
