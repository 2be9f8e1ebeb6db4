//! Commands of the harness on stdin, read by a thread so that training never waits for them.

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc::{self, Receiver, Sender},
    },
    thread,
    time::Duration,
};

use schema::{events::read_command, wire::Command};

/// Commands that have arrived and are not yet executed.
pub(crate) struct Commands {
    arrived: Receiver<io::Result<Command>>,
    ended: Arc<AtomicBool>,
}

impl Commands {
    /// Starts to listen. Must be called once, because stdin is read from here on.
    pub(crate) fn listen() -> Self {
        let (sender, arrived) = mpsc::channel();
        let ended = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&ended);
        thread::spawn(move || {
            pass_on(&sender);
            // The last message was sent before, so that a reader that sees the flag finds it.
            flag.store(true, Ordering::Release);
        });
        Self { arrived, ended }
    }

    /// The oldest command that was not taken yet.
    pub(crate) fn next(&self) -> Option<io::Result<Command>> {
        self.arrived.try_recv().ok()
    }

    /// The oldest command that was not taken yet; waits for one for up to `time`.
    pub(crate) fn next_within(&self, time: Duration) -> Option<io::Result<Command>> {
        self.arrived.recv_timeout(time).ok()
    }

    /// Drops commands that came too late, and returns the error among them, if any.
    pub(crate) fn pending_error(&self) -> Option<io::Error> {
        self.arrived.try_iter().find_map(Result::err)
    }

    /// Whether reading of stdin has ended, by its end or an invalid line, which means that the worker must
    /// exit.
    pub(crate) fn ended(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }
}

#[cfg(test)]
impl Commands {
    /// The commands of a harness that stays silent.
    pub(crate) fn none() -> Self {
        Self { arrived: mpsc::channel().1, ended: Arc::default() }
    }
}

/// Sends on commands from stdin until it ends, has an invalid line, or the receiver is gone, all of which
/// end the job.
fn pass_on(sender: &Sender<io::Result<Command>>) {
    while let Some(command) = read_command(io::stdin().lock()).transpose() {
        // What follows an invalid line cannot be trusted.
        let is_bad = command.is_err();
        if sender.send(command).is_err() || is_bad {
            return;
        }
    }
}
