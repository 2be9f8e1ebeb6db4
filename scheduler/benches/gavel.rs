//! How long Gavel takes for an allocation, by how many jobs there are and by objective, alone and with pairs of jobs.
//!
//! All jobs arrive at once, on three types of device, and the run ends after the first round, whose decision is an allocation and the
//! leases by it. One element is one decision.

use std::time::Duration;

use criterion::{BenchmarkId, Criterion, SamplingMode, criterion_group, criterion_main};
use engine::{Engine, job::Payload, journal::Journal, topology::Topology, view::View};
use formats::decision::Turn;
use launches::simulated::{self, Settings};
use model::{PredictRequest, Prediction, Throughput, switch_costs::Named};
use record::manifest::AlikeNodes;
use schema::units::Nanos;

#[path = "../tests/it/support.rs"]
#[allow(dead_code)]
mod support;

use support::{asked, built};

/// Steps in a second that depend on the job, the type and the job beside it.
#[derive(Clone, Copy)]
struct Typed;

impl Throughput for Typed {
    fn predict(&self, question: &PredictRequest<'_>) -> Option<Prediction> {
        let number = |workload: &str| workload.bytes().fold(7_u64, |sum, byte| sum * 31 + u64::from(byte));
        let part = |seed: u64| (seed.wrapping_mul(2_654_435_761) % 1_000) as f64 / 1_000.0;
        let own = number(question.job.workload);
        let fast = match question.device_type {
            "v100" => 2.0 + 8.0 * part(own),
            "p100" => 1.0 + part(own) + part(own + 1),
            _ => 1.0,
        };
        let beside = question.co_runners.first().map(|other| 0.4 + 0.5 * part(own ^ number(other.workload)));
        Some(Prediction { step_ns: 1e8 / fast / beside.unwrap_or(1.0), step_ns_ci: None })
    }
}

/// Ends the run after the first turn with actions.
struct First;

impl Journal for First {
    fn record(&mut self, turn: Turn, _view: &View<'_>) -> anyhow::Result<()> {
        anyhow::ensure!(turn.actions.is_empty(), "the first round is over");
        Ok(())
    }

    fn needs_hashes(&self) -> bool {
        false
    }
}

fn decisions(criterion: &mut Criterion) {
    let node = |device_type: &str| AlikeNodes {
        nodes: 2,
        devices: 4,
        device_type: device_type.into(),
        virtual_cluster: None,
        facts: Default::default(),
    };
    let topology = Topology::simulated(&["v100", "p100", "k80"].map(node));
    let costs = Named::constant(Nanos::ZERO);
    let mut group = criterion.benchmark_group("first round");
    group.sample_size(10).sampling_mode(SamplingMode::Flat);
    group.warm_up_time(Duration::from_millis(100)).measurement_time(Duration::from_secs(1));
    for count in [8_u32, 32, 128] {
        let job = |id: u32| {
            asked(id, 0, 1, 1 << 30, 1).with(|request| {
                request.what = Payload::Training { workload: format!("w{id}"), global_batch: Some(1) };
                request.step_ns = None;
            })
        };
        let jobs: Vec<_> = (0..count).map(job).collect();
        for objective in ["max-min", "max-throughput", "finish-time"] {
            for pairs in ["", ":space-sharing=on"] {
                if count > 32 && !pairs.is_empty() {
                    continue;
                }
                let name = format!("gavel:objective={objective}{pairs}");
                group.bench_function(BenchmarkId::new(&name, count), |bencher| {
                    bencher.iter(|| {
                        let mut sim = simulated::cluster(
                            &topology,
                            &jobs,
                            Box::new(Typed),
                            &costs,
                            Settings::default(),
                        )
                        .expect("all is known");
                        let mut engine = Engine::new(&topology, &jobs, Typed, engine::Settings::default());
                        engine::run(&mut engine, &mut sim, &mut *built(&name), &mut First).unwrap_err()
                    });
                });
            }
        }
    }
    group.finish();
}

criterion_group!(benches, decisions);
criterion_main!(benches);
