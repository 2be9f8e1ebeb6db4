//! What it costs to fit a formula to 70 rows, at most 1 s, and to fit the formulas of a workload again after an observation, at most
//! 50 ms.
//!
//! The rows are those of planted parameters, and the observations are a fifth slower, of configurations that were measured and of
//! one that was not.

use std::hint::black_box;

use criterion::{BatchSize, Criterion, criterion_group, criterion_main};
use formats::fitted::{FittedRow, FormulaName, Layout, ModelFile, ModelSource};
use model::{FittedModel, Observation, Options, Parts, Setting, fit, fit_workload, formula, observation};
use record::facts::Facts;
use schema::plan::{Plan, Precision};

const FACTS: Facts = Facts {
    parameters: Some(110_000_000),
    layers: Some(12),
    sequence: Some(128),
    hidden: Some(768),
    state_per_parameter: None,
};

/// Every plan of data parallelism with and without ZeRO, gc, offload and bf16, and some of three dimensions.
fn rows() -> Vec<FittedRow> {
    let mut plans = Vec::new();
    for dp in [1, 2, 4, 8] {
        for (zero, offload) in [(0, false), (2, false), (2, true)] {
            for (gc, ga) in [(false, 1), (true, 1), (false, 2)] {
                let plan = Plan { dp, zero, offload, gc, ga, ..Plan::default() };
                plans.extend([plan, Plan { precision: Precision::Bf16, ..plan }]);
            }
        }
    }
    plans.truncate(62);
    for (dp, tp, pp) in
        [(1, 2, 1), (1, 4, 1), (2, 2, 1), (1, 1, 2), (1, 1, 4), (2, 1, 2), (1, 2, 2), (1, 8, 1)]
    {
        plans.push(Plan { dp, tp, pp, ga: pp, ..Plan::default() });
    }
    let row = |plan: Plan| FittedRow {
        source: 0,
        global_batch: 64,
        plan,
        placement: vec![plan.ranks()],
        cpus: Some(12),
        ranks_per_device: 1,
        step_ns: 1,
        forward_ns: None,
        synchronised_ns: None,
        updated_ns: None,
        peak_memory_bytes: None,
        doubtful: false,
        left_out: None,
    };
    plans.into_iter().map(row).collect()
}

/// Rows with the times of the parameters of another fit.
fn planted_rows() -> Vec<FittedRow> {
    let options = Options::new(Parts::A800, 1);
    let mut rows = rows();
    assert_eq!(rows.len(), 70, "what the bench measures is a refit to 70 rows");
    let rough = |row: &FittedRow| {
        let setting = observation(FACTS, row).setting;
        Observation::new(setting, 0.1 + 1.6 / f64::from(row.plan.ranks()))
    };
    let rough: Vec<Observation> = rows.iter().map(rough).collect();
    let values = fit(FormulaName::Tandem, &rough, &options).expect("there are enough rows").values();
    for row in &mut rows {
        let setting = observation(FACTS, row).setting;
        row.step_ns = (formula::step(FormulaName::Tandem, &values, &setting).total * 1e9) as u64;
    }
    rows
}

/// A model of the planted rows, their settings, and one that it has no row of.
fn planted() -> (FittedModel, Vec<Setting>) {
    let options = Options::new(Parts::A800, 1);
    let rows = planted_rows();
    let mut settings: Vec<Setting> = rows.iter().map(|row| observation(FACTS, row).setting).collect();
    settings.push(Setting { global_batch: 128, ..settings[0] });
    let workload = fit_workload("bert", FACTS, rows, 0.3, &options).expect("there are enough rows");
    let file = ModelFile {
        format: ModelFile::FORMAT,
        version: "0".into(),
        seed: 1,
        device_type: "GPU".into(),
        is_on_cores: false,
        within_rows: false,
        sources: vec![ModelSource {
            name: "planted".into(),
            layout: Layout::Run,
            rows: 70,
            memory_bytes: None,
            blake3: String::new(),
        }],
        workloads: vec![workload],
        unfit: Vec::new(),
        interference: None,
    };
    (FittedModel::new(&file).expect("it is of this version"), settings)
}

fn first_fit(criterion: &mut Criterion) {
    let (rows, options) = (planted_rows(), Options::new(Parts::A800, 1));
    let observations: Vec<Observation> = rows.iter().map(|row| observation(FACTS, row)).collect();
    let mut group = criterion.benchmark_group("fit");
    group.sample_size(10);
    group.bench_function("a formula", |bencher| {
        bencher.iter(|| fit(FormulaName::Tandem, black_box(&observations), &options));
    });
    group.bench_function("a workload, with its errors", |bencher| {
        bencher.iter(|| fit_workload("bert", FACTS, black_box(rows.clone()), 0.5, &options));
    });
    group.finish();
}

fn refit(criterion: &mut Criterion) {
    let (model, settings) = planted();
    let seen = |model: &FittedModel, index: usize| {
        let setting = settings[index];
        let before = model.answer("bert", &setting).expect("the formula describes it").step_s;
        Observation::new(setting, 1.2 * before)
    };
    let mut group = criterion.benchmark_group("refit");
    for (name, index) in [("measured", 3), ("not measured", settings.len() - 1)] {
        let observation = seen(&model, index);
        group.bench_function(name, |bencher| {
            let again = |mut model: FittedModel| {
                assert!(model.observe("bert", black_box(observation)));
                model
            };
            bencher.iter_batched(|| model.clone(), again, BatchSize::SmallInput);
        });
    }
    // Every configuration was observed before.
    let mut all = model.clone();
    for index in 0..settings.len() {
        all.observe("bert", seen(&model, index));
    }
    let observation = Observation { step_s: 2.0 * seen(&model, 3).step_s, ..seen(&model, 3) };
    group.bench_function("after 71 others", |bencher| {
        let again = |mut model: FittedModel| {
            assert!(model.observe("bert", black_box(observation)));
            model
        };
        bencher.iter_batched(|| all.clone(), again, BatchSize::SmallInput);
    });
    group.finish();
}

criterion_group!(benches, first_fit, refit);
criterion_main!(benches);
