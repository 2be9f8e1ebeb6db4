//! What it costs to ask a fitted model: one prediction with its interval, and the best plan of LLaMA 2 7B on up to 64 devices, which
//! is asked of every plan.

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use formats::fitted::FormulaName;
use model::{FittedModel, formula};
use scheduler::best_plan::Search;
use schema::catalog::{Catalog, CatalogEntry};

#[path = "../tests/commands/plan/planted.rs"]
mod planted;

fn predictions(criterion: &mut Criterion) {
    let catalog = Catalog::embedded();
    let workload = catalog.get("gpt2").expect("the catalog has it");
    let file = planted::model(workload, 16, 5);
    let model = FittedModel::new(&file).expect("of this version");
    let mut group = criterion.benchmark_group("predict");
    for plan in ["dp8-ga2", "dp4-zero2-offload", "dp2-tp4-pp2-ga2"] {
        let parsed: schema::plan::Plan = plan.parse().expect("canonical");
        let setting = planted::setting(
            file.workloads[0].facts,
            16,
            parsed,
            &[8; 2][..parsed.ranks().div_ceil(8) as usize],
            Some(12),
        );
        for fit in
            model.fits(&workload.name).iter().filter(|fit| formula::applies(fit.formula, &setting).is_ok())
        {
            if fit.formula == FormulaName::Tandem {
                group.bench_function(plan, |bencher| bencher.iter(|| fit.predict(black_box(&setting))));
            }
        }
    }
    group.finish();
}

fn ranking(criterion: &mut Criterion) {
    let catalog = Catalog::embedded();
    let workload = catalog.get("llama2-7b").expect("the catalog has it");
    let mut file = planted::model(catalog.get("gpt2").expect("the catalog has it"), 16, 5);
    file.workloads[0].workload = workload.name.clone();
    file.workloads[0].facts.parameters = workload.parameters;
    let model = FittedModel::new(&file).expect("of this version");
    let mut search = Search::new(&model, &file, &file.workloads[0], CatalogEntry::Workload(workload), 16);
    (search.per_node, search.capacity) = (Some(8), Some(1 << 40));
    println!("{} plans", search.plans(64).len());
    criterion.bench_function("rank/llama2-7b/64", |bencher| {
        bencher.iter(|| search.rows(1, 64, &[Some(12)]).expect("all fit"));
    });
}

criterion_group!(benches, predictions, ranking);
criterion_main!(benches);
