//! The plans under which elastic jobs may run, by what fits on the devices of each type.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use engine::{
    job::{JobRequest, Payload},
    legal_plans::{LegalPlans, PlansOnType},
    topology::Topology,
};
use jobs::plans::{self, Judgement, memory::DeviceMemory};
use schema::{
    catalog::{Catalog, CatalogEntry},
    device::Device,
    plan::Plan,
};

/// Enumerates the plans that fit on the devices of each type, and those that jobs ask for: a job may ask for degrees that are not
/// enumerated. `judge` estimates the memory of a plan on its devices, which are named with their type; a plan that it refuses is
/// left out.
pub fn enumerate(
    asked: &[JobRequest],
    catalog: &Catalog,
    topology: &Topology,
    mut judge: impl FnMut(CatalogEntry<'_>, u32, &Plan, (&str, &[Device])) -> Judgement,
) -> LegalPlans {
    let mut asked_for: BTreeMap<(&str, u32), BTreeSet<Plan>> = BTreeMap::new();
    for asked in asked.iter().filter(|asked| asked.elastic) {
        if let Payload::Training { workload, global_batch: Some(batch) } = &asked.what {
            asked_for.entry((workload, *batch)).or_default().extend(asked.plan);
        }
    }
    let mut of = HashMap::new();
    for ((name, batch), asked_for) in &asked_for {
        let Some(entry) = catalog.entry(name) else { continue };
        let on_type = |(device_type, devices): (&str, Vec<Device>)| {
            let most = devices.iter().take_while(|device| can_be_on(entry, device)).count();
            let possible = match most {
                0 => Vec::new(),
                most => plans::possible(entry, *batch, most as u32, memory(&devices)),
            };
            let plans = with_asked_for(possible, asked_for, most).into_iter();
            let judged = plans.filter(|plan| can_have(entry, plan, *batch)).filter_map(|plan| {
                let judged = judge(entry, *batch, &plan, (device_type, &devices[..plan.ranks() as usize]));
                judged.refusal.is_none().then_some((plan, judged.memory_bytes))
            });
            PlansOnType { device_type: device_type.into(), plans: judged.collect() }
        };
        let plans: Vec<PlansOnType> = topology.by_type().into_iter().map(on_type).collect();
        of.insert(((*name).to_owned(), *batch), plans);
    }
    LegalPlans::new(of)
}

fn can_be_on(entry: CatalogEntry<'_>, device: &Device) -> bool {
    match entry {
        CatalogEntry::Workload(workload) => workload.model.refuses_device(device).is_none(),
        CatalogEntry::Program(_) => true,
    }
}

/// Whether a plan that a job asks for is one of its program. Those of workloads are checked when the trace is read.
fn can_have(entry: CatalogEntry<'_>, plan: &Plan, batch: u32) -> bool {
    match entry {
        CatalogEntry::Workload(_) => true,
        CatalogEntry::Program(program) => program.refuses(plan, batch).is_none(),
    }
}

/// The possible plans, and those of at most this number of devices that jobs ask for.
fn with_asked_for(mut possible: Vec<Plan>, asked_for: &BTreeSet<Plan>, devices: usize) -> Vec<Plan> {
    let is_other = |plan: &&Plan| plan.ranks() as usize <= devices && !possible.contains(plan);
    let others: Vec<Plan> = asked_for.iter().filter(is_other).copied().collect();
    possible.extend(others);
    possible
}

fn memory(devices: &[Device]) -> DeviceMemory {
    match devices.first() {
        Some(Device::Cuda(_)) => DeviceMemory::Own,
        _ => DeviceMemory::Host,
    }
}
