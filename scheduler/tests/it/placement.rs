//! Where policies place jobs: on the fewest nodes if they are consolidated, on any if they are spread. FIFO and SJF agree with the
//! rules of Lucid's simulator.

use std::collections::BTreeMap;

use engine::{
    Engine,
    cluster::{Action, ClusterError, JobId},
    job::{Job, JobRequest, Phase, State},
    journal::Journal,
    policy::Policy,
    topology::Topology,
    view::View,
};
use fastrand::Rng;
use formats::{
    decision::{ClusterEvent, Turn},
    rows::Outcome,
};
use launches::simulated::{self, Faults, Settings};
use model::switch_costs::Named;
use proptest::prelude::*;
use record::{placement::Placement, rows::Status};
use schema::{device::Device, units::Nanos};

use crate::{
    packing::Packs,
    scripts::MS,
    support::{Own, SECOND, asked, built},
};

const POLICIES: [&str; 6] =
    ["fifo", "fifo-backfill", "sjf", "srtf", "tiresias:20s:promote=3", "packing-fifo"];

/// A run on a cluster where a switch takes the given time.
struct Run<'a> {
    topology: &'a Topology,
    jobs: &'a [JobRequest],
    placement: Placement,
    settings: Settings,
    switch_cost: Nanos,
}

impl Run<'_> {
    fn of(&self, policy: &mut dyn Policy, journal: &mut dyn Journal) -> Result<Vec<Outcome>, ClusterError> {
        let costs = Named::constant(self.switch_cost);
        let truth = Box::new(Own { slowdown: 1.2 });
        let mut sim = simulated::cluster(self.topology, self.jobs, truth, &costs, self.settings.clone())
            .expect("all is known");
        let model = Packs { slowdown: Some(1.2), interval: 0.01 };
        let settings = engine::Settings { placement: self.placement, ..engine::Settings::default() };
        engine::run(&mut Engine::new(self.topology, self.jobs, &model, settings), &mut sim, policy, journal)
    }
}

fn nodes_of(devices: &[u32]) -> Topology {
    let node = |(number, devices): (usize, &u32)| {
        (format!("n{number}"), "GPU".to_owned(), (0..*devices).map(Device::Cuda).collect())
    };
    Topology::new(devices.iter().enumerate().map(node))
}

fn any_jobs(sizes: &'static [u32]) -> impl Strategy<Value = Vec<JobRequest>> {
    let job = (0u64..60_000, prop::sample::select(sizes), 1u64..30_000);
    prop::collection::vec(job, 1..40).prop_map(|mut jobs| {
        jobs.sort_by_key(|job| job.0);
        let job = |(id, (arrival, devices, steps))| asked(id, arrival * MS, devices, steps, MS);
        (0..).zip(jobs).map(job).collect()
    })
}

/// The smallest number of nodes with this many devices, the largest nodes first.
fn fewest_nodes(topology: &Topology, devices: u32) -> usize {
    let mut of_nodes: Vec<u32> = topology.nodes().iter().map(|node| node.devices.len() as u32).collect();
    of_nodes.sort_unstable_by(|a, b| b.cmp(a));
    let mut sum = 0;
    1 + of_nodes
        .iter()
        .take_while(|of| {
            sum += **of;
            sum < devices
        })
        .count()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    /// Nothing is refused either, although launches crash and switches take time.
    #[test]
    fn a_consolidated_job_is_on_the_smallest_number_of_nodes(
        jobs in any_jobs(&[1, 1, 2, 3, 4, 5, 6, 8, 11, 12]),
        nodes in prop::sample::select(vec![vec![4, 4, 4], vec![2, 4, 4, 2], vec![8, 3, 1], vec![1; 12]]),
        seed in any::<u64>(),
    ) {
        let topology = nodes_of(&nodes);
        let settings = Settings {
            seed,
            noise: 0.1,
            progress_every: Some(Nanos::SECOND),
            faults: Faults { launch_mtbf_ns: Some(60e9), ..Faults::default() },
            ..Settings::default()
        };
        for policy in POLICIES {
            let (placement, switch_cost) = (Placement::Consolidated, Nanos(1_500 * MS));
            let run = Run { topology: &topology, jobs: &jobs, placement, settings: settings.clone(), switch_cost };
            let mut turns: Vec<Turn> = Vec::new();
            let outcomes = run.of(&mut *built(policy), &mut turns).expect("every job ends");
            prop_assert!(outcomes.iter().all(|row| row.status == Status::Ok || row.retries == 2), "{}", policy);
            for turn in &turns {
                prop_assert!(turn.refused.is_empty(), "{}: {:?}", policy, turn);
                for action in &turn.actions {
                    let Action::Start { job, devices, .. } = action else { continue };
                    prop_assert_eq!(
                        topology.placement(devices).len(),
                        fewest_nodes(&topology, devices.len() as u32),
                        "{}: {:?} on {:?}", policy, job, devices
                    );
                }
            }
        }
    }

    #[test]
    fn on_one_node_both_placements_decide_the_same(
        jobs in any_jobs(&[1, 1, 2, 3, 4, 6]), seed in any::<u64>(),
    ) {
        let topology = nodes_of(&[6]);
        let faults = Faults {
            device_mtbf_ns: Some(200e9), device_repair_ns: 5e9, launch_mtbf_ns: Some(60e9),
        };
        let settings = Settings { seed, progress_every: Some(Nanos::SECOND), faults, ..Settings::default() };
        for policy in POLICIES {
            let turns = [Placement::Consolidated, Placement::Spread].map(|placement| {
                let switch_cost = Nanos(1_500 * MS);
                let run = Run { topology: &topology, jobs: &jobs, placement, settings: settings.clone(), switch_cost };
                let mut turns: Vec<Turn> = Vec::new();
                run.of(&mut *built(policy), &mut turns).expect("every job ends");
                turns
            });
            for (consolidated, spread) in turns[0].iter().zip(&turns[1]) {
                prop_assert_eq!(consolidated, spread, "{}", policy);
            }
            prop_assert_eq!(turns[0].len(), turns[1].len(), "{}", policy);
        }
    }

    #[test]
    fn srtf_displaces_jobs_for_a_whole_place_and_for_no_less(
        jobs in any_jobs(&[1, 1, 2, 3, 4, 5, 6, 8, 10]),
    ) {
        check_displaced(&jobs, "srtf", |view, asked, job| {
            let ran = job.placed().map_or(Nanos::ZERO, |_| view.now - job.steps_at);
            asked.steps.expect("all have some") * MS - job.steps * MS - ran.0
        })?;
    }

    #[test]
    fn tiresias_displaces_jobs_for_a_whole_place_and_for_no_less(
        jobs in any_jobs(&[1, 1, 2, 3, 4, 5, 6, 8, 10]), threshold in 1u64..60,
    ) {
        check_displaced(&jobs, &format!("tiresias:{threshold}s"), |view, _, job| {
            let attained = job.account_at(view.now).device_time.0;
            (attained >= threshold * SECOND, job.account.first_start.is_none(), job.account.first_start)
        })?;
    }
}

/// Whether a job fits on nodes of four devices, of which these are free: whole nodes, and a part of another.
fn fits(mut free: Vec<u32>, devices: u32) -> bool {
    let whole = free.iter().filter(|free| **free == 4).count() as u32;
    free.sort_unstable_by(|a, b| b.cmp(a));
    let rest = free.get((devices / 4) as usize).copied().unwrap_or(0);
    whole >= devices / 4 && rest >= devices % 4
}

/// Checks turns of a preemptive policy on nodes of four devices. No job is stopped unless another starts on a node of it. When
/// nothing changes, no waiting job could be placed on free devices and those of running jobs behind it.
struct Displaced<F> {
    key: F,
    arrived: usize,
    compared: usize,
    on: BTreeMap<JobId, Vec<u32>>,
}

fn check_displaced<K: Ord>(
    jobs: &[JobRequest],
    policy: &str,
    key: impl Fn(&View<'_>, &JobRequest, &Job) -> K,
) -> Result<(), TestCaseError> {
    let topology = Topology::uniform(12, 4, "GPU");
    let (placement, settings) = (Placement::Consolidated, Settings::default());
    let run = Run { topology: &topology, jobs, placement, settings, switch_cost: Nanos::ZERO };
    let mut walk = Displaced { key, arrived: 0, compared: 0, on: BTreeMap::new() };
    run.of(&mut *built(policy), &mut walk).expect("every job ends");
    prop_assert!(walk.compared >= jobs.len(), "{} of {}", walk.compared, jobs.len());
    Ok(())
}

impl<K: Ord, F: Fn(&View<'_>, &JobRequest, &Job) -> K> Journal for Displaced<F> {
    fn record(&mut self, turn: Turn, view: &View<'_>) -> anyhow::Result<()> {
        self.arrived += turn.events.iter().filter(|it| matches!(it, ClusterEvent::Arrived { .. })).count();
        let nodes =
            |devices: &[_]| devices.iter().map(|device| view.topology.node_of(*device).0).collect::<Vec<_>>();
        let started: Vec<u32> = turn
            .actions
            .iter()
            .flat_map(|action| match action {
                Action::Start { devices, .. } => nodes(devices),
                _ => Vec::new(),
            })
            .collect();
        for action in &turn.actions {
            match action {
                Action::Stop { job, .. } => {
                    let had = &self.on[job];
                    assert!(had.iter().any(|node| started.contains(node)), "{job:?} makes no room: {turn:?}");
                }
                Action::Start { job, devices, .. } => {
                    self.on.insert(*job, nodes(devices));
                }
                _ => {}
            }
        }
        let placed = || view.jobs.iter().filter_map(Job::placed);
        if !turn.actions.is_empty() || placed().any(|placed| placed.phase != Phase::Running) {
            return Ok(());
        }
        self.compared += 1;
        let key = |asked: &JobRequest| (self.key)(view, asked, view.job(asked.id));
        for waits in &view.asked[..self.arrived] {
            if !matches!(view.job(waits.id).state, State::Waiting { .. }) {
                continue;
            }
            let mut free = vec![4u32; view.topology.nodes().len()];
            for (asked, job) in view.asked.iter().zip(view.jobs) {
                let devices = job.placed().map_or(&[][..], |placed| &placed.devices);
                if !devices.is_empty() && key(asked) <= key(waits) {
                    nodes(devices).iter().for_each(|node| free[*node as usize] -= 1);
                }
            }
            assert!(!fits(free.clone(), waits.devices), "{} of {free:?}: {turn:?}", waits.devices);
        }
        Ok(())
    }
}

/// The queue of a simple simulation, in which the first job holds up all others.
#[derive(Clone, Copy)]
enum Order {
    Submitted,
    Shortest,
}

/// Lucid's simulator for one virtual cluster of nodes of eight devices, with the policies `fifo.py` and `sjf.py` and the placer
/// `consolidate.py`: the start of each `(submit, devices, duration)`. A job takes a part of the fullest node with room, or whole
/// nodes.
fn lucid(nodes: usize, jobs: &[(u64, u32, u64)], order: Order) -> Vec<u64> {
    let mut free = vec![8u32; nodes];
    let mut starts = vec![None; jobs.len()];
    let mut waiting: Vec<usize> = Vec::new();
    let mut running: Vec<(u64, Vec<(usize, u32)>)> = Vec::new();
    let mut next = 0;
    while starts.iter().any(Option::is_none) {
        let submitted = jobs.get(next).map(|job| job.0);
        let ends = running.iter().map(|(end, ..)| *end).min();
        let now = submitted.into_iter().chain(ends).min().expect("a job waits");
        running.retain(|(end, on)| {
            if *end == now {
                on.iter().for_each(|(node, count)| free[*node] += count);
            }
            *end != now
        });
        while next < jobs.len() && jobs[next].0 == now {
            waiting.push(next);
            next += 1;
        }
        match order {
            Order::Submitted => waiting.sort_by_key(|job| jobs[*job].0),
            Order::Shortest => waiting.sort_by_key(|job| jobs[*job].2),
        }
        while let Some(&job) = waiting.first() {
            let (_, devices, duration) = jobs[job];
            let on: Vec<(usize, u32)> = if devices <= 8 {
                let room = (0..nodes).filter(|node| free[*node] >= devices);
                room.min_by_key(|node| free[*node]).map(|node| (node, devices)).into_iter().collect()
            } else {
                let whole: Vec<_> =
                    (0..nodes).filter(|node| free[*node] == 8).map(|node| (node, 8)).collect();
                whole.into_iter().take(devices as usize / 8).collect()
            };
            if on.iter().map(|(_, count)| count).sum::<u32>() < devices {
                break;
            }
            on.iter().for_each(|(node, count)| free[*node] -= count);
            starts[job] = Some(now);
            running.push((now + duration, on));
            waiting.remove(0);
        }
    }
    starts.into_iter().flatten().collect()
}

#[test]
fn fifo_and_sjf_are_those_of_lucid() {
    let mut waited = 0;
    for seed in 0..20 {
        let mut random = Rng::with_seed(seed);
        let nodes = random.usize(2..6);
        let mut at = 0;
        let mut job = || {
            at += random.u64(1..20 * SECOND);
            let devices = [1, 1, 1, 2, 3, 4, 5, 7, 8, 8, 16][random.usize(..11)];
            (at, devices, random.u64(SECOND..90 * SECOND))
        };
        let trace: Vec<(u64, u32, u64)> = (0..120).map(|_| job()).collect();
        let jobs: Vec<JobRequest> =
            (0..).zip(&trace).map(|(id, &(at, devices, takes))| asked(id, at, devices, 1, takes)).collect();
        let topology = Topology::uniform(8 * nodes as u32, 8, "GPU");
        for (policy, order) in [("fifo", Order::Submitted), ("sjf", Order::Shortest)] {
            let starts = |placement| {
                let (settings, switch_cost) = (Settings::default(), Nanos::ZERO);
                let run = Run { topology: &topology, jobs: &jobs, placement, settings, switch_cost };
                let outcomes = run.of(&mut *built(policy), &mut Vec::<Turn>::new()).expect("every job ends");
                outcomes.iter().filter_map(|row| row.start_ns).collect::<Vec<_>>()
            };
            let expected = lucid(nodes, &trace, order);
            assert_eq!(starts(Placement::Consolidated), expected, "{policy} {seed}");
            waited += usize::from(starts(Placement::Spread) != expected);
        }
    }
    assert!(waited > 20, "consolidation makes hardly a difference: {waited} of 40");
}
