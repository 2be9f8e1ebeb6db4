//! Jobs, a true model, and policies for tests.

use std::sync::Arc;

use engine::{
    Engine,
    cluster::{ClusterError, JobId},
    job::{JobRequest, Pausing, Payload, SharedRequest},
    journal::Journal,
    policy::Policy,
    topology::Topology,
};
use formats::{rows::Outcome, trace::Class};
use launches::simulated::{self, SimulatedCluster};
use model::{PredictRequest, Prediction, Throughput, switch_costs::SwitchCosts};
use scheduler::policy;
use schema::units::Nanos;

pub(crate) const SECOND: u64 = 1_000_000_000;

/// A rigid job of `steps` steps of `step_ns` on this number of devices.
pub(crate) fn asked(id: u32, arrival: u64, devices: u32, steps: u64, step_ns: u64) -> JobRequest {
    JobRequest {
        id: JobId(id),
        name: format!("job-{id}"),
        arrival: Nanos(arrival),
        steps: Some(steps),
        part_ns: None,
        submitted_at: None,
        step_ns: Some(step_ns),
        shared: Arc::new(SharedRequest {
            what: Payload::Training { workload: "lstm".into(), global_batch: Some(20) },
            plan: None,
            devices,
            device_type: None,
            cpus: None,
            elastic: false,
            min_devices: None,
            max_devices: None,
            steps_regex: None,
            takes_no_checkpoint: None,
            steps_in_start: 0,
            pausing: Pausing::FreesMemory,
            user: String::new(),
            virtual_cluster: String::new(),
            class: Class::Guaranteed,
            priority: 0,
            weight: 1,
            recurring_job: None,
            search: None,
            learning_rate: None,
            loss_curve: None,
        }),
    }
}

/// Step times are those of the trace, times a factor for each other job.
#[derive(Clone, Copy)]
pub(crate) struct Own {
    pub(crate) slowdown: f64,
}

impl Throughput for Own {
    fn predict(&self, question: &PredictRequest<'_>) -> Option<Prediction> {
        let others = question.co_runners.len() as i32;
        let step_ns = question.job.trace_time?.step_ns as f64 * self.slowdown.powi(others);
        Some(Prediction { step_ns, step_ns_ci: None })
    }
}

/// Returns a policy by its name.
pub(crate) fn built(name: &str) -> Box<dyn Policy> {
    policy::build(name, &policy::typed([name])).unwrap_or_else(|error| panic!("{error:#}"))
}

/// A whole run on a simulated cluster.
pub(crate) struct World<'a> {
    pub(crate) topology: &'a Topology,
    pub(crate) asked: &'a [JobRequest],
    pub(crate) truth: Own,
    pub(crate) costs: &'a dyn SwitchCosts,
    pub(crate) settings: simulated::Settings,
}

impl<'a> World<'a> {
    pub(crate) fn engine(&'a self) -> Engine<'a> {
        Engine::new(self.topology, self.asked, &self.truth, engine::Settings::default())
    }

    pub(crate) fn sim(&'a self) -> SimulatedCluster<'a> {
        let truth = Box::new(self.truth);
        simulated::cluster(self.topology, self.asked, truth, self.costs, self.settings.clone())
            .expect("all is known")
    }

    pub(crate) fn run(
        &self,
        policy: &mut dyn Policy,
        journal: &mut dyn Journal,
    ) -> Result<Vec<Outcome>, ClusterError> {
        engine::run(&mut self.engine(), &mut self.sim(), policy, journal)
    }
}
