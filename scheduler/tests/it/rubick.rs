//! Rubick: each of its mechanisms where nothing else explains the outcome.

use engine::{
    Engine,
    cluster::{Action, ActionError, Cluster, ClusterError, ClusterEvent, JobId},
    job::{JobRequest, Phase, State},
    journal::Journal,
    topology::Topology,
    view::{PolicyContext, View},
};
use formats::{
    decision::Turn,
    rows::Outcome,
    trace::Class::{BestEffort, Guaranteed},
};
use launches::{
    LaunchCluster, ResumePoint,
    simulated::{self, Settings, SimulatedCluster},
};
use model::{PredictRequest, Prediction, Throughput, switch_costs::Named};
use proptest::prelude::*;
use record::{
    manifest::{AlikeNodes, NodeFacts},
    rows::Status,
};
use schema::{plan::Plan, units::Nanos};

use crate::{
    planted::{Elastic, Planted, elastic},
    scripted::Scripted,
    support::{SECOND, built},
};

const FREE: Nanos = Nanos::ZERO;

/// Each start as `(second, job, plan, devices)`.
fn starts(turns: &[Turn]) -> Vec<(u64, u32, String, usize)> {
    let start = |turn: &Turn, action: &Action| match action {
        Action::Start { job, devices, plan, .. } => {
            let plan = plan.map_or("none".into(), |plan| plan.to_string());
            Some((turn.at_ns.0 / SECOND, job.0, plan, devices.len()))
        }
        _ => None,
    };
    turns.iter().flat_map(|turn| turn.actions.iter().filter_map(|action| start(turn, action))).collect()
}

fn start(second: u64, job: u32, plan: &str, devices: usize) -> (u64, u32, String, usize) {
    (second, job, plan.into(), devices)
}

fn run(policy: &str, world: &Elastic<'_>) -> (Vec<Turn>, Vec<Outcome>) {
    let mut turns = Vec::new();
    let outcomes = world.run(&mut *built(policy), &mut turns);
    assert!(outcomes.iter().all(|row| row.status == Status::Ok), "{outcomes:?}");
    assert!(turns.iter().all(|turn: &Turn| turn.refused.is_empty()), "{turns:?}");
    (turns, outcomes)
}

fn end_s(row: &Outcome) -> f64 {
    row.end_ns.map_or(f64::NAN, |ns| ns as f64 / 1e9)
}

/// Data parallelism of which two devices are 1.6 times as fast as one, and four 2.4 times.
fn sublinear(_: &str, plan: Plan, _: Option<u16>) -> Option<f64> {
    let is_plain = plan == Plan { dp: plan.dp, ..Plan::default() };
    match plan.dp {
        1 if is_plain => Some(1.0),
        2 if is_plain => Some(1.0 / 1.6),
        4 if is_plain => Some(1.0 / 2.4),
        _ => None,
    }
}

#[test]
fn devices_go_to_the_job_whose_curve_rises_most() {
    // Alone it has four devices. Two jobs are fastest together with two each: 1.6 + 1.6 is more than 2.4 + 0 and than 2.4 + 1.
    let topology = Topology::uniform(4, 4, "GPU");
    let jobs = [
        elastic(0, 0, ("gpt2-mini", 8, "dp1"), 1_000, BestEffort),
        elastic(1, 100, ("gpt2-mini", 8, "dp1"), 1_000, BestEffort),
    ];
    let costs = Named::constant(FREE);
    let (turns, outcomes) = run("rubick", &Elastic::new(&topology, &jobs, sublinear, &costs));
    assert_eq!(
        starts(&turns)[..3],
        [start(0, 0, "dp4", 4), start(100, 1, "dp2", 2), start(100, 0, "dp2", 2)]
    );
    // 240 steps in the first 100 s; the other 760 at 1.6 steps/s. The second job then has all four devices.
    let end = 100.0 + 760.0 / 1.6;
    assert!((end_s(&outcomes[0]) - end).abs() < 1.0, "{}", end_s(&outcomes[0]));
    let left = 1_000.0 - 1.6 * (end - 100.0);
    assert!((end_s(&outcomes[1]) - end - left / 2.4).abs() < 2.0, "{}", end_s(&outcomes[1]));
    assert_eq!(starts(&turns)[3..], [start(end as u64, 1, "dp4", 4)]);
}

/// A job has one of two devices until the other job ends at 400 s. The second device and another plan would then make it twice as
/// fast. It has 1,000 s of work left at that time, so that it gains 500 s: a restart of 499 s pays, and one of 501 s does not.
#[test]
fn a_job_is_reconfigured_exactly_if_it_pays() {
    fn tensor_parallel(_: &str, plan: Plan, _: Option<u16>) -> Option<f64> {
        match &*plan.to_string() {
            "dp1" => Some(1.0),
            "tp2" => Some(0.5),
            _ => None,
        }
    }
    let topology = Topology::uniform(2, 2, "GPU");
    let jobs = [
        elastic(0, 0, ("gpt2-mini", 8, "dp1"), 400, Guaranteed),
        elastic(1, 0, ("gpt2-mini", 8, "dp1"), 1_400, Guaranteed),
    ];
    for (restart_s, moves) in [(499, true), (501, false)] {
        let costs = Named::constant(Nanos(restart_s * SECOND));
        let (turns, outcomes) = run("rubick", &Elastic::new(&topology, &jobs, tensor_parallel, &costs));
        let found = starts(&turns);
        assert_eq!(found[..2], [start(0, 0, "dp1", 1), start(0, 1, "dp1", 1)]);
        let end = if moves {
            assert_eq!(found[2..], [start(400, 1, "tp2", 2)], "{restart_s}");
            400.0 + restart_s as f64 + 500.0
        } else {
            assert_eq!(found[2..], [], "{restart_s}");
            1_400.0
        };
        assert!((end_s(&outcomes[1]) - end).abs() < 2.0, "{}", end_s(&outcomes[1]));
    }
    // The same restart, which pays, is more than 3 % of the time so far, until 400 s are 3 % of it: too late for this job.
    let costs = Named::constant(Nanos(400 * SECOND));
    let (turns, _) = run("rubick:restarts=3%", &Elastic::new(&topology, &jobs, tensor_parallel, &costs));
    assert_eq!(starts(&turns).len(), 2);
    // A restart of 15 s is 3 % of 500 s. Rounds are held each minute.
    let costs = Named::constant(Nanos(15 * SECOND));
    let (turns, _) = run("rubick:restarts=3%", &Elastic::new(&topology, &jobs, tensor_parallel, &costs));
    assert_eq!(starts(&turns)[2..], [start(520, 1, "tp2", 2)]);
}

#[test]
fn a_guaranteed_job_takes_its_least_from_best_effort_jobs_and_no_more_than_it_asks_for() {
    let topology = Topology::uniform(4, 4, "GPU");
    let jobs = [
        elastic(0, 0, ("gpt2-mini", 8, "dp4"), 1_000, BestEffort),
        elastic(1, 100, ("gpt2-mini", 8, "dp2"), 500, Guaranteed),
        elastic(2, 100, ("gpt2-mini", 8, "dp2"), 500, Guaranteed),
    ];
    // No restart pays, so that only guarantees move jobs.
    let costs = Named::constant(Nanos(100_000 * SECOND));
    let (turns, _) = run("rubick", &Elastic::new(&topology, &jobs, sublinear, &costs));
    let found = starts(&turns);
    assert_eq!(found[..3], [start(0, 0, "dp4", 4), start(100, 1, "dp2", 2), start(100, 2, "dp2", 2)]);
    // At a speed of 1 / 1.6 a single device is enough for each. The first job is stopped anyway, and of three devices that are left
    // a second one is worth 0.375 to a job that asks for two, and 0.25 to the first.
    let (turns, _) = run("rubick:slack=1.6", &Elastic::new(&topology, &jobs, sublinear, &costs));
    let expected =
        [start(0, 0, "dp4", 4), start(100, 1, "dp2", 2), start(100, 2, "dp1", 1), start(100, 0, "dp1", 1)];
    assert_eq!(starts(&turns)[..4], expected);
}

/// The best plan of each memory: a smaller device needs ZeRO, then checkpointing, then offload, each slower than the one before.
#[test]
fn a_job_gets_the_plan_that_fits_and_a_slower_one_only_if_it_must() {
    fn by_plan(_: &str, plan: Plan, cpus: Option<u16>) -> Option<f64> {
        let of_cpus = f64::from(cpus.unwrap_or(1)).sqrt();
        match &*plan.to_string() {
            "dp2" => Some(1.0),
            "dp2-zero2" => Some(1.1),
            "dp2-zero2-gc" => Some(1.3),
            "dp2-zero2-gc-offload" => Some(1.3 + 1.0 / of_cpus),
            _ => None,
        }
    }
    let topology = Topology::uniform(2, 2, "GPU");
    let jobs = [elastic(0, 0, ("gpt2-mini", 8, "dp2"), 100, Guaranteed)];
    let costs = Named::constant(FREE);
    type Fits = fn(&Plan) -> bool;
    let fits: [(Fits, &str); 4] = [
        (|_| true, "dp2"),
        (|plan| plan.zero == 2, "dp2-zero2"),
        (|plan| plan.zero == 2 && plan.gc, "dp2-zero2-gc"),
        (|plan| plan.offload, "dp2-zero2-gc-offload"),
    ];
    for (fits, plan) in fits {
        let world = Elastic { fits, ..Elastic::new(&topology, &jobs, by_plan, &costs) };
        let (turns, _) = run("rubick", &world);
        assert_eq!(starts(&turns), [start(0, 0, plan, 2)]);
    }
}

/// One node of two devices and 16 cores. A step of the job that offloads takes 1 s and 4 s of work of the cores of its rank.
#[test]
fn cores_go_to_the_job_that_offloads() {
    fn offloads(workload: &str, plan: Plan, cpus: Option<u16>) -> Option<f64> {
        match (workload, &*plan.to_string()) {
            ("gpt2-mini", "offload") => Some(1.0 + 4.0 / f64::from(cpus?)),
            ("bert-mini", "dp1") => Some(1.0),
            _ => None,
        }
    }
    let topology = Topology::simulated(&[AlikeNodes {
        nodes: 1,
        devices: 2,
        device_type: "GPU".into(),
        virtual_cluster: None,
        facts: NodeFacts { cpus: Some(16), ..NodeFacts::default() },
    }]);
    let cpus = |jobs: &[JobRequest]| {
        let costs = Named::constant(FREE);
        let (turns, _) = run("rubick", &Elastic::new(&topology, jobs, offloads, &costs));
        let of = |turn: &Turn| -> Vec<(u64, u32, Option<u16>)> {
            let start = |action: &Action| match action {
                Action::Start { job, cpus, .. } => Some((turn.at_ns.0 / SECOND, job.0, *cpus)),
                _ => None,
            };
            turn.actions.iter().filter_map(start).collect()
        };
        turns.iter().flat_map(of).collect::<Vec<_>>()
    };
    let offloading = |id, arrival| {
        elastic(id, arrival, ("gpt2-mini", 8, "offload"), 100, BestEffort)
            .with(|request| request.cpus = Some(8))
    };
    let plain = |id, arrival| {
        elastic(id, arrival, ("bert-mini", 8, "dp1"), 1_000, BestEffort)
            .with(|request| request.cpus = Some(8))
    };
    // The job that does not offload has one core. The other has eight, the largest power of two of the remaining fifteen.
    assert_eq!(cpus(&[plain(0, 0), offloading(1, 0)]), [(0, 0, Some(1)), (0, 1, Some(8))]);
    // Of two that offload, each has half. When one of them ends, the other has all but the core of the free device.
    let both = cpus(&[offloading(0, 0), offloading(1, 0)]);
    assert_eq!(both[..2], [(0, 0, Some(8)), (0, 1, Some(8))]);
}

#[test]
fn with_plans_or_resources_alone_the_other_stays_what_the_job_asks_for() {
    fn times(_: &str, plan: Plan, _: Option<u16>) -> Option<f64> {
        match &*plan.to_string() {
            "dp1" => Some(1.0),
            "dp2" => Some(0.7),
            "tp2" => Some(0.6),
            "dp4" => Some(0.5),
            "dp2-tp2" => Some(0.4),
            _ => None,
        }
    }
    let topology = Topology::uniform(4, 4, "GPU");
    let jobs = [elastic(0, 0, ("gpt2-mini", 8, "dp2"), 100, Guaranteed)];
    let costs = Named::constant(FREE);
    for (policy, plan, devices) in [
        ("rubick", "dp2-tp2", 4),
        ("rubick:only=plans", "tp2", 2),
        ("rubick:only=resources", "dp4", 4),
        ("rubick:only=nothing", "dp2", 2),
    ] {
        let (turns, _) = run(policy, &Elastic::new(&topology, &jobs, times, &costs));
        assert_eq!(starts(&turns), [start(0, 0, plan, devices)], "{policy}");
    }
}

/// The plan with the shorter median is the one of which less is known.
#[test]
fn a_careful_policy_decides_by_a_quantile() {
    fn times(_: &str, plan: Plan, _: Option<u16>) -> Option<f64> {
        match &*plan.to_string() {
            "dp2" => Some(1.0),
            "tp2" => Some(0.9),
            _ => None,
        }
    }
    let topology = Topology::uniform(2, 2, "GPU");
    let jobs = [elastic(0, 0, ("gpt2-mini", 8, "dp2"), 100, Guaranteed)];
    let costs = Named::constant(FREE);
    let doubt = |plan: Plan| if plan.tp > 1 { 0.4 } else { 0.0 };
    for (policy, plan) in [("rubick", "tp2"), ("rubick:risk=0.6", "tp2"), ("rubick:risk=0.9", "dp2")] {
        let world = Elastic {
            model: Planted { step_s: times, doubt },
            ..Elastic::new(&topology, &jobs, times, &costs)
        };
        let (turns, _) = run(policy, &world);
        assert_eq!(starts(&turns), [start(0, 0, plan, 2)], "{policy}");
    }
}

/// Checks at each turn that no guaranteed job waits while those that can be displaced hold enough devices for its least.
struct Guarantees {
    turns: Vec<Turn>,
    broken: Vec<String>,
}

impl Journal for Guarantees {
    fn record(&mut self, turn: Turn, view: &View<'_>) -> anyhow::Result<()> {
        let is_settled = view.jobs.iter().all(|job| match &job.state {
            State::Placed(placed) => placed.phase == Phase::Running,
            _ => true,
        });
        let acts = !turn.actions.is_empty();
        self.turns.push(turn);
        if !is_settled || acts {
            return Ok(());
        }
        let jobs = || view.asked.iter().zip(view.jobs);
        let best_effort: usize = jobs()
            .filter(|(asked, _)| asked.class == BestEffort)
            .filter_map(|(_, job)| Some(job.placed()?.devices.len()))
            .sum();
        let free = view.occupancy.free() as usize;
        for (asked, job) in jobs().filter(|(asked, _)| asked.class == Guaranteed && asked.arrival <= view.now)
        {
            if matches!(job.state, State::Waiting { .. }) && free + best_effort >= asked.devices as usize {
                self.broken.push(format!(
                    "{}: {} waits, {free} are free, {best_effort} are not guaranteed",
                    view.now, asked.name
                ));
            }
        }
        Ok(())
    }
}

fn random_jobs() -> impl Strategy<Value = Vec<JobRequest>> {
    let job = (0u64..200, 0usize..3, 1u64..400, any::<bool>());
    proptest::collection::vec(job, 1..14).prop_map(|mut drawn| {
        drawn.sort_by_key(|(arrival, ..)| *arrival);
        let job = |(id, (arrival, plan, steps, is_guaranteed)): (u32, (u64, usize, u64, bool))| {
            let plan = ["dp1", "dp2", "dp4"][plan];
            let class = if is_guaranteed { Guaranteed } else { BestEffort };
            elastic(id, arrival, ("gpt2-mini", 8, plan), steps, class)
        };
        (0..).zip(drawn).map(job).collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// On one node nothing is fragmented, so that devices are all that counts. None are kept for a job that has waited for long.
    #[test]
    fn no_guaranteed_job_waits_while_others_hold_its_devices(jobs in random_jobs(), restart_s in 0u64..40) {
        let topology = Topology::uniform(4, 4, "GPU");
        let costs = Named::constant(Nanos(restart_s * SECOND));
        let world = Elastic::new(&topology, &jobs, sublinear, &costs);
        let mut journal = Guarantees { turns: Vec::new(), broken: Vec::new() };
        let outcomes = world.run(&mut *built("rubick:bound=never"), &mut journal);
        prop_assert!(journal.broken.is_empty(), "{:?}", journal.broken);
        prop_assert!(journal.turns.iter().all(|turn| turn.refused.is_empty()));
        prop_assert!(outcomes.iter().all(|row| row.status == Status::Ok));
    }

    /// What a job is given at once is what it would be given after any number of rounds: of all divisions of the devices of a node,
    /// the one with the largest sum of speeds.
    #[test]
    fn slopes_are_equal_where_restarts_are_free(gains in proptest::collection::vec((0.3f64..0.99, 0.2f64..0.9), 2..5)) {
        let devices = 4usize;
        let topology = Topology::uniform(devices as u32, devices as u32, "GPU");
        let workloads = ["gpt2-mini", "bert-mini", "t5-mini", "lstm"];
        let jobs: Vec<JobRequest> = (0..gains.len() as u32)
            .map(|id| elastic(id, 0, (workloads[id as usize], 8, "dp1"), 1_000_000, BestEffort))
            .collect();
        let speeds: Vec<[f64; 5]> = gains
            .iter()
            .map(|(second, decay)| [0.0, 1.0, 1.0 + second, 1.0 + second, 1.0 + second + second * decay])
            .collect();
        // The model is a function of what it is asked, so that the curves are a table of the thread.
        CURVES.with_borrow_mut(|curves| *curves = speeds.clone());
        let costs = Named::constant(FREE);
        let world = Elastic::new(&topology, &jobs, |workload, plan, _| {
            let place = ["gpt2-mini", "bert-mini", "t5-mini", "lstm"].iter().position(|name| *name == workload)?;
            let is_plain = plan == Plan { dp: plan.dp, ..Plan::default() } && plan.dp != 3;
            is_plain.then(|| CURVES.with_borrow(|curves| Some(1.0 / curves.get(place)?.get(usize::from(plan.dp))?)))?
        }, &costs);
        let mut turns: Vec<Turn> = Vec::new();
        let plans = world.plans();
        let mut engine = world.engine(&plans, engine::Settings::default());
        let sim = simulated::cluster(&topology, &jobs, Box::new(world.model), &costs, Settings::default()).expect("all is known");
        let mut sim = EndsAfter { sim, at: Nanos::ZERO };
        engine::run(&mut engine, &mut sim, &mut *built("rubick"), &mut turns).expect_err("it ends at once");
        let found: f64 = starts(&turns).iter().map(|(_, job, _, devices)| speeds[*job as usize][*devices]).sum();
        let best = best_sum(&speeds, devices);
        prop_assert!((found - best).abs() < 1e-9, "{found} is not {best}: {:?}", starts(&turns));
    }
}

thread_local! {
    static CURVES: std::cell::RefCell<Vec<[f64; 5]>> = const { std::cell::RefCell::new(Vec::new()) };
}

/// The largest sum of speeds of all divisions of the devices.
fn best_sum(speeds: &[[f64; 5]], devices: usize) -> f64 {
    match speeds {
        [] => 0.0,
        [first, others @ ..] => {
            (0..=devices).map(|own| first[own] + best_sum(others, devices - own)).fold(0.0, f64::max)
        }
    }
}

/// A simulated cluster that ends when an event is due after a time.
pub(crate) struct EndsAfter<'a> {
    pub(crate) sim: SimulatedCluster<'a>,
    pub(crate) at: Nanos,
}

impl Cluster for EndsAfter<'_> {
    fn now(&self) -> Nanos {
        self.sim.now()
    }

    fn apply(&mut self, action: &Action) -> Result<(), ActionError> {
        self.sim.apply(action)
    }

    fn next(&mut self, deadline: Option<Nanos>) -> Result<Vec<ClusterEvent>, ClusterError> {
        let happened = self.sim.next(deadline)?;
        match self.sim.now() > self.at {
            true => Err(ClusterError::Interrupted),
            false => Ok(happened),
        }
    }
}

#[test]
fn elastic_jobs_are_the_same_on_a_testbed_as_on_a_simulated_cluster() {
    let topology = Topology::uniform(8, 4, "GPU");
    let mut reshaped = 0;
    for seed in 0..40 {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut arrival = 0;
        let jobs: Vec<JobRequest> = (0..12)
            .map(|id| {
                arrival += random.u64(0..60);
                let plan = ["dp1", "dp2", "dp4"][random.usize(..3)];
                let class = if random.bool() { Guaranteed } else { BestEffort };
                elastic(id, arrival, ("gpt2-mini", 8, plan), random.u64(10..600), class)
            })
            .collect();
        let costs = Named::constant(Nanos(random.u64(0..5) * SECOND));
        let world = Elastic::new(&topology, &jobs, sublinear, &costs);
        let mut simulated: Vec<Turn> = Vec::new();
        let predicted = world.run(&mut *built("rubick"), &mut simulated);
        let scripted = Scripted::new(&topology, &jobs, &world.model, &costs);
        let mut testbed = LaunchCluster::new(scripted, &jobs, None, ResumePoint::default());
        let plans = world.plans();
        let mut engine: Engine<'_> = world.engine(&plans, engine::Settings::default());
        let mut run: Vec<Turn> = Vec::new();
        let measured =
            engine::run(&mut engine, &mut testbed, &mut *built("rubick"), &mut run).expect("every job ends");
        assert_eq!((run, measured), (simulated.clone(), predicted), "seed {seed}");
        let is_reshaped = |(_, job, plan, _): &&(u64, u32, String, usize)| {
            *plan != jobs[*job as usize].plan.unwrap_or_default().to_string()
        };
        reshaped += starts(&simulated).iter().filter(is_reshaped).count();
    }
    assert!(reshaped > 200, "{reshaped}");
}

#[test]
fn a_job_is_explained_by_its_curve_and_its_last_exchange() {
    let topology = Topology::uniform(4, 4, "GPU");
    let jobs = [
        elastic(0, 0, ("gpt2-mini", 8, "dp4"), 1_000, BestEffort),
        elastic(1, 100, ("gpt2-mini", 8, "dp2"), 500, Guaranteed),
    ];
    let costs = Named::constant(FREE);
    let world = Elastic::new(&topology, &jobs, sublinear, &costs);
    let plans = world.plans();
    let mut engine = world.engine(&plans, engine::Settings::default());
    let sim = simulated::cluster(&topology, &jobs, Box::new(world.model), &costs, Settings::default())
        .expect("all is known");
    let mut policy = built("rubick");
    let mut turns: Vec<Turn> = Vec::new();
    let mut first = EndsAfter { sim, at: Nanos(101 * SECOND) };
    engine::run(&mut engine, &mut first, &mut *policy, &mut turns).expect_err("it ends at 101 s");
    let text = policy.explain(&engine.view(), JobId(1));
    for part in [
        "asks for dp2 on 2 devices (guaranteed), which is 1.600 steps/s",
        "        1     -  dp1                     1.000   0.625  0.625",
        ">       2     -  dp2                     1.600   1.000  0.375",
        "        4     -  dp4                     2.400   1.500  0.250",
        "job-1 got 2 devices for its guarantee, at 1.000 times the speed that it asks for; job-0 gave, and has 2 at 0.667",
    ] {
        assert!(text.contains(part), "{part}\n{text}");
    }
}

/// Jobs beside each other take 1.25 times as long as alone, so that two do 1.6 times the work of one.
struct Beside {
    slowdown: f64,
}

impl Throughput for Beside {
    fn predict(&self, question: &PredictRequest<'_>) -> Option<Prediction> {
        let alone = Planted { step_s: sublinear, doubt: |_| 0.001 }
            .predict(&PredictRequest { co_runners: &[], ..*question });
        let others = question.co_runners.len() as i32;
        Some(alone?.times(self.slowdown.powi(others)))
    }
}

/// Two devices, both of which a guaranteed job needs, and two best-effort jobs that ask for as many. At 100 s another guaranteed job
/// arrives, for which there is no room.
#[test]
fn jobs_that_wait_are_packed_if_that_is_a_gain_and_the_guarantee_of_the_other_is_kept() {
    let topology = Topology::uniform(2, 2, "GPU");
    let best_effort = |id, arrival| elastic(id, arrival, ("gpt2-mini", 8, "dp2"), 160, BestEffort);
    let all_best_effort = [best_effort(0, 0), best_effort(1, 10), best_effort(2, 20)];
    let costs = Named::constant(FREE);
    let run = |policy: &str, jobs: &[JobRequest], slowdown: f64| {
        // Each job asks for two devices and takes at least as many.
        let jobs: Vec<JobRequest> =
            jobs.iter().map(|job| job.clone().with(|request| request.min_devices = Some(2))).collect();
        let world = Elastic::new(&topology, &jobs, sublinear, &costs);
        let plans = world.plans();
        let known = PolicyContext { costs: Some(&costs), plans: Some(&plans), history: &[], classes: None };
        let model = Beside { slowdown };
        let mut engine = Engine::new(&topology, &jobs, model, engine::Settings::default()).knowing(known);
        let mut sim =
            simulated::cluster(&topology, &jobs, Box::new(Beside { slowdown }), &costs, Settings::default())
                .expect("all is known");
        let mut turns: Vec<Turn> = Vec::new();
        let outcomes =
            engine::run(&mut engine, &mut sim, &mut *built(policy), &mut turns).expect("every job ends");
        assert!(turns.iter().all(|turn| turn.refused.is_empty()), "{turns:?}");
        let starts: Vec<(u64, u32)> =
            starts(&turns).into_iter().map(|(second, job, ..)| (second, job)).collect();
        (starts, outcomes.iter().map(|row| end_s(row).round() as u64).collect::<Vec<_>>())
    };
    // Steps alone take 0.625 s: the jobs take 100 s each, one after the other.
    assert_eq!(
        run("rubick", &all_best_effort, 1.25),
        (vec![(0, 0), (100, 1), (200, 2)], vec![100, 200, 300])
    );
    // The second joins the first at 10 s: 90 s of work take 112.5 s. It then has done 90 of 100 s, and the third joins it.
    let (starts, ends) = run("rubick:pack=on", &all_best_effort, 1.25);
    assert_eq!(starts, [(0, 0), (10, 1), (122, 2)]);
    assert_eq!(ends[..2], [123, 135]);
    // Two jobs beside each other do less than one after the other.
    assert_eq!(run("rubick:pack=on", &all_best_effort, 2.1).0, [(0, 0), (100, 1), (200, 2)]);
    // The host is guaranteed what it asks for, which it would not have beside another.
    let with_guarantee =
        |class| [best_effort(0, 0).with(|request| request.class = class), best_effort(1, 10)];
    assert_eq!(run("rubick:pack=on", &with_guarantee(Guaranteed), 1.25).0, [(0, 0), (100, 1)]);
    assert_eq!(run("rubick:pack=on:slack=1.25", &with_guarantee(Guaranteed), 1.25).0, [(0, 0), (10, 1)]);
    // A guaranteed job that arrives takes the devices from both. They share them again when it has ended.
    let later = best_effort(2, 50).with(|request| request.class = Guaranteed);
    let (starts, _) = run("rubick:pack=on", &[best_effort(0, 0), best_effort(1, 10), later], 1.25);
    assert_eq!(starts, [(0, 0), (10, 1), (50, 2), (150, 0), (150, 1)]);
}

/// Pipelines of three stages are not among the plans that are enumerated.
#[test]
fn the_plan_that_a_job_asks_for_is_one_of_its_plans() {
    fn times(_: &str, plan: Plan, _: Option<u16>) -> Option<f64> {
        match &*plan.to_string() {
            "dp1" => Some(1.0),
            "pp3" => Some(0.4),
            _ => None,
        }
    }
    let topology = Topology::uniform(4, 4, "GPU");
    let jobs = [elastic(0, 0, ("gpt2-mini", 8, "pp3"), 100, Guaranteed)];
    let costs = Named::constant(FREE);
    let (turns, _) = run("rubick", &Elastic::new(&topology, &jobs, times, &costs));
    assert_eq!(starts(&turns), [start(0, 0, "pp3", 3)]);
}
