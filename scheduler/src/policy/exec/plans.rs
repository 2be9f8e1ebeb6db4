//! The plans of elastic jobs, with what the model of the view says of each. They are kept as text, because a prediction for every plan
//! takes most of the time of a decision, and changes only when the model learns.

use std::{collections::HashMap, sync::Arc};

use formats::exec::{ShownPlan, ShownPlans};

use engine::{cluster::JobId, job::SharedRequest, legal_plans::LegalPlan, view::View};
use policies::kit::belief;

/// The most text that is kept. Beyond it, all is made again when it is needed.
const MOST_BYTES: usize = 64 << 20;

/// The plans of jobs that ask for the same.
#[derive(Default)]
pub(super) struct Plans {
    /// The version of the model that the texts are of.
    version: Option<u64>,
    /// By the address of what the jobs ask for, which is kept so that nothing else has it, and the time of a step in the trace.
    texts: HashMap<(usize, Option<u64>), (Arc<SharedRequest>, ShownPlans)>,
    bytes: usize,
}

impl Plans {
    pub(super) fn show(&mut self, view: &View<'_>, job: JobId) -> ShownPlans {
        let asked = view.request(job);
        if !asked.elastic {
            return ShownPlans::none();
        }
        if self.version != view.model.version() || self.bytes > MOST_BYTES {
            *self = Plans { version: view.model.version(), ..Plans::default() };
        }
        let key = (Arc::as_ptr(&asked.shared).addr(), asked.step_ns);
        let bytes = &mut self.bytes;
        let make = || {
            let plans: Vec<ShownPlan> = view.plans(job).map(|legal| show_plan(view, job, legal)).collect();
            let shown = ShownPlans::new(&plans);
            *bytes += shown.bytes();
            (asked.shared.clone(), shown)
        };
        self.texts.entry(key).or_insert_with(make).1.clone()
    }
}

fn show_plan(view: &View<'_>, job: JobId, legal: LegalPlan<'_>) -> ShownPlan {
    let LegalPlan { plan, device_type, memory_bytes } = legal;
    let step_ns = belief::step_under(view, job, plan, device_type).map(|step| step.step_ns);
    ShownPlan { plan, devices: plan.ranks(), device_type: device_type.into(), memory_bytes, step_ns }
}
