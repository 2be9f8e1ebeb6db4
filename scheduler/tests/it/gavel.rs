//! Gavel in simulations: what jobs receive in the long run, against the optimum of a linear program.

mod optimum;

use std::collections::BTreeMap;

use engine::{
    Engine,
    cluster::{Action, JobId, Settled},
    job::{JobRequest, Payload, State},
    policy::{Decision, Policy},
    topology::Topology,
    view::View,
};
use fastrand::Rng;
use formats::decision::{ClusterEvent, Turn};
use launches::simulated;
use model::{PredictRequest, Prediction, Throughput, switch_costs::Named};
use record::manifest::AlikeNodes;
use schema::units::Nanos;

use self::optimum::{Goal, means, optimum, optimum_of_sets};
use crate::{
    rubick::EndsAfter,
    support::{SECOND, asked, built},
};

const TYPES: [&str; 3] = ["v100", "p100", "k80"];
const EVERY_S: u64 = 360;

/// Steps in a second: of each job alone by type, and of each pair of jobs.
#[derive(Clone, Debug, Default)]
struct Speeds {
    alone: Vec<[f64; 3]>,
    /// The speeds of two jobs beside each other over those alone. The smaller number is first.
    beside: BTreeMap<(usize, usize), [f64; 2]>,
}

impl Speeds {
    fn of(&self, job: usize, device_type: &str, other: Option<usize>) -> Option<f64> {
        let place = TYPES.iter().position(|known| *known == device_type)?;
        let alone = self.alone[job][place];
        Some(match other {
            None => alone,
            Some(other) if job < other => alone * self.beside.get(&(job, other))?[0],
            Some(other) => alone * self.beside.get(&(other, job))?[1],
        })
    }
}

fn number(workload: &str) -> usize {
    workload.trim_start_matches('w').parse().expect("it is w and a number")
}

impl Throughput for Speeds {
    fn predict(&self, question: &PredictRequest<'_>) -> Option<Prediction> {
        let other = question.co_runners.first().map(|other| number(other.workload));
        let speed = self.of(number(question.job.workload), question.device_type, other)?;
        Some(Prediction { step_ns: 1e9 / speed, step_ns_ci: None })
    }
}

/// Jobs with speed-ups by type as in the measurements of Gavel: from none to ten times.
fn speeds(random: &mut Rng, jobs: usize) -> Speeds {
    let mut speeds = Speeds::default();
    for _ in 0..jobs {
        let k80 = 20.0 + 60.0 * random.f64();
        let v100 = k80 * (1.0 + 9.0 * random.f64());
        speeds.alone.push([v100, k80 + (v100 - k80) * random.f64(), k80]);
    }
    for one in 0..jobs {
        for other in one + 1..jobs {
            let both = [0.4 + 0.55 * random.f64(), 0.4 + 0.55 * random.f64()];
            speeds.beside.insert((one, other), both);
        }
    }
    speeds
}

fn cluster(devices: [u32; 3]) -> Topology {
    let node = |(place, devices): (usize, u32)| AlikeNodes {
        nodes: 1,
        devices,
        device_type: TYPES[place].into(),
        virtual_cluster: None,
        facts: Default::default(),
    };
    Topology::simulated(&devices.into_iter().enumerate().map(node).collect::<Vec<_>>())
}

/// Jobs that arrive at once, with these numbers of devices and of steps.
fn jobs(of: &[(u32, u64)]) -> Vec<JobRequest> {
    let job = |(number, &(devices, steps)): (usize, &(u32, u64))| {
        asked(number as u32, 0, devices, steps, 1).with(|request| {
            request.what = Payload::Training { workload: format!("w{number}"), global_batch: Some(1) };
            request.step_ns = None;
        })
    };
    of.iter().enumerate().map(job).collect()
}

/// Ends all jobs at a time.
struct Until {
    policy: Box<dyn Policy>,
    at: Nanos,
}

impl Policy for Until {
    fn decide(&mut self, view: &View<'_>) -> Decision {
        let decision = self.policy.decide(view);
        if view.now < self.at {
            let wake_at = decision.wake_at.map_or(self.at, |wake_at| wake_at.min(self.at));
            return Decision { wake_at: Some(wake_at), ..decision };
        }
        let is_there = |job: &usize| !matches!(view.jobs[*job].state, State::Ended { .. });
        let end = |job: usize| Action::End { job: JobId(job as u32) };
        Decision { actions: (0..view.jobs.len()).filter(is_there).map(end).collect(), ..Decision::default() }
    }
}

fn simulate(
    policy: &str,
    topology: &Topology,
    jobs: &[JobRequest],
    speeds: &Speeds,
    until: Option<u64>,
) -> Vec<Turn> {
    let mut policy = built(policy);
    if let Some(seconds) = until {
        policy = Box::new(Until { policy, at: Nanos(seconds * SECOND) });
    }
    let costs = Named::constant(Nanos::ZERO);
    let mut sim =
        simulated::cluster(topology, jobs, Box::new(speeds.clone()), &costs, simulated::Settings::default())
            .expect("all is known");
    let mut engine = Engine::new(topology, jobs, speeds.clone(), engine::Settings::default());
    let mut turns: Vec<Turn> = Vec::new();
    engine::run(&mut engine, &mut sim, &mut *policy, &mut turns).expect("every job ends");
    turns
}

/// The steps that each job can have done by the end: the time on each type, beside each other job, times the speed there, from the
/// starts and the departures in the turns.
fn steps(turns: &[Turn], topology: &Topology, speeds: &Speeds) -> Vec<f64> {
    let mut on: BTreeMap<JobId, Vec<u32>> = BTreeMap::new();
    let mut starting: BTreeMap<JobId, Vec<u32>> = BTreeMap::new();
    let mut steps = vec![0.0; speeds.alone.len()];
    let mut last = Nanos::ZERO;
    for turn in turns {
        let passed_s = (turn.at_ns - last).as_secs_f64();
        last = turn.at_ns;
        for (job, devices) in &on {
            let beside = on.iter().find(|(other, theirs)| *other != job && theirs.contains(&devices[0]));
            let other = beside.map(|(other, _)| other.0 as usize);
            let device_type = topology.type_of(formats::decision::DeviceId(devices[0]));
            steps[job.0 as usize] += passed_s * speeds.of(job.0 as usize, device_type, other).unwrap();
        }
        for event in &turn.events {
            match event {
                ClusterEvent::Settled { job, now: Settled::Running, .. } => {
                    on.insert(*job, starting[job].clone());
                }
                ClusterEvent::Settled { job, .. } | ClusterEvent::Finished { job, .. } => {
                    drop(on.remove(job))
                }
                _ => {}
            }
        }
        for action in &turn.actions {
            if let Action::Start { job, devices, .. } = action {
                starting.insert(*job, devices.iter().map(|device| device.0).collect());
            }
        }
    }
    steps
}

/// What jobs received over the optimum, for `max-min` and `max-throughput`.
fn received_over_optimum(
    policy: &str,
    speeds: &Speeds,
    devices: [u32; 3],
    sizes: &[u32],
    rounds: u64,
) -> f64 {
    let topology = cluster(devices);
    let endless: Vec<(u32, u64)> = sizes.iter().map(|size| (*size, 1 << 40)).collect();
    let until = rounds * EVERY_S;
    let turns = simulate(policy, &topology, &jobs(&endless), speeds, Some(until));
    let steps = steps(&turns, &topology, speeds);
    let rates: Vec<f64> = steps.iter().map(|steps| steps / until as f64).collect();
    let means = means(speeds, devices);
    let shares = policy.contains("space-sharing=on");
    // On an isolated share, a job has equal parts of all devices, and not more time than there is.
    let all: f64 = devices.iter().map(|devices| f64::from(*devices)).sum();
    let isolated =
        |(mean, size): (&f64, &u32)| mean * (all / (sizes.len() as f64 * f64::from(*size))).min(1.0);
    let (received, goal) = if policy.contains("finish-time") {
        // For jobs without end, rho is the throughput on the isolated share over their own, so that its inverse is to be large.
        let needs: Vec<f64> = means.iter().zip(sizes).map(isolated).collect();
        let inverse = rates.iter().zip(&needs).map(|(rate, need)| rate / need).fold(f64::INFINITY, f64::min);
        (inverse, Goal::Smallest(needs))
    } else if policy.contains("max-throughput") {
        let sum = rates.iter().zip(&means).map(|(rate, mean)| rate / mean).sum();
        (sum, Goal::Sum(means.iter().map(|mean| 1.0 / mean).collect()))
    } else {
        let own = |((rate, mean), size): ((&f64, &f64), &u32)| rate / mean * f64::from(*size);
        let least = rates.iter().zip(&means).zip(sizes).map(own).fold(f64::INFINITY, f64::min);
        let need = |(mean, size): (&f64, &u32)| mean / f64::from(*size);
        (least, Goal::Smallest(means.iter().zip(sizes).map(need).collect()))
    };
    match sizes.iter().all(|size| *size == 1) {
        true => received / optimum(speeds, devices, sizes, shares, &goal),
        false => received / optimum_of_sets(speeds, devices, sizes, &goal),
    }
}

/// The example of section 4.1 of the paper: three jobs on one V100 and one K80, where the smallest normalised throughput is 8/11.
#[test]
fn the_example_of_the_paper_is_received() {
    let speeds = Speeds {
        alone: vec![[40.0, 0.1, 10.0], [12.0, 0.1, 4.0], [100.0, 0.1, 50.0]],
        beside: BTreeMap::new(),
    };
    let topology = cluster([1, 0, 1]);
    let rounds = 1_100;
    let turns = simulate("gavel", &topology, &jobs(&[(1, 1 << 40); 3]), &speeds, Some(rounds * EVERY_S));
    let steps = steps(&turns, &topology, &speeds);
    let means = [25.0, 8.0, 75.0];
    let shares = steps.iter().zip(means).map(|(steps, mean)| steps / (rounds * EVERY_S) as f64 / mean);
    let least = shares.fold(f64::INFINITY, f64::min);
    assert!((least / (8.0 / 11.0) - 1.0).abs() < 0.01, "{least}");
    // Decisions are made in rounds, and a job whose lease goes on is not restarted.
    assert!(turns.iter().all(|turn| turn.actions.is_empty()
        || turn.at_ns.0.is_multiple_of(EVERY_S * SECOND)
        || turn.actions.iter().all(|action| matches!(action, Action::Start { .. }))));
    let starts =
        turns.iter().flat_map(|turn| &turn.actions).filter(|action| matches!(action, Action::Start { .. }));
    assert!(starts.count() < 2 * rounds as usize);
}

const ALONE: &[(&str, f64)] = &[
    ("gavel:objective=max-min", 0.01),
    ("gavel:objective=max-throughput", 0.01),
    ("gavel:objective=finish-time", 0.01),
];
const PAIRS: [&str; 3] = [
    "gavel:objective=max-min:space-sharing=on",
    "gavel:objective=max-throughput:space-sharing=on",
    "gavel:objective=finish-time:space-sharing=on",
];

/// Compares what jobs receive with the optimum, which it may miss by this part.
fn check(
    seeds: std::ops::Range<u64>,
    sizes: &[u32],
    devices: [u32; 3],
    rounds: u64,
    policies: &[(&str, f64)],
) {
    for (policy, misses) in policies {
        for seed in seeds.clone() {
            let speeds = speeds(&mut Rng::with_seed(seed), sizes.len());
            let ratio = received_over_optimum(policy, &speeds, devices, sizes, rounds);
            println!("{policy}, seed {seed}: {ratio:.5} of the optimum");
            assert!(ratio > 1.0 - misses && ratio < 1.001, "{policy}, seed {seed}: {ratio} of the optimum");
        }
    }
}

#[test]
fn jobs_receive_the_optimum_in_the_long_run() {
    check(0..3, &[1; 6], [1, 1, 2], 1_500, &[ALONE, &PAIRS.map(|policy| (policy, 0.01))].concat());
}

/// More jobs, on more devices, and jobs of several devices.
#[test]
fn many_jobs_receive_the_optimum_in_the_long_run() {
    if std::env::var_os("TANDEM_SLOW").is_none_or(|value| value != "1") {
        return schema::skips::skipped("slow", "it takes minutes; set TANDEM_SLOW=1");
    }
    check(0..6, &[1; 12], [2, 2, 3], 4_000, ALONE);
    check(0..2, &[1; 24], [4, 4, 6], 4_000, ALONE);
    check(0..6, &[1; 12], [2, 2, 3], 3_000, &PAIRS.map(|policy| (policy, 0.01)));
    check(0..6, &[1, 1, 1, 2, 2, 4, 4], [4, 4, 4], 4_000, ALONE);
}

/// Jobs of different lengths that arrive at once: none ends later than with the smallest largest rho of their arrival, because
/// the allocation at that time would be possible to the end.
#[test]
fn jobs_end_with_the_rho_of_the_optimum() {
    let mut random = Rng::with_seed(3);
    let (devices, sizes) = ([1, 1, 2], [1; 7]);
    let speeds = speeds(&mut random, sizes.len());
    let means = means(&speeds, devices);
    let isolated: Vec<f64> = means.iter().map(|mean| mean * 4.0 / 7.0).collect();
    let lengths: Vec<(u32, u64)> =
        isolated.iter().map(|rate| (1, (rate * 3600.0 * (100.0 + 200.0 * random.f64())) as u64)).collect();
    for (policy, shares) in
        [("gavel:objective=finish-time", false), ("gavel:objective=finish-time:space-sharing=on", true)]
    {
        let turns = simulate(policy, &cluster(devices), &jobs(&lengths), &speeds, None);
        let best = 1.0 / optimum(&speeds, devices, &sizes, shares, &Goal::Smallest(isolated.clone()));
        let mut largest: f64 = 0.0;
        for turn in &turns {
            for event in &turn.events {
                if let ClusterEvent::Finished { job, steps } = event {
                    let alone_s = *steps as f64 / isolated[job.0 as usize];
                    largest = largest.max(turn.at_ns.as_secs_f64() / alone_s);
                }
            }
        }
        println!("{policy}: {largest:.4} of {best:.4}");
        assert!(
            largest < best * 1.01 && largest > best * 0.8,
            "{policy}: {largest}, and {best} is the optimum"
        );
    }
}

/// Two jobs that have three quarters of their speed beside each other run together to the end, and two that have less than a half in turns.
#[test]
fn jobs_share_devices_if_they_gain() {
    for (beside, ends_s, starts) in [(0.75, [133.4, 133.4], 2), (0.45, [190.0, 200.0], 20)] {
        let speeds = Speeds { alone: vec![[10.0; 3]; 2], beside: BTreeMap::from([((0, 1), [beside; 2])]) };
        let topology = cluster([1, 0, 0]);
        let turns =
            simulate("gavel:space-sharing=on:every=10s", &topology, &jobs(&[(1, 1_000); 2]), &speeds, None);
        let end = |of: u32| {
            let is_end =
                |event: &ClusterEvent| matches!(event, ClusterEvent::Finished { job, .. } if job.0 == of);
            let turn = turns.iter().find(|turn| turn.events.iter().any(is_end)).expect("it ends");
            turn.at_ns.as_secs_f64()
        };
        for (found, expected) in [end(0), end(1)].into_iter().zip(ends_s) {
            assert!((found - expected).abs() < 0.2, "{beside}: {found} s");
        }
        let actions = || turns.iter().flat_map(|turn| &turn.actions);
        assert_eq!(
            actions().filter(|action| matches!(action, Action::Start { .. })).count(),
            starts,
            "{beside}"
        );
    }
}

#[test]
fn a_job_is_explained_by_its_fractions() {
    let speeds = Speeds {
        alone: vec![[40.0, 0.1, 10.0], [12.0, 0.1, 4.0], [100.0, 0.1, 50.0]],
        beside: BTreeMap::new(),
    };
    let (topology, jobs, costs) =
        (cluster([1, 0, 1]), jobs(&[(1, 1 << 40); 3]), Named::constant(Nanos::ZERO));
    let sim = simulated::cluster(
        &topology,
        &jobs,
        Box::new(speeds.clone()),
        &costs,
        simulated::Settings::default(),
    );
    let mut until = EndsAfter { sim: sim.expect("all is known"), at: Nanos(4 * EVERY_S * SECOND) };
    let mut engine = Engine::new(&topology, &jobs, speeds, engine::Settings::default());
    let (mut policy, mut turns) = (built("gavel"), Vec::<Turn>::new());
    engine::run(&mut engine, &mut until, &mut *policy, &mut turns).expect_err("it ends before the jobs");
    let said = policy.explain(&engine.view(), JobId(1));
    for part in [
        "the allocation since 0 ns has 45.5 % of the time on v100",
        "9.1 % of the time on k80, of which",
        "lease in this round",
    ] {
        assert!(said.contains(part), "{part}\n{said}");
    }
}
