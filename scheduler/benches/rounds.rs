//! What a round of a policy that chooses numbers of devices for all jobs costs, by how many jobs there are: the mean over the
//! rounds of a run on 64 devices, in which all jobs arrive at once and each scales in its own way.

use std::{
    cell::Cell,
    time::{Duration, Instant},
};

use criterion::{BenchmarkId, Criterion, SamplingMode, criterion_group, criterion_main};
use jobs::plans::Judgement;
use model::{Prediction, Question, Throughput};
use scheduler::{
    engine::{self, Engine, Settings},
    job::{JobRequest, Payload},
    journal::Unrecorded,
    legal_plans::LegalPlans,
    policy::{Decision, Policy},
    sim::{self, Named, Sim},
    topology::Topology,
    view::{Known, View},
};
use schema::{catalog::Catalog, units::Nanos};

#[path = "../tests/it/support.rs"]
#[allow(dead_code)]
mod support;

use support::{SECOND, asked, built};

/// A job is the faster on more devices, the larger its batch.
struct ByBatch;

impl Throughput for ByBatch {
    fn predict(&self, question: &Question<'_>) -> Option<Prediction> {
        let devices: u32 = question.placement.iter().sum();
        let exponent = 0.3 + 0.6 * f64::from(question.job.global_batch? % 101) / 101.0;
        let step_ns = SECOND as f64 / f64::from(devices).powf(exponent);
        Some(Prediction { step_ns, step_ns_ci: None })
    }
}

/// Adds up the times of decisions that are rounds.
struct Timed<'a> {
    policy: Box<dyn Policy>,
    spent: &'a Cell<(Duration, u32, Duration)>,
}

impl Policy for Timed<'_> {
    fn decide(&mut self, view: &View<'_>) -> Decision {
        let began = Instant::now();
        let decision = self.policy.decide(view);
        if view.now.0.is_multiple_of(60 * SECOND) {
            let (sum, count, most) = self.spent.get();
            let took = began.elapsed();
            self.spent.set((sum + took, count + 1, most.max(took)));
        }
        decision
    }
}

fn job(id: u32, steps: u64) -> JobRequest {
    JobRequest {
        what: Payload::Training { workload: "lstm".into(), global_batch: Some(8 * (id + 1)) },
        plan: "dp1".parse().ok(),
        elastic: true,
        step_ns: None,
        ..asked(id, 0, 1, steps, 1)
    }
}

fn rounds(criterion: &mut Criterion) {
    let topology = Topology::uniform(64, 8, "GPU");
    let costs = Named::constant(Nanos(30 * SECOND));
    let mut group = criterion.benchmark_group("rounds");
    group.sample_size(10).sampling_mode(SamplingMode::Flat);
    group.warm_up_time(Duration::from_millis(100)).measurement_time(Duration::from_secs(1));
    for count in [100u32, 400] {
        let mut random = fastrand::Rng::with_seed(1);
        let jobs: Vec<_> = (0..count).map(|id| job(id, random.u64(60..3_000))).collect();
        let legal = |_: &_, _, _: &_, _: &[_]| Judgement::default();
        let plans = LegalPlans::new(&jobs, &Catalog::embedded(), &topology, legal);
        for name in ["optimus", "sia", "pollux-fixed-batch"] {
            let spent = Cell::new((Duration::ZERO, 0, Duration::ZERO));
            let run = || {
                let known = Known { costs: Some(&costs), plans: Some(&plans), history: &[] };
                let settings = sim::Settings::default();
                let mut sim =
                    Sim::new(&topology, &jobs, Box::new(ByBatch), &costs, settings).expect("all is known");
                let mut engine = Engine::new(&topology, &jobs, ByBatch, Settings::default()).knowing(known);
                let mut policy = Timed { policy: built(name), spent: &spent };
                engine::run(&mut engine, &mut sim, &mut policy, &mut Unrecorded).expect("every job ends")
            };
            group.bench_function(BenchmarkId::new(name, count), |bencher| {
                bencher.iter_custom(|iterations| {
                    let mut means = Duration::ZERO;
                    for _ in 0..iterations {
                        spent.set(Default::default());
                        run();
                        means += spent.get().0 / spent.get().1;
                    }
                    means
                });
            });
            let (_, count, most) = spent.get();
            println!("{name}: {count} rounds, the longest {most:?}");
        }
    }
    group.finish();
}

criterion_group!(benches, rounds);
criterion_main!(benches);
