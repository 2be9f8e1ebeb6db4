//! The cost of finding the steady state, for launches of a thousand to a hundred thousand steps.
//!
//! Flat launches are the most expensive: without changes, nothing can be pruned.

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use statistics::steady::detect;

#[path = "../tests/it/trace.rs"]
mod trace;

fn detect_steady(criterion: &mut Criterion) {
    let noise = trace::Noise { deviation: 0.02, phi: 0.6 };
    let mut group = criterion.benchmark_group("detect");
    for count in [1_000, 10_000, 100_000] {
        let mut random = fastrand::Rng::with_seed(1);
        let step_ns = trace::steps(&mut random, count, 10e6, noise, |_| 1.0);
        group.throughput(Throughput::Elements(count as u64));
        group.bench_with_input(BenchmarkId::new("flat", count), &step_ns, |bencher, step_ns| {
            bencher.iter(|| detect(step_ns));
        });
    }
    group.finish();
}

criterion_group!(benches, detect_steady);
criterion_main!(benches);
