//! The plans under which elastic jobs may run, by what fits on the devices of each type.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use engine::{
    job::{JobRequest, Payload},
    legal_plans::{LegalPlans, PlansOnType},
    topology::Topology,
};
use jobs::plans::{self, Judgement, memory::DeviceMemory};
use schema::{
    catalog::{Catalog, CatalogEntry, CatalogProgram, Workload},
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
        if let Some(program) = catalog.program(workload) {
            of.insert((program.name.clone(), *batch), of_program(program, *batch, asked_for, topology));
            continue;
        }
        let Some(workload) = catalog.get(workload) else { continue };
        of.insert((workload.name.clone(), *batch), {
            let on_type = |(device_type, devices): (&str, Vec<Device>)| {
                let is_possible = |device: &&Device| workload.model.refuses_device(device).is_none();
                let most = devices.iter().take_while(is_possible).count();
                let possible = match most {
                    0 => Vec::new(),
                    most => plans::possible(
                        CatalogEntry::Workload(workload),
                        *batch,
                        most as u32,
                        memory(&devices),
                    ),
                };
                let plans = with_asked_for(possible, asked_for, most).into_iter().filter_map(|plan| {
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

/// The plans of a program on devices of each type. No memory is estimated before a launch, so that every plan is taken to fit.
fn of_program(
    program: &CatalogProgram,
    batch: u32,
    asked_for: &BTreeSet<Plan>,
    topology: &Topology,
) -> Vec<PlansOnType> {
    let on_type = |(device_type, devices): (&str, Vec<Device>)| {
        let most = devices.len();
        let possible = plans::possible(CatalogEntry::Program(program), batch, most as u32, memory(&devices));
        let plans = with_asked_for(possible, asked_for, most).into_iter();
        let plans = plans.filter(|plan| program.refuses(plan, batch).is_none());
        PlansOnType { device_type: device_type.into(), plans: plans.map(|plan| (plan, None)).collect() }
    };
    topology.by_type().into_iter().map(on_type).collect()
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
