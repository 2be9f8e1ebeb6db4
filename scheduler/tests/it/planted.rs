//! Elastic jobs whose step times are planted: what tests of policies that choose plans and resources have in common.

use engine::{
    Engine,
    job::{JobRequest, Payload},
    journal::Journal,
    legal_plans::LegalPlans,
    policy::Policy,
    topology::Topology,
    view::PolicyContext,
};
use formats::{rows::Outcome, trace::Class};
use jobs::plans::Judgement;
use launches::simulated;
use model::{PredictRequest, Prediction, Throughput, switch_costs::SwitchCosts};
use scheduler::legal_plans;
use schema::{catalog::Catalog, plan::Plan};

use crate::support::{SECOND, asked};

/// The time of a step in seconds of a workload under a plan, with a number of cores for each rank. `None` for a plan that is not known.
pub(crate) type StepS = fn(&str, Plan, Option<u16>) -> Option<f64>;

/// A model with these times, half the interval of which is a share of them.
#[derive(Clone, Copy)]
pub(crate) struct Planted {
    pub(crate) step_s: StepS,
    pub(crate) doubt: fn(Plan) -> f64,
}

impl Planted {
    pub(crate) fn exact(step_s: StepS) -> Planted {
        Planted { step_s, doubt: |_| 0.0 }
    }
}

impl Throughput for Planted {
    fn predict(&self, question: &PredictRequest<'_>) -> Option<Prediction> {
        let plan = question.job.plan?;
        let step_ns = (self.step_s)(question.job.workload, plan, question.cpus)? * 1e9;
        let half = (self.doubt)(plan);
        Some(Prediction { step_ns, step_ns_ci: Some((step_ns / (1.0 + half), step_ns * (1.0 + half))) })
    }
}

/// An elastic job of a workload of the catalog, which asks for a plan.
pub(crate) fn elastic(
    id: u32,
    arrival_s: u64,
    job: (&str, u32, &str),
    steps: u64,
    class: Class,
) -> JobRequest {
    let (workload, batch, plan) = job;
    let plan: Plan = plan.parse().expect("it is a plan");
    asked(id, arrival_s * SECOND, plan.ranks(), steps, 1).with(|request| {
        request.what = Payload::Training { workload: workload.into(), global_batch: Some(batch) };
        request.plan = Some(plan);
        request.elastic = true;
        request.class = class;
        request.step_ns = None;
    })
}

/// A cluster with elastic jobs.
pub(crate) struct Elastic<'a> {
    pub(crate) topology: &'a Topology,
    pub(crate) jobs: &'a [JobRequest],
    pub(crate) model: Planted,
    pub(crate) costs: &'a dyn SwitchCosts,
    /// The plans that fit into the memory of a device.
    pub(crate) fits: fn(&Plan) -> bool,
}

impl<'a> Elastic<'a> {
    pub(crate) fn new(
        topology: &'a Topology,
        jobs: &'a [JobRequest],
        step_s: StepS,
        costs: &'a dyn SwitchCosts,
    ) -> Elastic<'a> {
        Elastic { topology, jobs, model: Planted::exact(step_s), costs, fits: |_| true }
    }

    pub(crate) fn plans(&self) -> LegalPlans {
        let judge = |plan: &Plan| match (self.fits)(plan) {
            true => Judgement::default(),
            false => Judgement { refusal: Some("it does not fit".into()), ..Judgement::default() },
        };
        legal_plans::enumerate(self.jobs, &Catalog::embedded(), self.topology, |_, _, plan, _| judge(plan))
    }

    pub(crate) fn engine(&'a self, plans: &'a LegalPlans, settings: engine::Settings) -> Engine<'a> {
        let known =
            PolicyContext { costs: Some(self.costs), plans: Some(plans), history: &[], classes: None };
        Engine::new(self.topology, self.jobs, self.model, settings).knowing(known)
    }

    pub(crate) fn run(&self, policy: &mut dyn Policy, journal: &mut dyn Journal) -> Vec<Outcome> {
        let plans = self.plans();
        let settings = simulated::Settings::default();
        let mut sim =
            simulated::cluster(self.topology, self.jobs, Box::new(self.model), self.costs, settings)
                .expect("all is known");
        let mut engine = self.engine(&plans, engine::Settings::default());
        engine::run(&mut engine, &mut sim, policy, journal).expect("every job ends")
    }
}
