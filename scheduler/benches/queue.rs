//! What an event costs the engine, by how many jobs wait: it may grow with the logarithm of the queue and no faster.
//!
//! All jobs arrive at once, so that the queue is as long as the run, and are run in order on 64 devices. One element is one turn.

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use scheduler::{
    journal::Unrecorded,
    sim::{Named, Settings},
    topology::Topology,
};
use schema::units::Nanos;

#[path = "../tests/it/support.rs"]
mod support;

use support::{InOrder, Own, SECOND, World, asked};

/// Each arrives, starts and finishes.
const TURNS_PER_JOB: u64 = 3;

fn turns(criterion: &mut Criterion) {
    let topology = Topology::uniform(64, 8, "GPU");
    let costs = Named(Nanos::ZERO);
    let mut group = criterion.benchmark_group("turns");
    group.sample_size(10);
    for count in [1_000u32, 10_000, 100_000, 1_000_000] {
        let mut random = fastrand::Rng::with_seed(1);
        let mut job = |id| asked(id, 0, 1 << random.u32(..4), 1, random.u64(SECOND..100 * SECOND));
        let jobs: Vec<_> = (0..count).map(&mut job).collect();
        group.throughput(Throughput::Elements(u64::from(count) * TURNS_PER_JOB));
        group.bench_with_input(BenchmarkId::new("in-order", count), &jobs, |bencher, jobs| {
            let (truth, settings) = (Own { slowdown: 1.0 }, Settings::default());
            let world = World { topology: &topology, asked: jobs, truth, costs: &costs, settings };
            bencher.iter(|| world.run(&mut InOrder::default(), &mut Unrecorded).expect("every job ends"));
        });
    }
    group.finish();
}

criterion_group!(benches, turns);
criterion_main!(benches);
