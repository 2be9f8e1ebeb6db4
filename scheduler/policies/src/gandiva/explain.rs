//! What Gandiva says of a job: its devices, who takes turns there, its pack, and what is not tried again.

use std::collections::BTreeSet;

use engine::{cluster::JobId, job::State, view::View};

use super::Gandiva;

/// The explanation for a job that has arrived. Empty if it has ended.
pub(super) fn text(gandiva: &Gandiva, view: &View<'_>, job: JobId) -> String {
    if matches!(view.job(job).state, State::Ended { .. }) {
        return String::new();
    }
    let Some(resident) = gandiva.residents.get(job) else { return of_queue(gandiva, job) };
    let devices: Vec<String> = resident.devices.iter().map(|device| view.topology.name_of(*device)).collect();
    let devices = devices.join(", ");
    let there = resident.devices.iter().flat_map(|device| gandiva.residents.on(*device)).copied();
    let members: BTreeSet<JobId> = gandiva.residents.members(job).collect();
    let others: BTreeSet<JobId> = there.filter(|other| !members.contains(other)).collect();
    let mut says = Vec::new();
    if others.is_empty() {
        says.push(format!("it takes turns with no other job on {devices}"));
    } else {
        let weight = view.request(job).weight;
        let served =
            format!("in order of time over weight, it is at {:.1} s with weight {weight}", resident.served_s);
        says.push(format!("it takes turns on {devices} with {}; {served}", names(view, &others)));
    }
    says.extend(gandiva.explain_pack(view, job));
    let kind = |job: &JobId| gandiva.kind_of.get(job);
    let are_apart = |other: &JobId| {
        let kinds = kind(&job).zip(kind(other));
        kinds.is_some_and(|(one, other)| gandiva.kinds.are_apart(*one, *other))
    };
    let apart: BTreeSet<JobId> = others.into_iter().filter(are_apart).collect();
    if !apart.is_empty() {
        says.push(format!(
            "it is not packed with {}, because such jobs lost or did not fit together",
            names(view, &apart)
        ));
    }
    if gandiva.is_barred(job) {
        says.push(
            "its start was refused at several turns in a row, so that it waits until another job ends".into(),
        );
    }
    says.join("; ")
}

fn of_queue(gandiva: &Gandiva, job: JobId) -> String {
    let place = gandiva.queue.iter().position(|(_, other)| *other == job);
    place.map_or_else(String::new, |place| {
        let all = gandiva.queue.len();
        format!(
            "it is number {} of {all} in the queue; it finds no devices that are free or that it may share",
            place + 1
        )
    })
}

fn names(view: &View<'_>, jobs: &BTreeSet<JobId>) -> String {
    let names: Vec<&str> = jobs.iter().map(|job| &*view.request(*job).name).collect();
    names.join(", ")
}
