//! What holds for every workload of the catalog.

use schema::catalog::{Catalog, Model};
use tch::{Device, Kind, Tensor};
use torch_worker::{
    models,
    nn::{flops, parameters::Parameters, tensor_parallel::TensorParallel},
    shapes,
    shim::autograd::AutocastBf16,
    workload,
};

use crate::{
    operations::gradients,
    support::{batch, batch_of, build, catalog, state, without_dropout},
};

#[test]
fn parameters_and_operations_are_those_of_the_catalog() {
    for workload in Catalog::embedded().iter().filter(|w| w.model.worker() == "torch-worker") {
        let counted = shapes::of(workload).unwrap_or_else(|error| panic!("{}: {error:#}", workload.name));
        assert_eq!(Some(counted.parameters), workload.parameters, "parameters of {}", workload.name);
        assert_eq!(
            Some(counted.flops_per_sample),
            workload.flops_per_sample,
            "operations of {}",
            workload.name
        );
    }
}

#[test]
fn models_with_convolutions_or_recurrent_layers_are_those_of_the_catalog() {
    for workload in Catalog::embedded().iter().filter(|w| w.model.worker() == "torch-worker") {
        let model = models::build_shapes(workload).unwrap();
        let built = model.parameters().has_convolution() || model.parameters().has_lstm();
        assert_eq!(workload.model.convolves_or_recurs(), built, "{}", workload.name);
    }
}

/// A tensor that is registered for another link than the one that uses it would have no values in one of the stages.
#[test]
fn every_model_that_is_a_chain_can_be_cut_behind_each_of_its_links() {
    for workload in Catalog::embedded().set("quick").filter(|w| w.model.worker() == "torch-worker") {
        let whole = models::build_shapes(workload).unwrap();
        let links = whole.supervised().map(|model| model.chain().count());
        assert_eq!(links.map(|links| links as u32), workload.model.links(), "{}", workload.name);
        let Some(links) = links else { continue };
        let batch = batch(workload, 2);
        for cut in 1..links {
            let [first, last] = [0..cut, cut..links].map(|held| {
                let parameters = Parameters::new(Device::Cpu).part_of(TensorParallel::default(), Some(held));
                models::build_in(workload, parameters).unwrap()
            });
            let parts = [&first, &last].map(|model| model.supervised().expect("a part of a chain is one"));
            let [numbers, of_whole] =
                [first.parameters().bytes() + last.parameters().bytes(), whole.parameters().bytes()];
            assert!(numbers >= of_whole, "{} cut behind link {cut}", workload.name);
            let carry = parts[0].chain().run(&batch.inputs).unwrap();
            let outputs = parts[1].chain().run_from(carry).unwrap();
            let loss = parts[1].criterion(&outputs, &batch.targets).unwrap().double_value(&[]);
            assert!(loss.is_finite(), "{} cut behind link {cut}: {loss}", workload.name);
        }
    }
}

#[test]
fn shapes_alone_count_what_a_model_with_values_holds_and_does() {
    for workload in Catalog::embedded().set("quick") {
        let (model, counted) = (build(workload), shapes::of(workload).unwrap());
        let parameters = model.parameters();
        assert_eq!(counted.parameters, parameters.count(), "{}", workload.name);
        assert_eq!(counted.buffers, parameters.buffers(), "{}", workload.name);
        assert_eq!(counted.model_bytes, parameters.bytes(), "{}", workload.name);
        if let [_] = model.updates() {
            let batch = batch_of(model.as_ref(), workload, 1);
            let (_, forward) = flops::count(|| tch::no_grad(|| model.loss(0, &batch).unwrap()));
            assert_eq!(counted.flops_per_sample, 3 * forward, "{}", workload.name);
        }
    }
}

#[test]
fn the_mean_over_micro_batches_is_the_mean_over_the_batch() {
    // Batch norm looks at a micro-batch as a whole, so only models without it are so.
    for name in ["espcn-mini", "gpt2-mini", "llama-mini", "lstm", "neumf"] {
        let workload = catalog(name);
        let model = build(&workload);
        let batch = batch(&workload, 4);
        let loss = |first, samples| {
            let slice = |tensor: &Tensor| tensor.narrow(0, first, samples);
            let part = workload::Batch { inputs: slice(&batch.inputs), targets: slice(&batch.targets) };
            model.loss(0, &part).unwrap().double_value(&[])
        };
        let halves = (loss(0, 2) + loss(2, 2)) / 2.0;
        assert!((loss(0, 4) - halves).abs() < 1e-5, "{name}");
    }
}

#[test]
fn autocast_to_bf16_changes_losses_little_and_leaves_them_in_fp32() {
    for workload in Catalog::embedded().set("quick") {
        let name = &workload.name;
        let model = build(&without_dropout(workload));
        let samples = workload.verify.global_batch as usize;
        let (batch, state) = (batch_of(model.as_ref(), workload, samples), state(model.as_ref()));
        let updates = 0..model.updates().len();
        let loss = |update| model.loss(update, &batch).unwrap();
        let exact: Vec<_> = updates
            .clone()
            .map(loss)
            .map(|exact| (exact.double_value(&[]), gradients(&state, &exact)))
            .collect();
        for (update, (exact, exact_gradients)) in updates.zip(exact) {
            let rounded = {
                let _autocast = AutocastBf16::enter(Device::Cpu).unwrap();
                loss(update)
            };
            assert_eq!(rounded.kind(), Kind::Float, "{name}");
            let (rounded, rounded_gradients) = (rounded.double_value(&[]), gradients(&state, &rounded));
            // Relative to the loss, but not to one that is a mean of values on both sides of zero.
            let apart = (rounded - exact).abs() / exact.abs().max(0.1);
            assert!(apart < 0.05, "{name}: {exact} became {rounded}");
            // A loss may round to the same number, as where the output layer begins at zero.
            assert!(rounded_gradients != exact_gradients, "{name} has the same gradients in bf16");
        }
    }
}

#[test]
fn architectures_that_cannot_be_are_refused() {
    let refused = |name: &str, change: &dyn Fn(&mut Model)| {
        let mut workload = catalog(name);
        change(&mut workload.model);
        models::build(&workload, Device::Cpu).err().expect("it must be refused").to_string()
    };
    let heads = |model: &mut Model| {
        if let Model::Gpt2(gpt2) = model {
            gpt2.heads = 7;
        }
    };
    assert_eq!(refused("gpt2-mini", &heads), "model.gpt2: width 256 is not a multiple of heads 7");
    let mlp = |first: Vec<u32>| {
        move |model: &mut Model| {
            if let Model::Neumf(neumf) = model {
                neumf.mlp.clone_from(&first);
            }
        }
    };
    assert!(refused("neumf", &mlp(vec![])).starts_with("model.neumf: mlp is empty"));
    assert!(refused("neumf", &mlp(vec![7, 3])).starts_with("model.neumf: mlp starts with 7"));
    let image = |model: &mut Model| {
        if let Model::Dcgan(dcgan) = model {
            dcgan.image = 48;
        }
    };
    assert_eq!(refused("dcgan", &image), "model.dcgan: image 48: use a power of two from 16 on");
}
