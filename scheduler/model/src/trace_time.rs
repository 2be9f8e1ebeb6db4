//! Step times in traces.

use schema::plan::Plan;

use crate::{PredictRequest, Prediction};

/// The time of a step alone in the trace of a job. It holds for what the job asks for, and for nothing else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceTime<'a> {
    pub step_ns: u64,
    pub plan: Option<Plan>,
    pub devices: u32,
    /// The smallest number of nodes that have the devices.
    pub nodes: u32,
    /// The type of the devices. If the trace does not name it, the cluster has one type.
    pub device_type: Option<&'a str>,
}

impl PredictRequest<'_> {
    /// The step time alone in the trace, if it holds for the plan and the devices of the question.
    pub(crate) fn trace_time(&self) -> Option<Prediction> {
        let TraceTime { step_ns, plan, devices, nodes, device_type } = self.job.trace_time?;
        let holds = self.job.plan == plan
            && self.placement.iter().sum::<u32>() == devices
            && self.placement.len() <= nodes as usize
            && device_type.is_none_or(|named| named == self.device_type);
        holds.then_some(Prediction { step_ns: step_ns as f64, step_ns_ci: None })
    }
}
