//! Jobs that share the devices of others, and leave them again.
//!
//! A job that gets no devices is started beside one that runs alone on as many as it asks for, if the model predicts a sure gain, and if
//! both together end sooner than if it waited. When devices become free for which no job waits, it moves there, if both gain more
//! than its restart costs.

use std::collections::HashSet;

use engine::{cluster::JobId, occupancy::Draft, view::View};
use formats::trace::Class;

use super::{entry::Entry, round::{Outcome, Round}};
use crate::kit::{
    gain::{Gain, SEATS},
    packs::{Packs, alone_on, can_leave},
};

/// The number of jobs without devices that are considered, in order.
const TRIED: usize = 16;

/// A job that is started on the devices of another.
#[derive(Clone, Copy, Debug)]
pub(super) struct Guest {
    pub(super) guest: JobId,
    pub(super) host: JobId,
    pub(super) gain: Gain,
}

/// The pairs of jobs of which no gain is sure.
#[derive(Debug, Default)]
pub(super) struct Unsure(HashSet<(JobId, JobId)>);

impl Unsure {
    /// Forgets the pairs of jobs that have ended, or of which the model predicts other times.
    pub(super) fn forget(&mut self, job: JobId) {
        self.0.retain(|(one, other)| *one != job && *other != job);
    }
}

/// The jobs that start beside others. `promises` says whether guaranteed jobs are kept alone.
pub(super) fn guests(
    view: &View<'_>,
    round: &Round<'_>,
    (packs, unsure): (&mut Packs, &mut Unsure),
    draft: &mut Draft<'_>,
    promises: bool,
) -> Vec<Guest> {
    let is_alone = |entry: &Entry| promises && view.request(entry.job).class == Class::Guaranteed;
    let stays = |place: &usize| round.outcomes[*place] == Outcome::Stays;
    let mut hosts: Vec<usize> = (0..round.entries.len())
        .filter(stays)
        .filter(|place| {
            let entry = &round.entries[*place];
            !is_alone(entry) && packs.of(entry.job).is_none() && alone_on(view, entry.job).is_some()
        })
        .collect();
    let mut guests = Vec::new();
    for &place in round.unplaced.iter().filter(|place| !is_alone(&round.entries[**place])).take(TRIED) {
        let entry = &round.entries[place];
        let mut best: Option<(f64, usize, Gain)> = None;
        for (number, &host) in hosts.iter().enumerate() {
            let host = &round.entries[host];
            let Some(gain) = sure_gain(view, [host, entry], packs, unsure) else { continue };
            let Some(runs) = host.runs() else { continue };
            let devices = view.job(host.job).placed().map_or(&[][..], |placed| &placed.devices);
            if !draft.has_cpus(devices, view.request(entry.job).cpus) {
                continue;
            }
            let loss_s = loss_s(host.left_at(runs.rate), asked_s(entry, &gain), &gain);
            if loss_s < round.wait_s(place) && best.is_none_or(|(least, ..)| loss_s < least) {
                best = Some((loss_s, number, gain));
            }
        }
        let Some((_, number, gain)) = best else { continue };
        let host = round.entries[hosts.remove(number)].job;
        let devices = view.job(host).placed().map_or(&[][..], |placed| &placed.devices);
        draft.take_cpus(devices, view.request(entry.job).cpus);
        guests.push(Guest { guest: entry.job, host, gain });
    }
    guests
}

/// The remaining time in seconds of a job alone on the devices that it would share.
fn asked_s(entry: &Entry, gain: &Gain) -> f64 {
    entry.left_at(1e9 / gain.alone_ns[1])
}

/// By how many seconds the remaining times of both jobs grow in sum if they share devices, over that of each alone.
fn loss_s(host_s: f64, guest_s: f64, gain: &Gain) -> f64 {
    let [host_share, guest_share] = gain.throughputs;
    let together_s = (host_s / host_share).min(guest_s / guest_share);
    together_s * (1.0 - host_share) + together_s * (1.0 - guest_share)
}

/// The gain of a job beside a host, if it is sure.
fn sure_gain(view: &View<'_>, [host, guest]: [&Entry; SEATS], packs: &mut Packs, unsure: &mut Unsure) -> Option<Gain> {
    let asked = view.request(guest.job);
    let is_alike = host.pool == guest.pool && host.devices() == asked.devices;
    let can_end = can_leave(view, host.job) || can_leave(view, guest.job);
    let pair = (host.job, guest.job);
    if !is_alike || !can_end || unsure.0.contains(&pair) {
        return None;
    }
    let kinds = [packs.kind(view, host.job), packs.kind(view, guest.job)];
    let gain = Gain::predict(view, [host.job, guest.job]);
    let gain = gain.filter(|gain| gain.is_sure() && !packs.are_apart(kinds[0], kinds[1]));
    if gain.is_none() {
        unsure.0.insert(pair);
    }
    gain
}

impl Round<'_> {
    /// Moves jobs that share devices to free ones.
    pub(super) fn part(&mut self, view: &View<'_>, packs: &Packs) {
        for place in 0..self.entries.len() {
            let entry = &self.entries[place];
            let Some(pack) = packs.of(entry.job).filter(|pack| pack.jobs()[1] == entry.job) else { continue };
            let host = pack.jobs()[0];
            let host = self.entries.iter().find(|other| other.job == host);
            let (Some(host), Some(runs)) = (host.and_then(Entry::runs).zip(host), entry.runs()) else { continue };
            let waits = |other: &usize| self.entries[*other].pool == entry.pool;
            let Some(restart_s) = crate::kit::elastic::restart_s(view, entry.job).filter(|_| can_leave(view, entry.job)) else { continue };
            if self.unplaced.iter().any(waits) {
                continue;
            }
            let option = &entry.options[entry.base];
            let (host_runs, host) = host;
            let host_alone = host.options[host.base].rate;
            let own_s = entry.left_at(runs.rate);
            let host_s = host.left_at(host_runs.rate);
            let together_s = own_s.min(host_s);
            let gain_s = together_s * (1.0 - runs.rate / option.rate) + together_s * (1.0 - host_runs.rate / host_alone);
            if gain_s <= restart_s {
                continue;
            }
            if let Some(target) = self.room.find(entry.pool, option) {
                self.runs(place, entry.base, target, entry.left_s());
            }
        }
    }
}
