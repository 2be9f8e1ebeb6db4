//! A rank of a launch: its leash, its events, and its end.

use std::{io::PipeWriter, time::Duration};

use record::{launch_end::RankEnd, rows::ErrorKind};
use schema::units::Nanos;
use tokio::task::AbortHandle;

use super::{
    kept::Kept,
    listener::{Fault, Listener},
};
use crate::leash::LeashHandle;

pub(super) struct Rank {
    /// `None` when the rank has ended.
    pub(super) leash: Option<LeashHandle>,
    /// Whether its start has been reported. None of its events is reported before.
    pub(super) started: bool,
    /// One listener for a worker. A program of the user's has one for each rank that has events, and the first of them from the
    /// beginning.
    pub(super) listeners: Vec<Listener>,
    pub(super) stdin: Option<PipeWriter>,
    pub(super) end: Option<RankEnd>,
    pub(super) asked_at: Nanos,
    /// The logs of its stdout and its stderr.
    pub(super) logs: [Kept; 2],
    /// The time of the first SIGKILL to it, or to processes that it left behind.
    pub(super) dying_since: Option<Nanos>,
    /// The task that waits for the reports of the leash.
    pub(super) reports: AbortHandle,
}

impl Rank {
    /// Whether it is leaving by itself.
    pub(super) fn said_last_word(&self) -> bool {
        !self.listeners.is_empty() && self.listeners.iter().all(Listener::said_last_word)
    }

    /// The fault of a program that was not started in time. No other fault shows this for a program without events.
    pub(super) fn unstarted(&self, limit: Duration) -> Option<Fault> {
        let waited = Nanos::monotonic_now().saturating_sub(self.asked_at);
        let is_late = !self.started && waited > limit.into();
        is_late.then(|| (ErrorKind::Start, format!("was not started for {waited}")))
    }

    /// Stops waiting for it, as if all of its processes had ended.
    pub(super) fn abandon(&mut self) {
        self.reports.abort();
        self.leash = None;
        self.stdin = None;
        self.end = Some(RankEnd::default());
    }
}
