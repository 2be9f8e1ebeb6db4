//! A rank of a launch: its leash, what is heard of it, and what is left of it.

use std::{io::PipeWriter, time::Duration};

use schema::{rows::ErrorKind, spec::RankEnd, units::Nanos};
use tokio::task::AbortHandle;

use super::{
    kept::Kept,
    listener::{Fault, Listener},
};
use crate::leash::LeashHandle;

pub(super) struct Rank {
    /// Gone when the rank has ended.
    pub(super) leash: Option<LeashHandle>,
    /// Its start has been reported. Nothing it says is reported before.
    pub(super) started: bool,
    /// One for a worker. For a program of the user's one for each of its ranks that was heard of, and the first of them from
    /// the beginning.
    pub(super) listeners: Vec<Listener>,
    pub(super) stdin: Option<PipeWriter>,
    pub(super) end: Option<RankEnd>,
    pub(super) asked_at: Nanos,
    /// Of its stdout and of its stderr.
    pub(super) logs: [Kept; 2],
    /// Since when nothing but SIGKILL is meant for it, or for what it has left behind.
    pub(super) dying_since: Option<Nanos>,
    /// What waits for the reports of the leash.
    pub(super) reports: AbortHandle,
}

impl Rank {
    /// Whether it is leaving by itself.
    pub(super) fn said_last_word(&self) -> bool {
        !self.listeners.is_empty() && self.listeners.iter().all(Listener::said_last_word)
    }

    /// Of a program that may be silent for as long as it likes, nothing else tells that it never came to run.
    pub(super) fn unstarted(&self, limit: Duration) -> Option<Fault> {
        let waited = Nanos::monotonic_now().saturating_sub(self.asked_at);
        let is_late = !self.started && waited > limit.into();
        is_late.then(|| (ErrorKind::Start, format!("was not started for {waited}")))
    }

    /// Waits for it no more, as if nothing of it were left.
    pub(super) fn abandon(&mut self) {
        self.reports.abort();
        self.leash = None;
        self.stdin = None;
        self.end = Some(RankEnd::default());
    }
}
