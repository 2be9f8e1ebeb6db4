//! What the harness says on stdin, read by a thread so that training never waits for it.

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc::{self, Receiver},
    },
    thread,
};

use schema::{events::read_command, wire::Command};

/// Commands that have arrived and were not yet obeyed.
pub(crate) struct Commands {
    arrived: Receiver<io::Result<Command>>,
    ended: Arc<AtomicBool>,
}

impl Commands {
    /// Starts to listen. To be called once: stdin is read from here on.
    pub(crate) fn listen() -> Self {
        let (sender, arrived) = mpsc::channel();
        let ended = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&ended);
        thread::spawn(move || {
            loop {
                match read_command(io::stdin().lock()) {
                    Ok(None) => break,
                    // An error of parsing is told once and ends the listening: what follows cannot be trusted.
                    Err(error) => {
                        // Nobody to tell means the job is over.
                        let _ = sender.send(Err(error));
                        return;
                    }
                    Ok(Some(command)) => {
                        if sender.send(Ok(command)).is_err() {
                            return;
                        }
                    }
                }
            }
            flag.store(true, Ordering::Release);
        });
        Self { arrived, ended }
    }

    /// The oldest command that was not taken yet.
    pub(crate) fn next(&self) -> Option<io::Result<Command>> {
        self.arrived.try_recv().ok()
    }

    /// Whether stdin has ended, which means leave now.
    pub(crate) fn ended(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }
}
