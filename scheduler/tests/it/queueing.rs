//! Results of queueing theory, of which the engine is independent: mean waits in closed form, and Little's
//! law.

use engine::{job::JobRequest, topology::Topology};
use fastrand::Rng;
use formats::{
    decision::{ClusterEvent, Turn},
    rows::Outcome,
};
use launches::simulated::Settings;
use model::switch_costs::Named;
use schema::units::Nanos;

use crate::{
    scripts,
    support::{Own, SECOND, World, asked, built},
};

/// Mean service time.
const SERVICE_S: f64 = 10.0;
/// Number of jobs of one run, and number of runs. Each run begins empty, so its first jobs are left out.
const JOBS: u32 = 3_000;
const WARM_UP: usize = 500;
const RUNS: u64 = 12;

fn exponential(rng: &mut Rng, mean: f64) -> f64 {
    -mean * (1.0 - rng.f64()).ln()
}

/// Jobs of a Poisson process that each take one device for a time drawn by `service`.
fn poisson(seed: u64, utilisation: f64, service: fn(&mut Rng) -> f64) -> Vec<JobRequest> {
    let mut rng = Rng::with_seed(seed);
    let mut at = 0.0;
    let mut job = |id| {
        at += exponential(&mut rng, SERVICE_S / utilisation);
        let service_ns = (service(&mut rng) * 1e9).max(1.0) as u64;
        asked(id, (at * 1e9) as u64, 1, 1, service_ns)
    };
    (0..JOBS).map(&mut job).collect()
}

fn run(jobs: &[JobRequest], devices: u32) -> (Vec<Turn>, Vec<Outcome>) {
    let topology = Topology::uniform(devices, devices, "GPU");
    let costs = Named::constant(Nanos::ZERO);
    let settings = Settings::default();
    let world =
        World { topology: &topology, asked: jobs, truth: Own { slowdown: 1.0 }, costs: &costs, settings };
    let (turns, outcomes, error) = scripts::turns(&world, &mut *built("fifo"));
    assert!(error.is_none(), "{error:?}");
    (turns, outcomes)
}

/// Mean wait over runs, with its standard error.
fn mean_wait_s(utilisation: f64, devices: u32, service: fn(&mut Rng) -> f64) -> (f64, f64) {
    let wait = |seed| {
        let (_, outcomes) = run(&poisson(seed, utilisation * f64::from(devices), service), devices);
        let waits = outcomes[WARM_UP..].iter().filter_map(|row| row.queued_ns);
        waits.sum::<u64>() as f64 / 1e9 / (outcomes.len() - WARM_UP) as f64
    };
    let waits: Vec<f64> = (0..RUNS).map(wait).collect();
    let count = RUNS as f64;
    let mean = waits.iter().sum::<f64>() / count;
    let variance = waits.iter().map(|wait| (wait - mean).powi(2)).sum::<f64>() / (count - 1.0);
    (mean, (variance / count).sqrt())
}

/// The wait of an M/G/1 queue by A. Pollaczek and A. Khinchine: rho / (1 - rho) * (1 + c^2) / 2 service times, where c is the
/// coefficient of variation of the service. Exponential service, c = 1, is M/M/1.
#[test]
fn one_device_in_order_of_arrival_waits_as_pollaczek_and_khinchine_say() {
    type Service = fn(&mut Rng) -> f64;
    let cases: [(&str, f64, Service); 3] = [
        ("M/M/1", 1.0, |rng| exponential(rng, SERVICE_S)),
        ("M/D/1", 0.0, |_| SERVICE_S),
        // One in ten takes 5.5 times the mean, and the others half of it: c^2 = 0.9 * 0.25 + 0.1 * 30.25 - 1.
        ("M/H/1", 2.25, |rng| if rng.u8(..10) == 0 { 5.5 * SERVICE_S } else { 0.5 * SERVICE_S }),
    ];
    for (name, variation, service) in cases {
        let utilisation = 0.6;
        let expected = utilisation / (1.0 - utilisation) * (1.0 + variation) / 2.0 * SERVICE_S;
        let (mean, error) = mean_wait_s(utilisation, 1, service);
        // Three standard errors: by Student's t with 11 degrees of freedom, 98.8 % of all seeds would pass, and these are fixed.
        assert!((mean - expected).abs() < 3.0 * error, "{name}: {mean} +- {error} s instead of {expected} s");
        assert!(error < 0.08 * expected, "{name}: {error} of {expected} s says little");
    }
}

/// A. K. Erlang's C: of c devices at load a = c rho, all are taken with probability C, and the wait is C / (c - a) service times.
#[test]
fn several_devices_wait_as_erlang_says() {
    let (devices, utilisation) = (3u32, 0.7);
    let load = f64::from(devices) * utilisation;
    let power_over_factorial = |n: u32| (1..=n).map(|k| load / f64::from(k)).product::<f64>();
    let full = power_over_factorial(devices) / (1.0 - utilisation);
    let erlang_c = full / ((0..devices).map(power_over_factorial).sum::<f64>() + full);
    let expected = erlang_c / (f64::from(devices) - load) * SERVICE_S;
    let (mean, error) = mean_wait_s(utilisation, devices, |rng| exponential(rng, SERVICE_S));
    assert!((mean - expected).abs() < 3.0 * error, "{mean} +- {error} s instead of {expected} s");
}

/// J. D. C. Little: the mean number of jobs is their arrival rate times their mean time in the system. In a
/// run that begins and ends empty it holds to the nanosecond, between the numbers of jobs in turns and the
/// times in rows.
#[test]
fn jobs_that_are_there_are_those_that_stay() {
    for (seed, devices) in [(1, 1), (2, 2), (3, 4)] {
        let jobs = poisson(seed, 0.9 * f64::from(devices), |rng| exponential(rng, SERVICE_S));
        let (turns, outcomes) = run(&jobs, devices);
        let (mut there, mut since, mut area_ns) = (0u128, Nanos::ZERO, 0u128);
        for (at, happened) in scripts::events(&turns) {
            area_ns += there * u128::from((at - since).0);
            since = at;
            match happened {
                ClusterEvent::Arrived { .. } => there += 1,
                ClusterEvent::Finished { .. } => there -= 1,
                _ => {}
            }
        }
        let stayed_ns: u128 = outcomes.iter().filter_map(|row| row.jct_ns).map(u128::from).sum();
        assert_eq!(area_ns, stayed_ns);
        assert!(area_ns > 1_000 * u128::from(SECOND));
    }
}
