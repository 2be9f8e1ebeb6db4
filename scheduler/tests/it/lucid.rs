//! Lucid: each of its mechanisms where nothing else explains the schedule.

mod order;
mod packs;
mod says;
mod sharing;
mod stage;

use engine::{
    Engine,
    cluster::Action,
    job::{JobRequest, Payload},
    topology::Topology,
    view::PolicyContext,
};
use formats::{decision::Turn, history::PastJob};
use launches::simulated::{self, Settings};
use model::{Classified, JobKey, PackingClass, PackingClasses, Throughput, switch_costs::Named};
use record::rows::Status;
use schema::units::Nanos;

use crate::{
    packing::Packs,
    support::{Own, SECOND, asked, built},
};

/// The class of a job by its batch: tiny with 1, medium with 2, jumbo with 3, and unknown with others.
pub(crate) struct ByBatch;

impl PackingClasses for ByBatch {
    fn class(&self, job: &JobKey<'_>) -> Option<Classified> {
        let batch = job.global_batch?;
        let class = match batch {
            1 => PackingClass::Tiny,
            2 => PackingClass::Medium,
            3 => PackingClass::Jumbo,
            _ => return None,
        };
        Some(Classified { class, path: vec![format!("batch {batch} <= 3"), "busy 0.31 <= 0.52".into()] })
    }
}

const TINY: u32 = 1;
const MEDIUM: u32 = 2;
const JUMBO: u32 = 3;
const UNKNOWN: u32 = 4;

/// A job with steps of 100 ms: `(arrival, devices, length)` in seconds.
fn job(id: u32, (arrival, devices, length): (u64, u32, u64)) -> JobRequest {
    asked(id, arrival * SECOND, devices, length * 10, SECOND / 10)
}

/// A job with this batch, which is its class.
fn of_class(batch: u32, job: JobRequest) -> JobRequest {
    let what = Payload::Training { workload: "lstm".into(), global_batch: Some(batch) };
    job.with(|request| request.what = what)
}

/// An instance of a recurring job, which the history of the world has run for as many seconds as its name says.
fn estimated(seconds: u64, job: JobRequest) -> JobRequest {
    job.with(|request| request.recurring_job = Some(seconds.to_string()))
}

/// A simulated cluster without costs of switches.
struct World<'a> {
    topology: Topology,
    belief: &'a dyn Throughput,
    /// The slowdown of two jobs together.
    truth: f64,
    reports: bool,
    history: Vec<PastJob>,
}

/// The model knows times alone.
const ALONE: Packs = Packs { slowdown: None, interval: 0.01 };

impl<'a> World<'a> {
    fn new(topology: Topology) -> World<'a> {
        World { topology, belief: &ALONE, truth: 1.2, reports: false, history: Vec::new() }
    }

    /// A cluster of one node.
    fn node(devices: u32) -> World<'a> {
        World::new(Topology::uniform(devices, devices, "GPU"))
    }

    /// Remembers recurring jobs on one device and on two of these lengths in seconds.
    fn remembers(mut self, lengths: &[u64]) -> World<'a> {
        for (seconds, devices) in lengths.iter().flat_map(|seconds| [(seconds, 1), (seconds, 2)]) {
            self.history.push(PastJob {
                name: "past".into(),
                user: String::new(),
                vc: String::new(),
                recurring_job: Some(seconds.to_string()),
                workload: "lstm".into(),
                global_batch: None,
                plan: None,
                devices,
                submit_utc: None,
                duration_ns: Nanos(seconds * SECOND),
            });
        }
        self
    }

    /// The turns, and the times in seconds at which jobs ended.
    fn run(&self, policy: &str, jobs: &[JobRequest]) -> (Vec<Turn>, Vec<f64>) {
        let costs = Named::constant(Nanos::ZERO);
        let settings =
            Settings { progress_every: self.reports.then_some(Nanos::SECOND), ..Settings::default() };
        let truth = Box::new(Own { slowdown: self.truth });
        let mut sim =
            simulated::cluster(&self.topology, jobs, truth, &costs, settings).expect("all is known");
        let known =
            PolicyContext { history: &self.history, classes: Some(&ByBatch), ..PolicyContext::default() };
        let settings = engine::Settings::default();
        let mut engine = Engine::new(&self.topology, jobs, self.belief, settings).knowing(known);
        let mut turns = Vec::new();
        let outcomes = engine::run(&mut engine, &mut sim, &mut *built(policy), &mut turns);
        let outcomes = outcomes.unwrap_or_else(|error| panic!("{error}: {turns:?}"));
        assert!(turns.iter().all(|turn| turn.refused.is_empty()), "{turns:?}");
        assert!(outcomes.iter().all(|row| row.status == Status::Ok), "{outcomes:?}");
        (turns, outcomes.iter().filter_map(|row| Some(row.end_ns? as f64 / 1e9)).collect())
    }

    /// `(second, job, devices)` of each start.
    fn starts(&self, policy: &str, jobs: &[JobRequest]) -> Vec<(u64, u32, Vec<u32>)> {
        starts(&self.run(policy, jobs).0)
    }
}

fn starts(turns: &[Turn]) -> Vec<(u64, u32, Vec<u32>)> {
    let start = |turn: &Turn, action: &Action| match action {
        Action::Start { job, devices, .. } => {
            Some((turn.at_ns.0 / SECOND, job.0, devices.iter().map(|device| device.0).collect()))
        }
        _ => None,
    };
    turns.iter().flat_map(|turn| turn.actions.iter().filter_map(|action| start(turn, action))).collect()
}

/// `(second, job, whether it took a checkpoint)` of each stop.
fn stops(turns: &[Turn]) -> Vec<(u64, u32, bool)> {
    let stop = |turn: &Turn, action: &Action| match action {
        Action::Stop { job, checkpoint } => Some((turn.at_ns.0 / SECOND, job.0, *checkpoint)),
        _ => None,
    };
    turns.iter().flat_map(|turn| turn.actions.iter().filter_map(|action| stop(turn, action))).collect()
}
