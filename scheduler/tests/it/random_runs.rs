//! Random clusters, traces, step times and settings, for tests that compare two worlds.

use engine::{
    job::{JobRequest, Payload},
    legal_plans::LegalPlans,
    topology::Topology,
};
use fastrand::Rng;
use formats::trace::Class;
use jobs::plans::Judgement;
use launches::simulated::{Faults, Settings};
use model::{
    BeliefError, Classified, JobKey, PackingClass, PackingClasses, PredictRequest, Prediction, Throughput,
    UseAlone,
    switch_costs::{Cost, SwitchCosts},
};
use record::{
    manifest::{AlikeNodes, NodeFacts},
    placement::Placement,
};
use scheduler::legal_plans;
use schema::{
    catalog::{Catalog, CatalogEntry},
    sharing::Sharing,
    units::Nanos,
};

use crate::{
    scripts::MS,
    support::{SECOND, asked},
};

/// The time of a step depends on everything that a question tells, so that a mix-up is detected. Two jobs that share a device have
/// more throughput than in turns.
#[derive(Clone, Copy)]
pub(crate) struct Truth {
    pub(crate) minds_neighbours: bool,
}

impl Throughput for Truth {
    fn predict(&self, question: &PredictRequest<'_>) -> Option<Prediction> {
        let devices: u32 = question.placement.iter().sum();
        let nodes = question.placement.len() as f64;
        let in_mode = if *question.sharing == Sharing::TIME_SLICE { 1.2 } else { 1.5 };
        let beside: f64 = question.co_runners.iter().map(|other| in_mode + 0.2 * weight(other)).product();
        let near: f64 = question
            .neighbours
            .iter()
            .map(|neighbour| neighbour.share * (0.1 + 0.2 * weight(&neighbour.job)))
            .sum();
        let step_ns = question.job.trace_time?.step_ns as f64
            * (1.0 + 0.5 * weight(&question.job))
            * if question.device_type == "old" { 1.6 } else { 1.0 }
            * (1.0 + 0.2 * (nodes - 1.0) + 0.03 * f64::from(question.placement[0]))
            * question.cpus.map_or(1.0, |cpus| 1.0 + 0.4 / f64::from(cpus))
            * beside
            * (1.0 + near)
            / f64::from(devices).powf(0.8);
        Some(Prediction { step_ns, step_ns_ci: Some((0.99 * step_ns, 1.01 * step_ns)) })
    }

    fn minds_neighbours(&self) -> bool {
        self.minds_neighbours
    }
}

/// A number below 1 that differs between workloads, batches and plans.
fn weight(job: &JobKey<'_>) -> f64 {
    let plan = job
        .plan
        .map_or(0, |plan| 3 * plan.dp + 11 * plan.tp + 17 * u16::from(plan.zero) + u16::from(plan.gc));
    let workload: u32 = job.workload.bytes().map(u32::from).sum();
    f64::from((workload + job.global_batch.unwrap_or_default() + u32::from(plan)) % 31) / 31.0
}

/// Most jobs have a class.
pub(crate) struct Classes;

impl PackingClasses for Classes {
    fn class(&self, job: &JobKey<'_>) -> Option<Classified> {
        let class = match (31.0 * weight(job)) as u32 % 4 {
            0 => PackingClass::Tiny,
            1 => PackingClass::Medium,
            2 => PackingClass::Jumbo,
            _ => return None,
        };
        Some(Classified { class, path: Vec::new() })
    }

    fn use_alone(&self, job: &JobKey<'_>) -> Option<UseAlone> {
        Some(UseAlone { busy: weight(job), peak_memory_bytes: None })
    }
}

/// Each switch has another cost, which depends on the job, its plan and the number of its devices. An exit costs nothing.
pub(crate) struct Costs;

impl SwitchCosts for Costs {
    fn cost(&self, job: &JobKey<'_>, devices: u32, of: Cost, _: &mut dyn FnMut() -> f64) -> Option<Nanos> {
        let ms = match of {
            Cost::Start => 3_100,
            Cost::Restart => 4_700,
            Cost::Pause => 210,
            Cost::Resume => 330,
            Cost::Checkpoint => 1_300,
            Cost::Stop => 590,
            Cost::Exit => return Some(Nanos::ZERO),
        };
        let of_plan = (40.0 * weight(job)) as u64;
        Some(Nanos((ms + of_plan + u64::from(devices)) * MS + job.trace_time?.step_ns % MS))
    }
}

/// A cluster, a trace, and what is true and believed of it.
pub(crate) struct RandomRun {
    pub(crate) topology: Topology,
    pub(crate) jobs: Vec<JobRequest>,
    /// The plans of elastic jobs.
    pub(crate) plans: LegalPlans,
    pub(crate) truth: Truth,
    pub(crate) classes: Classes,
    /// What the policy believes: the truth, or the truth with errors.
    pub(crate) belief: Box<dyn Throughput>,
    pub(crate) is_mistaken: bool,
    pub(crate) settings: Settings,
    pub(crate) engine: engine::Settings,
}

impl RandomRun {
    pub(crate) fn new(seed: u64) -> RandomRun {
        let mut random = Rng::with_seed(seed);
        let topology = topology(&mut random, seed % 2 == 1);
        let jobs = jobs(&mut random, &topology);
        let fits = |_: CatalogEntry<'_>, _, _: &_, _: (&_, &[_])| Judgement::default();
        let plans = legal_plans::enumerate(&jobs, &Catalog::embedded(), &topology, fits);
        let truth = Truth { minds_neighbours: random.bool() };
        let is_mistaken = random.bool();
        let belief: Box<dyn Throughput> = match is_mistaken {
            true => Box::new(BeliefError { model: Box::new(truth), sigma: 0.8, bias: 0.2, seed }),
            false => Box::new(truth),
        };
        let every = |random: &mut Rng, from, to| random.bool().then(|| Nanos(random.u64(from..to)));
        let settings = Settings {
            seed,
            progress_every: every(&mut random, SECOND / 2, 9 * SECOND),
            checkpoint_every: every(&mut random, 4 * SECOND, 20 * SECOND),
            faults: Faults { launch_mtbf_ns: random.bool().then_some(60e9), ..Faults::default() },
            ..Settings::default()
        };
        let placement = if random.bool() { Placement::Consolidated } else { Placement::Spread };
        let modes = ["time-slice", "time-slice", "time-slice", "step-gate", "step-gate:8", "alone"];
        let sharing: Sharing = modes[random.usize(..6)].parse().expect("it is a mode");
        let settings = Settings { sharing: sharing.clone(), ..settings };
        let engine = engine::Settings { placement, sharing, ..engine::Settings::default() };
        RandomRun { topology, jobs, plans, truth, classes: Classes, belief, is_mistaken, settings, engine }
    }
}

/// Up to three groups of nodes, which may have two types of device, known numbers of CPUs and two virtual clusters. The first may be the
/// nodes on which jobs are profiled.
fn topology(random: &mut Rng, has_stage: bool) -> Topology {
    let (is_divided, has_types, knows_cpus) = (random.u8(..3) == 0, random.bool(), random.bool());
    let group = |random: &mut Rng| {
        let devices = random.u32(1..4);
        let cpus = knows_cpus.then(|| devices * random.u32(1..4));
        let is_old = has_types && random.bool();
        AlikeNodes {
            nodes: random.u32(1..3),
            devices,
            device_type: if is_old { "old" } else { "GPU" }.into(),
            virtual_cluster: is_divided.then(|| if random.bool() { "a" } else { "b" }.into()),
            facts: NodeFacts { cpus, ..NodeFacts::default() },
        }
    };
    let mut groups: Vec<AlikeNodes> = (0..random.u32(1..4)).map(|_| group(random)).collect();
    groups[0].facts.profiling = has_stage;
    Topology::simulated(&groups)
}

fn jobs(random: &mut Rng, topology: &Topology) -> Vec<JobRequest> {
    let mut arrivals: Vec<u64> = (0..random.u32(2..14)).map(|_| random.u64(..90 * SECOND)).collect();
    // Some arrive at the same instant.
    arrivals.extend(arrivals.first().copied());
    arrivals.sort_unstable();
    (0..).zip(arrivals).map(|(id, arrival)| job(random, topology, id, arrival)).collect()
}

fn job(random: &mut Rng, topology: &Topology, id: u32, arrival: u64) -> JobRequest {
    let virtual_cluster = if random.bool() { "a" } else { "b" };
    let device_type = match random.u8(..8) {
        0 => Some("old".to_owned()),
        1 => Some("GPU".to_owned()),
        _ => None,
    };
    let elastic = random.bool();
    // A policy that ignores elasticity could never start an elastic job that asks for more than there is.
    let most = topology.most_for(virtual_cluster, device_type.as_deref()).max(1);
    let devices = random.u32(1..4);
    let devices = if elastic { devices.min(most) } else { devices };
    // All CPUs that the nodes have are enough for one a rank.
    let cpus = random.bool().then(|| if elastic { 1 } else { random.u16(1..4) });
    let plan = random.bool().then(|| format!("dp{devices}").parse().expect("it is a plan"));
    let (steps, step_ns) = (random.u64(1..60), random.u64(20 * MS..2 * SECOND));
    asked(id, arrival, devices, steps, step_ns).with(|request| {
        request.what = Payload::Training {
            workload: ["lstm", "gpt2", "resnet18-mini"][random.usize(..3)].into(),
            global_batch: Some(random.u32(1..64)),
        };
        request.plan = plan;
        request.device_type = device_type;
        request.cpus = cpus;
        request.elastic = elastic;
        request.min_devices = (elastic && random.bool()).then(|| random.u32(1..=devices));
        request.max_devices = (elastic && random.bool()).then(|| random.u32(devices..5));
        request.virtual_cluster = virtual_cluster.into();
        request.loss_curve = (step_ns % 3 == 0).then(|| "0.01/1/0.5".parse().expect("it is a curve"));
        request.class = if step_ns % 2 == 0 { Class::BestEffort } else { Class::Guaranteed };
    })
}
