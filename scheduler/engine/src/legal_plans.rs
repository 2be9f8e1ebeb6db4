//! The plans under which elastic jobs may run.

use std::collections::HashMap;

use schema::plan::Plan;

use crate::job::JobRequest;

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
    of: HashMap<(String, u32), Vec<PlansOnType>>,
}

/// The legal plans on the devices of a type, with the estimated peak of tensor memory of the largest rank, if it is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlansOnType {
    pub device_type: String,
    pub plans: Vec<(Plan, Option<u64>)>,
}

impl LegalPlans {
    /// The legal plans of each workload and batch, on devices of each type.
    pub fn new(of: HashMap<(String, u32), Vec<PlansOnType>>) -> LegalPlans {
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
        let legal = types.flat_map(|PlansOnType { device_type, plans }| {
            plans.iter().map(|&(plan, memory_bytes)| LegalPlan { plan, device_type, memory_bytes })
        });
        legal.filter(move |legal| bounds.contains(&legal.plan.ranks()))
    }
}
