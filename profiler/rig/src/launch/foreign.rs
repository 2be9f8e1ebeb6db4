//! The parts of a launch that only a program of the user's has.
//!
//! The program does not know the harness. If it is a Python program that trains with PyTorch, the step hook reports its steps.
//! Otherwise its output may contain its steps, and if not, it is measured from outside. Which of these applies is known only
//! while it runs.

use std::{fs, future::pending};

use record::rows::ErrorKind;

use super::{
    Launch,
    listener::{Listener, Speaker},
    notes,
    rank::Rank,
};
use crate::disk;

impl Launch {
    /// Finds new ranks. A program of the user's may have any number of ranks, each of which creates its file with its first
    /// step.
    pub(super) fn look_for_ranks(&mut self) {
        if self.spec.program.speaks() || self.scraper.is_some() {
            return;
        }
        let Some(Rank { listeners, asked_at, .. }) = self.ranks.first_mut() else { return };
        loop {
            let rank = listeners.len() as u32;
            let events = self.run.events_path(&self.spec.launch, rank);
            // Opening anything but a regular file could block.
            let listener = events.is_file().then(|| Listener::open(&events, rank, Speaker::Hook, *asked_at));
            let Some(Ok(listener)) = listener else { return };
            listeners.push(listener);
        }
    }

    /// Whether the program has a process without events. Such a process obeys no grant, so its job cannot take turns.
    pub(super) fn refuse_unheard(&mut self) {
        if self.spec.program.speaks() || !self.spec.sharing.takes_turns() || self.dismissed {
            return;
        }
        let notes = notes::read(&self.run.notes_path(&self.spec.launch));
        let what = match () {
            () if notes.unheard > 0 => "has another process that takes optimizer steps, which obeys no grant",
            () if notes.ungated => "takes optimizer steps where it cannot reach its grant page",
            () => return,
        };
        self.fail(0, (ErrorKind::Unsupported, format!("{what}, so {} cannot hold it", self.spec.sharing)));
    }

    /// Looks for PyTorch in a program that was offered the step hook and has no event yet.
    pub(super) fn look_for_pytorch(&mut self) {
        let is_offered = !self.spec.program.speaks() && self.scraper.is_none();
        let has_spoken = || self.ranks.iter().flat_map(|rank| &rank.listeners).any(Listener::greeted);
        if let Some(pid) = self.pid.filter(|_| is_offered && !has_spoken()) {
            self.pytorch.look(pid);
        }
    }

    /// Converts new output of the program into events.
    pub(super) fn scrape(&mut self) {
        let Some(scraper) = &mut self.scraper else { return };
        let outcome = match self.ranks.first() {
            Some(Rank { leash: Some(_), started: true, .. }) => scraper.poll(),
            Some(Rank { leash: None, end: None, .. }) => scraper.finish(),
            _ => return,
        };
        if let Err(error) = outcome {
            let is_full = disk::is_full(&error.to_string());
            let kind = if is_full { ErrorKind::DiskFull } else { ErrorKind::Internal };
            self.fail(0, (kind, format!("its steps cannot be written down: {error}")));
        }
    }

    /// Returns when a program whose output has its steps has printed something.
    pub(super) async fn output(&self) {
        match &self.scraper {
            Some(scraper) => scraper.written().await,
            None => pending().await,
        }
    }

    /// Ends a program of the user's that is to leave: when it rests, or at once if it does not obey grants.
    pub(super) fn let_go(&mut self) {
        let granted = self.granted();
        let mut listeners = self.ranks.iter().flat_map(|rank| &rank.listeners);
        if self.leaving && listeners.all(|listener| !listener.obeys_grant() || listener.rests(granted)) {
            self.dismiss();
        }
    }

    /// Removes the event file that was created for a program which then took no step.
    pub(super) fn forget_silent_rank(&self) {
        let events = self.run.events_path(&self.spec.launch, 0);
        if !self.spec.program.speaks() && fs::metadata(&events).is_ok_and(|file| file.len() == 0) {
            let _ = fs::remove_file(events);
        }
    }
}
