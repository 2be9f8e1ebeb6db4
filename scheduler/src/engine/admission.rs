//! Admission: finds the jobs that the cluster can never run, whatever a policy decides.

use crate::{
    cluster::JobId,
    job::{JobRequest, Payload},
    topology::Topology,
};

/// The jobs that are not admitted, each with the reason.
pub(super) fn refused<'a>(
    topology: &Topology,
    asked: &'a [JobRequest],
) -> impl Iterator<Item = (JobId, String)> + use<'a> {
    let most = topology.most_of_a_type();
    asked.iter().filter_map(move |asked| Some((asked.id, why_never(asked, most)?)))
}

/// The reason why the job can never run, if there is one. `most` is the largest number of devices of one type in the cluster.
fn why_never(asked: &JobRequest, most: u32) -> Option<String> {
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
        .then(|| format!("asks for {devices} devices, and the cluster has {most} of one type"))
}
