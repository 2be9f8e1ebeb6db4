//! Admission: finds the jobs that the cluster can never run, whatever a policy decides.

use std::collections::HashMap;

use crate::{
    cluster::JobId,
    job::{JobRequest, Payload},
    topology::Topology,
};

/// The jobs that are not admitted, each with the reason.
pub(super) fn refused<'a>(
    topology: &'a Topology,
    asked: &'a [JobRequest],
) -> impl Iterator<Item = (JobId, String)> + use<'a> {
    let names = topology.virtual_clusters().iter().map(|of| (&*of.name, topology.most_for(&of.name)));
    let most_for: HashMap<&str, u32> = names.collect();
    let most = topology.most_of_a_type();
    let why = move |asked: &JobRequest| match most_for.is_empty() {
        true => why_never(asked, most, "the cluster"),
        false => {
            let its = &*asked.virtual_cluster;
            let Some(most) = most_for.get(its) else { return Some(is_of_none(its, topology)) };
            why_never(asked, *most, &format!("virtual cluster '{its}'"))
        }
    };
    asked.iter().filter_map(move |asked| Some((asked.id, why(asked)?)))
}

fn is_of_none(its: &str, topology: &Topology) -> String {
    let names: Vec<&str> = topology.virtual_clusters().iter().map(|of| &*of.name).collect();
    let names = names.join(", ");
    match its {
        "" => format!("names no virtual cluster in column 'vc', and the cluster is divided into {names}"),
        its => format!("is of virtual cluster '{its}', and the cluster is divided into {names}"),
    }
}

/// The reason why the job can never run, if there is one. `most` is the largest number of devices of one type in `what`, the part
/// of the cluster that the job may use.
fn why_never(asked: &JobRequest, most: u32, what: &str) -> Option<String> {
    let devices = asked.devices;
    if devices == 0 {
        return Some("asks for no device".into());
    }
    if let (Payload::Command(_), Some(plan)) = (&asked.what, asked.plan) {
        return Some(format!("is a command, which brings its own plan, and asks for {plan}"));
    }
    let ranks = asked.plan.map_or(devices, |plan| plan.ranks());
    if ranks != devices {
        return Some(format!("asks for {devices} devices, and its plan takes {ranks}"));
    }
    // A policy may give an elastic job fewer.
    (devices > most && !asked.elastic)
        .then(|| format!("asks for {devices} devices, and {what} has {most} of one type"))
}
