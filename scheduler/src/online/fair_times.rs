//! How long jobs would take alone, and on a fair share of the devices.

use std::collections::{BTreeMap, HashMap};

use model::{Question, Throughput};
use outcomes::fairness::{Devices, add_fair_times};
use schema::{rows::Outcome, sharing::Sharing};

use super::run_inputs::RunInputs;
use crate::job::JobRequest;

impl RunInputs {
    /// Adds to outcomes what the jobs would take alone and on a fair share, by the true times of a simulation, and otherwise by the
    /// times on which the prediction stands.
    ///
    /// A job that may have devices of several types has a share of each, as in Gavel (OSDI 2020, section 4.1): alone, its
    /// throughput is the mean over the types, weighted by their numbers of devices. Types for which no time is known do not count.
    pub(super) fn with_fair_times(&self, mut outcomes: Vec<Outcome>) -> Vec<Outcome> {
        let mut known = HashMap::new();
        let mut devices = Vec::new();
        for (row, asked) in outcomes.iter_mut().zip(&self.asked) {
            let kind = (asked.kind(), &*asked.virtual_cluster);
            let &mut (step_ns, count) = known.entry(kind).or_insert_with(|| self.alone(asked));
            let alone = asked.steps.zip(step_ns).map(|(steps, step_ns)| steps as f64 * step_ns);
            row.alone_ns = alone.map(|ns| ns.round() as u64);
            let part = self.topology.virtual_cluster(&asked.virtual_cluster);
            let is_there = part.is_some() || self.topology.virtual_clusters().is_empty();
            devices
                .push(is_there.then(|| Devices { part: part.map_or(0, |part| usize::from(part.0)), count }));
        }
        let of_job = |row: &Outcome| devices.get(row.job.0 as usize).copied().flatten();
        add_fair_times(&mut outcomes, of_job);
        outcomes
    }

    /// The time of a step of a job alone on what it asks for, and the number of devices that it may use.
    fn alone(&self, asked: &JobRequest) -> (Option<f64>, u32) {
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
            let step = self.models.truth.predict(&Question {
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
