//! Admission: finds the jobs that the cluster can never run, whatever a policy decides.

use record::placement::Placement;

use crate::{
    cluster::JobId,
    job::{JobRequest, Payload},
    occupancy::{Draft, Occupancy, PoolId},
    topology::{NodeId, Topology},
};

/// The jobs that are not admitted, each with the reason.
pub(super) fn refused<'a>(
    topology: &'a Topology,
    asked: &'a [JobRequest],
) -> impl Iterator<Item = (JobId, String)> + use<'a> {
    asked.iter().filter_map(move |asked| Some((asked.id, why_never(asked, topology)?)))
}

/// The rigid jobs for whose ranks the nodes of an empty cluster have too few CPUs under this placement, each with the reason.
pub(super) fn lacking_cpus(
    topology: &Topology,
    asked: &[JobRequest],
    empty: &Occupancy,
    placement: Placement,
) -> Vec<(JobId, String)> {
    let lacks = |asked: &JobRequest| {
        let cpus = asked.cpus.filter(|_| empty.counts_cpus() && !asked.elastic)?;
        let pools = match topology.virtual_cluster(&asked.virtual_cluster) {
            Some(of) => empty.pools_of(of),
            None => empty.pools(),
        };
        let draft = Draft::new(empty, placement, pools.clone());
        let is_wanted = |pool: PoolId| {
            let type_of = |node: NodeId| &topology.nodes()[node.0 as usize].device_type;
            asked
                .device_type
                .as_ref()
                .is_none_or(|wanted| empty.nodes_in(pool).next().map(type_of) == Some(wanted))
        };
        let has = |pool: PoolId| is_wanted(pool) && draft.fits_with(asked.devices, Some(pool), Some(cpus));
        let devices = asked.devices;
        (!pools.clone().any(has)).then(|| {
            (
                asked.id,
                format!("asks for {devices} devices with {cpus} CPUs each, and nodes have too few CPUs"),
            )
        })
    };
    asked.iter().filter_map(lacks).collect()
}

/// The reason why the job can never run, if there is one.
fn why_never(asked: &JobRequest, topology: &Topology) -> Option<String> {
    let (devices, its) = (asked.devices, &*asked.virtual_cluster);
    let is_divided = !topology.virtual_clusters().is_empty();
    if is_divided && topology.virtual_cluster(its).is_none() {
        return Some(is_of_none(its, topology));
    }
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
    let (needs, asks) = match asked.elastic {
        false => (devices, "asks for"),
        true => (asked.min_devices.unwrap_or(1), "asks for at least"),
    };
    let wanted = asked.device_type.as_deref();
    let most = topology.most_for(its, wanted);
    (needs > most).then(|| {
        let of = wanted.map_or("of one type".into(), |wanted| format!("of type {wanted}"));
        let what = if is_divided { format!("virtual cluster '{its}'") } else { "the cluster".into() };
        format!("{asks} {needs} devices, and {what} has {most} {of}")
    })
}

fn is_of_none(its: &str, topology: &Topology) -> String {
    let names: Vec<&str> = topology.virtual_clusters().iter().map(|of| &*of.name).collect();
    let names = names.join(", ");
    match its {
        "" => format!("names no virtual cluster in column 'vc', and the cluster is divided into {names}"),
        its => format!("is of virtual cluster '{its}', and the cluster is divided into {names}"),
    }
}
