//! Dropout and stochastic depth come from the seed of a launch. A program of its own with one test, as all threads of a
//! program draw from one generator.

use schema::catalog::{Catalog, Model};
use tch::Device;
use torch_worker::{data, models};

#[test]
fn a_seed_drops_the_same_and_another_seed_drops_others() {
    for name in ["efficientnet-b0-mini", "mobilenet-v2-mini", "mobilenet-v3-small-mini", "vgg11-mini"] {
        let mut workload = Catalog::embedded().get(name).unwrap().clone();
        let losses = |workload: &_, seeds: [i64; 2]| {
            tch::manual_seed(1);
            let model = models::build(workload, Device::Cpu).unwrap();
            let batch = data::open(workload.model.samples(), None, 1, Device::Cpu).unwrap().next(8).unwrap();
            seeds.map(|seed| {
                tch::manual_seed(seed);
                model.loss(0, &batch).unwrap().double_value(&[]).to_bits()
            })
        };
        let [one, other] = losses(&workload, [1, 2]);
        assert_eq!(one, other, "{name} leaves nothing to chance as it is");
        let noises: &[fn(&mut Model) -> &mut f64] = match workload.model {
            Model::Efficientnet(_) => &[dropout, stochastic_depth],
            _ => &[dropout],
        };
        for noise in noises {
            *noise(&mut workload.model) = 0.5;
            let [one, again] = losses(&workload, [1, 1]);
            assert_eq!(one, again, "{name}");
            let [one, other] = losses(&workload, [1, 2]);
            assert_ne!(one, other, "{name}");
            *noise(&mut workload.model) = 0.0;
        }
    }
}

fn dropout(model: &mut Model) -> &mut f64 {
    match model {
        Model::Efficientnet(model) => &mut model.dropout,
        Model::MobilenetV2(model) => &mut model.dropout,
        Model::MobilenetV3(model) => &mut model.dropout,
        Model::Vgg(model) => &mut model.dropout,
        other => unreachable!("{other:?} is none of those tested"),
    }
}

fn stochastic_depth(model: &mut Model) -> &mut f64 {
    let Model::Efficientnet(model) = model else { unreachable!("no other model has it") };
    &mut model.stochastic_depth
}
