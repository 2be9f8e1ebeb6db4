//! What a large trace costs: 100,000 jobs are drawn and written, read again, and simulated on 10,000 devices, of which they need nine
//! tenths. One element is one job.

use std::{hint::black_box, path::Path};

use criterion::{Criterion, SamplingMode, Throughput, criterion_group, criterion_main};
use engine::{journal::Unrecorded, topology::Topology};
use formats::trace::{self, Trace, TraceRow};
use launches::simulated::Settings;
use model::switch_costs::Named;
use scheduler::{
    inputs::{self, Purpose},
    trace_generator::{self, Arrivals, Distribution, JobKind, Recipe, Unit},
};
use schema::{catalog::Catalog, units::Nanos};

#[path = "../tests/it/support.rs"]
#[allow(dead_code)]
mod support;

use support::{Own, SECOND, World, built};

const JOBS: usize = 100_000;
const DEVICES: u32 = 10_000;

fn recipe() -> Recipe {
    let lengths = Distribution::LogNormal { median: 600.0, sigma: 1.5 };
    let kind = |(job, weight): (&str, f64)| {
        let job = Some(job.parse().expect("it is a job"));
        JobKind { row: TraceRow { job, step_ns: Some(SECOND), ..TraceRow::default() }, weight, lengths }
    };
    Recipe {
        mix: [("any@dp1", 7.0), ("any@dp2", 1.0), ("any@dp4", 1.0), ("any@dp8", 1.0)].map(kind).into(),
        virtual_clusters: Vec::new(),
        priorities: Vec::new(),
        jobs: JOBS,
        arrivals: Arrivals::Poisson { mean_gap_s: 0.43 },
        unit: Unit::Seconds,
        longest: Some(14.0 * 86_400.0),
        stratified: false,
        recurring: None,
        seed: 1,
    }
}

fn text(recipe: &Recipe) -> Vec<u8> {
    let drawn = trace_generator::make(recipe, |_| Ok(SECOND as f64)).expect("the recipe is valid");
    let mut text = Vec::new();
    trace::write(&mut text, drawn.rows()).expect("memory takes it");
    text
}

fn large(criterion: &mut Criterion) {
    let (recipe, catalog, file) = (recipe(), Catalog::embedded(), Path::new("trace.csv"));
    let mut group = criterion.benchmark_group("large");
    group.sample_size(10).sampling_mode(SamplingMode::Flat).throughput(Throughput::Elements(JOBS as u64));
    group.bench_function("make", |bencher| bencher.iter(|| text(&recipe)));
    let written = text(&recipe);
    let read = || {
        let trace = Trace::parse(file, black_box(&written)).expect("it was written so");
        inputs::jobs(&trace, &catalog, Purpose::Simulate, DEVICES).expect("they fit")
    };
    group.bench_function("read", |bencher| bencher.iter(read));
    let (jobs, topology) = (read(), Topology::uniform(DEVICES, 8, "GPU"));
    let costs = Named::constant(Nanos(30 * SECOND));
    let (truth, settings) = (Own { slowdown: 1.0 }, Settings::default());
    let world = World { topology: &topology, asked: &jobs, truth, costs: &costs, settings };
    for name in ["fifo", "srtf"] {
        group.bench_function(name, |bencher| {
            bencher.iter(|| world.run(&mut *built(name), &mut Unrecorded).expect("every job ends"));
        });
    }
    group.finish();
}

criterion_group!(benches, large);
criterion_main!(benches);
