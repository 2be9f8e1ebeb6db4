//! How long it takes to choose what to measure next: 8 of 2,000 configurations, with the formula that has most parameters.

use criterion::{Criterion, criterion_group, criterion_main};
use formats::fitted::FormulaName;
use model::{
    Fit, Parts, Placement, Setting,
    suggest::{Candidate, Design, suggest},
};
use record::facts::Facts;
use schema::plan::{Plan, Precision};

/// 2,000 configurations of a model of a thousand million parameters.
fn candidates() -> Vec<Candidate> {
    let facts = Facts {
        parameters: Some(1_000_000_000),
        layers: Some(24),
        sequence: Some(1024),
        hidden: Some(2048),
        state_per_parameter: None,
    };
    let mut candidates = Vec::new();
    for global_batch in (1..).map(|number| 64 * number) {
        for dp in [1, 2, 4, 8] {
            for (tp, pp) in [(1, 1), (2, 1), (1, 2), (4, 2)] {
                for ga in [1, 2, 4] {
                    for precision in [Precision::Fp32, Precision::Bf16] {
                        let plan = Plan { dp, tp, pp, ga, precision, ..Plan::default() };
                        let placement = Placement::of(&vec![1; plan.ranks() as usize]);
                        // Ranks of tensor parallelism are on one node.
                        let placement = if tp > 1 { Placement::of(&[plan.ranks()]) } else { placement };
                        let setting =
                            Setting { facts, global_batch, plan, placement, cpus: None, ranks_per_device: 1 };
                        candidates.push(Candidate { setting, device_s: 20.0 * f64::from(plan.ranks()) });
                        if candidates.len() == 2_000 {
                            return candidates;
                        }
                    }
                }
            }
        }
    }
    candidates
}

fn choices(criterion: &mut Criterion) {
    let fit = Fit::of_priors(FormulaName::Tandem, &Parts::A800, &[]);
    let candidates = candidates();
    let design = || Design::new(&fit, candidates.clone());
    assert_eq!(design().described(), 2_000);
    criterion.bench_function("suggest 8 of 2,000", |bencher| {
        bencher.iter(|| suggest(&mut [design()], 8));
    });
}

criterion_group!(benches, choices);
criterion_main!(benches);
