//! Jobs that share the devices of others, and leave them again.
//!
//! A job that would wait or stop others is started beside one that runs alone on as many devices as it asks for, if the model predicts a sure
//! gain, and if both lose less time together than in the other way. When devices become free for which no job waits, it moves
//! there, if both gain more than its restart takes.

use std::collections::HashSet;

use engine::{cluster::JobId, view::View};
use formats::trace::Class;

use super::{entry::Entry, room::Room, round::Round};
use crate::kit::{
    gain::{Gain, SEATS},
    packs::{Packs, alone_on, can_leave},
};

/// The number of jobs for which a decision looks for a host, in order, so that its time does not grow with the square of their number.
const MOST_TRIED: usize = 16;

/// A job that is started on the devices of another one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Guest {
    /// The indices of both jobs among the entries.
    pub(super) guest: usize,
    pub(super) host: usize,
    pub(super) gain: Gain,
}

/// Pairs of jobs, a host and a guest, whose gain is not sure.
#[derive(Debug, Default)]
pub(super) struct Unsure(HashSet<(JobId, JobId)>);

impl Unsure {
    /// Forgets the pairs of a job that has ended, or of which the model predicts other times.
    pub(super) fn forget(&mut self, job: JobId) {
        self.0.retain(|(host, guest)| *host != job && *guest != job);
    }
}

/// The search of a decision for jobs that share devices.
pub(super) struct Sharing<'a> {
    packs: &'a mut Packs,
    unsure: &'a mut Unsure,
    /// The jobs that may be hosts.
    hosts: Vec<usize>,
    /// Whether guaranteed jobs have their devices for themselves.
    guarantees: bool,
    tried: usize,
}

impl<'a> Sharing<'a> {
    /// `is_on` says whether jobs may share devices at all.
    pub(super) fn new(
        view: &View<'_>,
        entries: &[Entry],
        (packs, unsure): (&'a mut Packs, &'a mut Unsure),
        is_on: bool,
        guarantees: bool,
    ) -> Sharing<'a> {
        let is_on = is_on && view.jobs_per_device as usize >= SEATS;
        let may_be_host = |index: &usize| {
            let job = entries[*index].job;
            !is_promised(view, job, guarantees) && packs.of(job).is_none() && alone_on(view, job).is_some()
        };
        let hosts = (0..entries.len()).filter(|_| is_on).filter(may_be_host).collect();
        Sharing { packs, unsure, hosts, guarantees, tried: 0 }
    }

    /// A host for a job, with which both lose the least time, and less than `most_s` seconds.
    pub(super) fn guest(
        &mut self,
        view: &View<'_>,
        (entries, index): (&[Entry], usize),
        room: &Room<'_>,
        most_s: f64,
    ) -> Option<Guest> {
        let entry = &entries[index];
        if self.hosts.is_empty() || self.tried == MOST_TRIED || is_promised(view, entry.job, self.guarantees)
        {
            return None;
        }
        self.tried += 1;
        let mut best: Option<(f64, Guest)> = None;
        for host in self.hosts.clone() {
            let Some(runs) = entries[host].runs() else { continue };
            let Some(gain) = self.sure_gain(view, [&entries[host], entry]) else { continue };
            let has_cpus = room.available.has_cpus(&runs.target.nodes, view.request(entry.job).cpus);
            let left_s = [entries[host].left_at(runs.rate), entry.left_at(1e9 / gain.alone_ns[1])];
            let loss_s = loss_s(left_s, &gain);
            if has_cpus && loss_s < best.map_or(most_s, |(least_s, _)| least_s) {
                best = Some((loss_s, Guest { guest: index, host, gain }));
            }
        }
        let (_, guest) = best?;
        self.close(guest.host);
        Some(guest)
    }

    /// Notes that a job cannot be a host any more.
    pub(super) fn close(&mut self, index: usize) {
        self.hosts.retain(|host| *host != index);
    }

    /// The gain of two jobs, if it is sure.
    fn sure_gain(&mut self, view: &View<'_>, [host, guest]: [&Entry; SEATS]) -> Option<Gain> {
        let devices = host.runs().map_or(0, |runs| runs.devices());
        let is_alike = host.pool == guest.pool && devices == view.request(guest.job).devices;
        let can_end = can_leave(view, host.job) || can_leave(view, guest.job);
        let pair = (host.job, guest.job);
        if !is_alike || !can_end || self.unsure.0.contains(&pair) {
            return None;
        }
        let kinds = [host, guest].map(|entry| self.packs.kind(view, entry.job));
        let gain = Gain::predict(view, [host.job, guest.job]);
        let gain = gain.filter(|gain| gain.is_sure() && !self.packs.are_apart(kinds[0], kinds[1]));
        if gain.is_none() {
            self.unsure.0.insert(pair);
        }
        gain
    }
}

/// Whether a job is to run as if it were alone.
fn is_promised(view: &View<'_>, job: JobId, guarantees: bool) -> bool {
    guarantees && view.request(job).class == Class::Guaranteed
}

/// By how many seconds the remaining times of two jobs, alone, grow in sum if they share devices until one of them ends.
fn loss_s(left_s: [f64; SEATS], gain: &Gain) -> f64 {
    let [host, guest] = gain.throughputs;
    let together_s = (left_s[0] / host).min(left_s[1] / guest);
    together_s * (2.0 - host - guest)
}

impl Round<'_> {
    /// The guests that gain by devices for which no job waits. These are taken.
    pub(super) fn separate(&mut self, view: &View<'_>, separations: &[Separation]) -> Vec<usize> {
        let mut separated = Vec::new();
        for separation in separations {
            let (guest, host) = (&self.entries[separation.guest], &self.entries[separation.host]);
            let (Some(own), Some(host_runs)) = (guest.runs(), host.runs()) else { continue };
            // Both run as they ask while they share devices.
            let asked = [guest, host].map(|entry| entry.option_on(view.request(entry.job).devices));
            let [Some(option), Some(alone)] = asked else { continue };
            let together_s = guest.left_at(own.rate).min(host.left_at(host_runs.rate));
            let gain_s = together_s * (2.0 - own.rate / option.rate - host_runs.rate / alone.rate);
            if gain_s <= separation.restart_s || self.any_waits(guest.pool) {
                continue;
            }
            if self.room.find(guest.pool, option).is_some() {
                separated.push(separation.guest);
            }
        }
        separated
    }
}

/// A guest that may leave its host.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Separation {
    /// The indices of both jobs among the entries.
    pub(super) guest: usize,
    pub(super) host: usize,
    /// What it costs to stop the guest and to start it again, in seconds.
    pub(super) restart_s: f64,
}
