//! The plans under which elastic jobs may run.

use std::collections::HashMap;

use jobs::plans::{self, Judgement};
use schema::{
    catalog::{Catalog, Workload},
    device::Device,
    plan::Plan,
};

use crate::job::{JobRequest, Payload};

/// A plan under which a job may run, as far as its workload and memory are concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LegalPlan {
    pub plan: Plan,
    /// The estimated peak of tensor memory of the largest rank, if it is known.
    pub memory_bytes: Option<u64>,
}

/// The legal plans of each elastic job of the catalog. Jobs of one workload and batch have the same.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LegalPlans {
    of: HashMap<(String, u32), Vec<LegalPlan>>,
}

impl LegalPlans {
    /// Enumerates the plans that fit on these devices. `judge` estimates the memory of a plan; a plan that it refuses is left out.
    pub fn new(
        asked: &[JobRequest],
        catalog: &Catalog,
        devices: &[Device],
        mut judge: impl FnMut(&Workload, u32, &Plan) -> Judgement,
    ) -> LegalPlans {
        let mut of = HashMap::new();
        for asked in asked.iter().filter(|asked| asked.elastic) {
            let Payload::Training { workload, global_batch: Some(batch) } = &asked.what else { continue };
            let Some(workload) = catalog.get(workload) else { continue };
            of.entry((workload.name.clone(), *batch)).or_insert_with(|| {
                let candidates = plans::enumerate(workload, *batch, devices);
                let legal = candidates.into_iter().filter(|candidate| candidate.refusal.is_none());
                legal
                    .filter_map(|candidate| {
                        let Judgement { refusal, memory_bytes, .. } =
                            judge(workload, *batch, &candidate.plan);
                        refusal.is_none().then_some(LegalPlan { plan: candidate.plan, memory_bytes })
                    })
                    .collect()
            });
        }
        LegalPlans { of }
    }

    /// The legal plans of a job on the numbers of devices that it allows. None for a job that is not elastic: it runs under the plan
    /// that it asks for.
    pub fn of(&self, asked: &JobRequest) -> impl Iterator<Item = LegalPlan> {
        let batch = asked.what.global_batch().filter(|_| asked.elastic);
        let key = batch.map(|batch| (asked.what.workload().into_owned(), batch));
        let plans = key.and_then(|key| self.of.get(&key)).into_iter().flatten();
        let bounds = asked.min_devices.unwrap_or(1)..=asked.max_devices.unwrap_or(u32::MAX);
        plans.copied().filter(move |legal| bounds.contains(&legal.plan.ranks()))
    }
}
