//! How long jobs would take alone, and on a fair share of the devices.

use std::collections::{BTreeMap, HashMap};

use engine::{
    Engine,
    job::{JobRequest, Kind},
};
use formats::rows::Outcome;
use model::{PredictRequest, Throughput};
use outcomes::fairness::{self, Devices, Stay};
use schema::sharing::Sharing;

use super::run_inputs::RunInputs;

/// Adds to outcomes what the jobs would take alone and on a fair share, by the true times of a simulation, and otherwise by the times
/// on which the prediction stands.
///
/// A job that may have devices of several types has a share of each, as in Gavel (OSDI 2020, section 4.1): alone, its throughput is
/// the mean over the types, weighted by their numbers of devices. Types for which no time is known do not count.
pub(super) struct FairTimes<'a> {
    inputs: &'a RunInputs,
    /// The time of a step alone, and the number of devices that the job may use.
    alone: HashMap<(Kind<'a>, &'a str), (Option<f64>, u32)>,
    present: fairness::FairTimes,
}

impl<'a> FairTimes<'a> {
    /// Counts the jobs that were present in the run of an engine.
    pub(super) fn new(inputs: &'a RunInputs, engine: &Engine<'_>) -> FairTimes<'a> {
        let stays = engine.ends().filter_map(|(asked, end)| {
            let part = inputs.part(asked)?;
            Some(Stay { part, submit_ns: asked.arrival.0, end_ns: end.map(|at| at.0) })
        });
        FairTimes { inputs, alone: HashMap::new(), present: fairness::FairTimes::new(stays) }
    }

    /// Returns the outcome of a job of this run with these times.
    pub(super) fn add_to(&mut self, mut row: Outcome) -> Outcome {
        let inputs = self.inputs;
        let asked = &inputs.asked[row.job.0 as usize];
        let kind = (asked.kind(), &*asked.virtual_cluster);
        let &mut (step_ns, count) = self.alone.entry(kind).or_insert_with(|| inputs.alone(asked));
        let alone = asked.steps.zip(step_ns).map(|(steps, step_ns)| steps as f64 * step_ns);
        row.alone_ns = alone.map(|ns| ns.round() as u64);
        row.fair_ns = inputs.part(asked).and_then(|part| self.present.fair_ns(&row, Devices { part, count }));
        row
    }
}

impl RunInputs {
    /// The part of the cluster in which a job runs. `None` if its virtual cluster does not exist.
    fn part(&self, asked: &JobRequest) -> Option<usize> {
        match self.topology.virtual_cluster(&asked.virtual_cluster) {
            Some(part) => Some(usize::from(part.0)),
            None => self.topology.virtual_clusters().is_empty().then_some(0),
        }
    }

    /// The time of a step of a job alone on what it asks for, and the number of devices that it may use.
    pub(super) fn alone(&self, asked: &JobRequest) -> (Option<f64>, u32) {
        let mut types: BTreeMap<&str, (Vec<u32>, u32)> = BTreeMap::new();
        for node in self.topology.nodes_for(&asked.virtual_cluster) {
            if asked.device_type.as_ref().is_none_or(|wanted| *wanted == node.device_type) {
                let few = || (node.few_like_it(asked.devices), 0);
                types.entry(&node.device_type).or_insert_with(few).1 += node.devices.len() as u32;
            }
        }
        let workload = asked.what.workload();
        let (mut rate, mut count) = (0.0, 0);
        for (device_type, (placement, devices)) in types {
            let step = self.models.truth.predict(&PredictRequest {
                job: asked.subject(&workload, asked.plan, &self.topology, device_type),
                placement: &placement,
                device_type,
                cpus: asked.cpus,
                co_runners: &[],
                sharing: &Sharing::Alone,
                neighbours: &[],
            });
            if let Some(step) = step {
                rate += f64::from(devices) / step.step_ns;
                count += devices;
            }
        }
        ((count > 0).then(|| f64::from(count) / rate), count)
    }
}
