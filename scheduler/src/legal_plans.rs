//! The plans under which elastic jobs may run.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use jobs::plans::{self, Judgement, memory::DeviceMemory};
use schema::{
    catalog::{Catalog, Workload},
    device::Device,
    plan::Plan,
};

use crate::{
    job::{JobRequest, Payload},
    topology::Topology,
};

/// A plan under which a job may run on devices of a type, as far as its workload and memory are concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LegalPlan<'a> {
    pub plan: Plan,
    pub device_type: &'a str,
    /// The estimated peak of tensor memory of the largest rank, if it is known.
    pub memory_bytes: Option<u64>,
}

/// The legal plans of each elastic job of the catalog, for each type of device. Jobs of one workload and batch have the same.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LegalPlans {
    of: HashMap<(String, u32), Vec<OnType>>,
}

/// The legal plans on the devices of a type, with the estimates of their memory.
#[derive(Clone, Debug, PartialEq, Eq)]
struct OnType {
    device_type: String,
    plans: Vec<(Plan, Option<u64>)>,
}

impl LegalPlans {
    /// Enumerates the plans that fit on the devices of each type, and those that jobs ask for: a job may ask for degrees that are not
    /// enumerated. `judge` estimates the memory of a plan on its devices, which are named with their type; a plan that it refuses is
    /// left out.
    pub fn new(
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
                    OnType { device_type: device_type.into(), plans: plans.collect() }
                };
                topology.by_type().into_iter().map(on_type).collect::<Vec<OnType>>()
            });
        }
        LegalPlans { of }
    }

    /// The legal plans of a job on the types and the numbers of devices that it allows. Empty for a job that is not elastic, because it
    /// runs under the plan that it asks for.
    pub fn of<'a>(&'a self, asked: &'a JobRequest) -> impl Iterator<Item = LegalPlan<'a>> {
        let batch = asked.what.global_batch().filter(|_| asked.elastic);
        let key = batch.map(|batch| (asked.what.workload().into_owned(), batch));
        let bounds = asked.min_devices.unwrap_or(1)..=asked.max_devices.unwrap_or(u32::MAX);
        let types = key.and_then(|key| self.of.get(&key)).into_iter().flatten();
        let types =
            types.filter(|on| asked.device_type.as_ref().is_none_or(|wanted| *wanted == on.device_type));
        let legal = types.flat_map(|OnType { device_type, plans }| {
            plans.iter().map(|&(plan, memory_bytes)| LegalPlan { plan, device_type, memory_bytes })
        });
        legal.filter(move |legal| bounds.contains(&legal.plan.ranks()))
    }
}
