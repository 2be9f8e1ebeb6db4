//! Ctrl-C: the first asks for an orderly end, the second leaves at once.

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use signal_hook::{consts, flag};

use crate::cmd::Exit;

/// Whether the user wants to stop.
#[derive(Clone)]
pub struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// Listens for SIGINT and SIGTERM from now on.
    pub fn listen() -> io::Result<Interrupt> {
        let asked = Arc::new(AtomicBool::new(false));
        for signal in [consts::SIGINT, consts::SIGTERM] {
            // In this order: the signal that raises the flag is not the one that finds it raised.
            flag::register_conditional_shutdown(signal, Exit::Interrupted as i32, Arc::clone(&asked))?;
            flag::register(signal, Arc::clone(&asked))?;
        }
        Ok(Interrupt(asked))
    }

    pub fn asked(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}
