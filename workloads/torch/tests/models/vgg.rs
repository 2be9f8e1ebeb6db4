//! VGG.

use schema::catalog::Model;
use tch::{
    Device,
    nn::{ModuleT, VarStore},
    vision,
};
use torch_worker::shim::autograd::backward;

use crate::support::{assert_deviation, batch, build, catalog, difference, is_slow_run, state};

/// Both hold 133 M parameters and their gradients: 2 GB.
#[test]
fn vgg11_equals_the_reference() {
    if !is_slow_run("whether VGG-11 equals tch's") {
        return;
    }
    let mut workload = catalog("vgg11");
    let Model::Vgg(vgg) = &mut workload.model else { unreachable!("it is a VGG") };
    vgg.dropout = 0.0;
    let model = build(&workload);
    let batch = batch(&workload, 2);

    let mut store = VarStore::new(Device::Cpu);
    let reference = vision::vgg::vgg11(&store.root(), 1000);
    let ours = state(model.as_ref());
    let variables = store.variables();
    assert_eq!(variables.len(), ours.len());
    tch::no_grad(|| variables.iter().for_each(|(name, tensor)| tensor.shallow_clone().copy_(&ours[name])));
    store.unfreeze();

    let loss = model.loss(0, &batch).unwrap();
    backward(&loss, &[]).unwrap();
    // There is no batch norm, so evaluation leaves out dropout and nothing else.
    // The reference flattens by a view, which channels-last images do not allow.
    let inputs = batch.inputs.contiguous();
    let expected = reference.forward_t(&inputs, false).cross_entropy_for_logits(&batch.targets);
    expected.backward();
    assert!(difference(&loss.detach(), &expected.detach()) < 1e-5);
    for (name, tensor) in variables {
        let apart = difference(&ours[&name].grad(), &tensor.grad());
        // The layouts round differently, and of millions of numbers some lie at a corner of ReLU; the small model of
        // torchvision, where none does, is held to 1e-4.
        assert!(apart < 1e-2, "{name}: {apart}");
    }
}

#[test]
fn vgg11_of_cifar_has_the_names_of_modules_with_batch_norm() {
    let model = build(&catalog("vgg11-cifar"));
    let state = state(model.as_ref());
    // Convolution, norm and activation of each layer, and a max-pool behind each stage, count.
    for (place, channels) in
        [(0, 64), (4, 128), (8, 256), (11, 256), (15, 512), (18, 512), (22, 512), (25, 512)]
    {
        assert_eq!(state[&format!("features.{place}.weight")].size()[0], channels);
        assert_eq!(state[&format!("features.{}.running_mean", place + 1)].size(), [channels]);
    }
    assert_eq!(state["classifier.0.weight"].size(), [10, 512]);
}

#[test]
fn initial_weights_have_torchvisions_spread() {
    let model = build(&catalog("vgg11-cifar"));
    assert_deviation(model.as_ref(), "features.4.weight", (2.0 / (128.0 * 9.0_f64)).sqrt());
    assert_deviation(model.as_ref(), "classifier.0.weight", 0.01);
}
