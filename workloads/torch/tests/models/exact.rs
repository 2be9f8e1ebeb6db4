//! Exact models: everything in fp64, and no sample depends on the others or on chance.

use schema::catalog::{Catalog, Workload};
use tch::{Device, Kind};
use torch_worker::{models, nn::parameters::Parameters, shim::autograd::AutocastBf16, workload};

use crate::{
    operations::gradients,
    support::{batch_of, state, without_dropout},
};

fn exact(workload: &Workload) -> Box<dyn workload::Workload> {
    models::build_in(&without_dropout(workload), Parameters::new(Device::Cpu).exact()).unwrap()
}

#[test]
fn parameters_samples_losses_and_gradients_are_fp64_also_under_autocast() {
    for workload in Catalog::embedded().set("quick") {
        let name = &workload.name;
        let model = exact(workload);
        let (batch, state) = (batch_of(model.as_ref(), workload, 4), state(model.as_ref()));
        assert!(state.values().all(|tensor| tensor.kind() == Kind::Double), "{name}");
        let is_fp32 = |tensor: &tch::Tensor| tensor.kind() == Kind::Float;
        assert!(!is_fp32(&batch.inputs) && !is_fp32(&batch.targets), "{name}");
        for update in 0..model.updates().len() {
            let loss = model.loss(update, &batch).unwrap();
            let under_autocast = {
                let _autocast = AutocastBf16::enter(Device::Cpu).unwrap();
                model.loss(update, &batch).unwrap()
            };
            assert_eq!(loss.kind(), Kind::Double, "{name}");
            assert_eq!(loss, under_autocast, "{name}: nothing is rounded and nothing is drawn");
            let (gradients, again) = (gradients(&state, &loss), gradients(&state, &under_autocast));
            assert!(!gradients.is_empty() && gradients == again, "{name}");
            assert!(gradients.values().all(|gradient| gradient.kind() == Kind::Double), "{name}");
        }
    }
}

#[test]
fn losses_are_means_over_samples_that_do_not_depend_on_each_other() {
    for workload in Catalog::embedded().set("quick") {
        let model = exact(workload);
        let batch = batch_of(model.as_ref(), workload, 4);
        let before: Vec<_> = state(model.as_ref()).values().map(tch::Tensor::copy).collect();
        for update in 0..model.updates().len() {
            let loss = |first, samples| {
                let slice = |tensor: &tch::Tensor| tensor.narrow(0, first, samples);
                let part = workload::Batch { inputs: slice(&batch.inputs), targets: slice(&batch.targets) };
                model.loss(update, &part).unwrap().double_value(&[])
            };
            let (whole, parts) = (loss(0, 4), (loss(0, 1) + loss(1, 1) + loss(2, 1) + loss(3, 1)) / 4.0);
            // Relative to the loss, but not to one that is a mean of values on both sides of zero.
            let apart = (whole - parts).abs() / whole.abs().max(0.1);
            assert!(apart < 1e-12, "{}: {whole} for {parts}", workload.name);
        }
        let after = state(model.as_ref());
        assert!(
            before.iter().zip(after.values()).all(|(before, after)| before == after),
            "{}",
            workload.name
        );
    }
}
