//! Jobs that the cluster can never run, whatever a policy decides.

use std::collections::BTreeMap;

use crate::{
    cluster::JobId,
    job::{Asked, What},
    topology::Topology,
};

/// Each with the reason.
pub(super) fn refused<'a>(
    topology: &Topology,
    asked: &'a [Asked],
) -> impl Iterator<Item = (JobId, String)> + use<'a> {
    let mut of_type = BTreeMap::<&str, u32>::new();
    for node in topology.nodes() {
        *of_type.entry(&node.device_type).or_default() += node.devices.len() as u32;
    }
    let most = of_type.values().copied().max().unwrap_or(0);
    asked.iter().filter_map(move |asked| Some((asked.id, why_never(asked, most)?)))
}

/// `most` is the number of devices that the cluster has of one type.
fn why_never(asked: &Asked, most: u32) -> Option<String> {
    let devices = asked.devices;
    if devices == 0 {
        return Some("asks for no device".into());
    }
    if let (What::Command(_), Some(plan)) = (&asked.what, asked.plan) {
        return Some(format!("is a command, which brings its own plan, and asks for {plan}"));
    }
    let ranks = asked.plan.map_or(devices, |plan| plan.ranks());
    if ranks != devices {
        return Some(format!("asks for {devices} devices, and its plan takes {ranks}"));
    }
    // An elastic job may be given fewer.
    (devices > most && !asked.elastic)
        .then(|| format!("asks for {devices} devices, and the cluster has {most} of one type"))
}
