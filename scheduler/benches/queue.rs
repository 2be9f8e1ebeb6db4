//! What a turn costs, by how many jobs wait: it may grow with the logarithm of the queue and no faster.
//!
//! All jobs arrive at once, so that the queue is as long as the run, and run on 64 devices. One element is one turn. With a million jobs
//! one run takes several seconds, and there are twelve for each policy: some minutes in all.

use std::time::Duration;

use criterion::{BenchmarkId, Criterion, SamplingMode, Throughput, criterion_group, criterion_main};
use engine::{
    journal::{Journal, Unrecorded},
    topology::Topology,
    view::View,
};
use formats::decision::Turn;
use launches::simulated::Settings;
use model::switch_costs::Named;
use schema::units::Nanos;

#[path = "../tests/it/support.rs"]
mod support;

use support::{Own, SECOND, World, asked, built};

/// Counts turns.
struct Count(u64);

impl Journal for Count {
    fn record(&mut self, _turn: Turn, _view: &View<'_>) -> anyhow::Result<()> {
        self.0 += 1;
        Ok(())
    }
}

fn turns(criterion: &mut Criterion) {
    let topology = Topology::uniform(64, 8, "GPU");
    let costs = Named::constant(Nanos::ZERO);
    let mut group = criterion.benchmark_group("turns");
    // The fewest that criterion takes, of as few runs as can be.
    group.sample_size(10).sampling_mode(SamplingMode::Flat);
    group.warm_up_time(Duration::from_millis(100)).measurement_time(Duration::from_secs(1));
    for count in [1_000u32, 10_000, 100_000, 1_000_000] {
        let mut random = fastrand::Rng::with_seed(1);
        let mut job = |id| asked(id, 0, 1 << random.u32(..4), 1, random.u64(SECOND..100 * SECOND));
        let jobs: Vec<_> = (0..count).map(&mut job).collect();
        let (truth, settings) = (Own { slowdown: 1.0 }, Settings::default());
        let world = World { topology: &topology, asked: &jobs, truth, costs: &costs, settings };
        for name in ["fifo", "srtf", "tiresias"] {
            let run =
                |journal: &mut dyn Journal| world.run(&mut *built(name), journal).expect("every job ends");
            let mut counted = Count(0);
            run(&mut counted);
            group.throughput(Throughput::Elements(counted.0));
            group.bench_function(BenchmarkId::new(name, count), |bencher| {
                bencher.iter(|| run(&mut Unrecorded));
            });
        }
    }
    group.finish();
}

criterion_group!(benches, turns);
criterion_main!(benches);
