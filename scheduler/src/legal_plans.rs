//! The plans under which elastic jobs may run, by what fits on the devices of each type.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use engine::{
    job::{JobRequest, Payload},
    legal_plans::{LegalPlans, PlansOnType},
    topology::Topology,
};
use jobs::plans::{self, Judgement, memory::DeviceMemory};
use schema::{
    catalog::{Catalog, Workload},
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
    mut judge: impl FnMut(&Workload, u32, &Plan, (&str, &[Device])) -> Judgement,
) -> LegalPlans {
    let mut asked_for: BTreeMap<(&str, u32), BTreeSet<Plan>> = BTreeMap::new();
    for asked in asked.iter().filter(|asked| asked.elastic) {
        if let Payload::Training { workload, global_batch: Some(batch) } = &asked.what {
            asked_for.entry((workload, *batch)).or_default().extend(asked.plan);
        }
    }
    let mut of = HashMap::new();
    for ((workload, batch), asked_for) in &asked_for {
        let Some(workload) = catalog.get(workload) else { continue };
        of.insert((workload.name.clone(), *batch), {
            let on_type = |(device_type, devices): (&str, Vec<Device>)| {
                let is_possible = |device: &&Device| workload.model.refuses_device(device).is_none();
                let most = devices.iter().take_while(is_possible).count();
                let memory = match devices.first() {
                    Some(Device::Cuda(_)) => DeviceMemory::Own,
                    _ => DeviceMemory::Host,
                };
                let possible = match most {
                    0 => Vec::new(),
                    most => plans::possible(workload, *batch, most as u32, memory),
                };
                let is_other = |plan: &&Plan| plan.ranks() <= most as u32 && !possible.contains(plan);
                let others: Vec<Plan> = asked_for.iter().filter(is_other).copied().collect();
                let plans = possible.into_iter().chain(others).filter_map(|plan| {
                    let on = (device_type, &devices[..plan.ranks() as usize]);
                    let judged = judge(workload, *batch, &plan, on);
                    judged.refusal.is_none().then_some((plan, judged.memory_bytes))
                });
                PlansOnType { device_type: device_type.into(), plans: plans.collect() }
            };
            topology.by_type().into_iter().map(on_type).collect::<Vec<PlansOnType>>()
        });
    }
    LegalPlans::new(of)
}
