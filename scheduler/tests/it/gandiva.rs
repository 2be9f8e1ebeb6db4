//! Gandiva: each of its mechanisms where nothing else explains the schedule.

mod growth;
mod moves;
mod packs;
mod places;
mod says;
mod search;
mod turns;

use engine::{
    Engine,
    cluster::{Action, ClusterEvent},
    job::{JobRequest, Payload},
    topology::Topology,
    view::PolicyContext,
};
use formats::{decision::Turn, rows::Outcome};
use jobs::plans::Judgement;
use launches::simulated::{self, Settings};
use model::{PredictRequest, Prediction, Throughput, switch_costs::Named};
use record::{placement::Placement, rows::Status, suspension::Suspension};
use scheduler::legal_plans;
use schema::{
    catalog::{Catalog, CatalogEntry},
    units::Nanos,
};

use crate::{
    scripts::events,
    support::{SECOND, asked, built},
};

/// A step takes the time in the trace. Beside others it takes 1.2 times as long if the batch is `LIGHT`, and 2.5 times if it is not. It
/// takes 1.5 times as long on two nodes, but for a batch of `APART`, which is faster there. Data parallelism divides it, but for a batch
/// of `POOR`, which is slower.
struct Truth;

const LIGHT: u32 = 8;
const HEAVY: u32 = 16;
const APART: u32 = 32;
const POOR: u32 = 64;

impl Throughput for Truth {
    fn predict(&self, question: &PredictRequest<'_>) -> Option<Prediction> {
        let batch = question.job.global_batch?;
        let beside: f64 = match batch {
            LIGHT => 1.2,
            _ => 2.5,
        };
        let nodes = match (question.placement.len(), batch) {
            (1, _) => 1.0,
            (_, APART) => 0.8,
            _ => 1.5,
        };
        let devices = f64::from(question.placement.iter().sum::<u32>());
        let parallel = match batch {
            POOR => 1.5 * devices - 0.5,
            _ => 1.0 / devices,
        };
        let step_ns = 0.1 * SECOND as f64 * nodes * beside.powi(question.co_runners.len() as i32);
        let is_elastic = question.job.plan.is_some();
        Some(Prediction { step_ns: step_ns * if is_elastic { parallel } else { 1.0 }, step_ns_ci: None })
    }
}

struct World {
    topology: Topology,
    reports: bool,
    placement: Placement,
    suspension: Suspension,
    cost: Nanos,
}

impl World {
    fn new(topology: Topology) -> World {
        let (placement, suspension) = (Placement::Consolidated, Suspension::Pause);
        World { topology, reports: true, placement, suspension, cost: Nanos::ZERO }
    }

    fn node(devices: u32) -> World {
        World::new(Topology::uniform(devices, devices, "GPU"))
    }

    fn run(&self, policy: &str, jobs: &[JobRequest]) -> (Vec<Turn>, Vec<Outcome>) {
        let costs = Named::constant(self.cost);
        let settings =
            Settings { progress_every: self.reports.then_some(Nanos::SECOND), ..Settings::default() };
        let mut sim = simulated::cluster(&self.topology, jobs, Box::new(Truth), &costs, settings)
            .expect("all is known");
        let fits = |_: CatalogEntry<'_>, _, _: &_, _: (&_, &[_])| Judgement::default();
        let plans = legal_plans::enumerate(jobs, &Catalog::embedded(), &self.topology, fits);
        let known = PolicyContext { costs: Some(&costs), plans: Some(&plans), ..PolicyContext::default() };
        let settings = engine::Settings {
            placement: self.placement,
            suspension: self.suspension,
            ..engine::Settings::default()
        };
        let mut engine = Engine::new(&self.topology, jobs, &Truth, settings).knowing(known);
        let mut turns = Vec::new();
        let outcomes = engine::run(&mut engine, &mut sim, &mut *built(policy), &mut turns);
        let outcomes = outcomes.unwrap_or_else(|error| panic!("{error}: {turns:#?}"));
        assert!(turns.iter().all(|turn| turn.refused.is_empty()), "{turns:?}");
        assert!(outcomes.iter().all(|row| row.status == Status::Ok), "{outcomes:?}");
        (turns, outcomes)
    }
}

/// A job with this batch: `(arrival, devices, length alone)` in seconds.
fn job(id: u32, batch: u32, (arrival, devices, length): (u64, u32, u64)) -> JobRequest {
    let what = Payload::Training { workload: "lstm".into(), global_batch: Some(batch) };
    asked(id, arrival * SECOND, devices, length * 10, SECOND / 10).with(|request| request.what = what)
}

/// The same as an elastic job.
fn elastic(id: u32, batch: u32, (arrival, length): (u64, u64)) -> JobRequest {
    let plan = Some("dp1".parse().expect("it is a plan"));
    job(id, batch, (arrival, 1, length)).with(|request| {
        request.elastic = true;
        request.plan = plan;
        request.step_ns = None;
    })
}

fn ends(outcomes: &[Outcome]) -> Vec<f64> {
    outcomes.iter().map(|row| row.end_ns.expect("it ended") as f64 / 1e9).collect()
}

/// `(second, job, devices)` of each start.
fn starts(turns: &[Turn]) -> Vec<(f64, u32, Vec<u32>)> {
    let start = |turn: &Turn, action: &Action| match action {
        Action::Start { job, devices, .. } => {
            Some((turn.at_ns.as_secs_f64(), job.0, devices.iter().map(|device| device.0).collect()))
        }
        _ => None,
    };
    turns.iter().flat_map(|turn| turn.actions.iter().filter_map(|action| start(turn, action))).collect()
}

fn reasons<'a>(turns: &'a [Turn], what: &'a str) -> Vec<&'a str> {
    turns.iter().map(|turn| &*turn.reason).filter(|reason| reason.contains(what)).collect()
}

/// The steps that jobs had done by this second, by the reports up to then.
fn steps_at(turns: &[Turn], second: u64, jobs: usize) -> Vec<u64> {
    let mut done = vec![0; jobs];
    for (at, happened) in events(turns) {
        if at.0 <= second * SECOND
            && let ClusterEvent::Progress { job, steps, .. } | ClusterEvent::Settled { job, steps, .. } =
                happened
        {
            done[job.0 as usize] = *steps;
        }
    }
    done
}
