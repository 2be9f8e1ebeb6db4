//! What the harness says on stdin, read by a thread so that training never waits for it.

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
            pass_on(&sender);
            // Whatever ended the listening was sent before, so whoever sees the flag finds it.
            flag.store(true, Ordering::Release);
        });
        Self { arrived, ended }
    }

    /// The oldest command that was not taken yet.
    pub(crate) fn next(&self) -> Option<io::Result<Command>> {
        self.arrived.try_recv().ok()
    }

    /// The oldest command that was not taken yet; one that comes within `time` is waited for.
    pub(crate) fn next_within(&self, time: Duration) -> Option<io::Result<Command>> {
        self.arrived.recv_timeout(time).ok()
    }

    /// Drops the commands that came too late to be obeyed; gives the error among them, if there is one.
    pub(crate) fn pending_error(&self) -> Option<io::Error> {
        self.arrived.try_iter().find_map(Result::err)
    }

    /// Whether nothing more is read from stdin, at its end or after a bad line, which means leave now.
    pub(crate) fn ended(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }
}

#[cfg(test)]
impl Commands {
    /// Those of a harness that stays and says nothing.
    pub(crate) fn none() -> Self {
        Self { arrived: mpsc::channel().1, ended: Arc::default() }
    }
}

/// Sends on what stdin says until it ends, holds a bad line, or nobody listens any more: then the job is over.
fn pass_on(sender: &Sender<io::Result<Command>>) {
    while let Some(command) = read_command(io::stdin().lock()).transpose() {
        // What follows a line that is no command cannot be trusted.
        let is_bad = command.is_err();
        if sender.send(command).is_err() || is_bad {
            return;
        }
    }
}
