//! Residual networks; basic blocks against those of tch, as the reference of torchvision has bottlenecks.

use std::collections::BTreeMap;

use schema::catalog::Model;
use tch::{
    Device,
    nn::{ModuleT, VarStore},
    vision,
};
use torch_worker::shim::autograd::backward;

use crate::support::{assert_deviation, batch, build, catalog, difference, state};

/// Loss, gradients and running statistics of one training step equal those of tch's own implementation, whose names are
/// the same.
#[test]
fn resnet18_equals_the_reference() {
    let mut workload = catalog("resnet18");
    let Model::Resnet(resnet) = &mut workload.model else { unreachable!("it is a ResNet") };
    // Large enough for every stage to have more than one pixel, and quick.
    resnet.image = 96;
    let model = build(&workload);
    let batch = batch(&workload, 4);

    let mut store = VarStore::new(Device::Cpu);
    let reference = vision::resnet::resnet18(&store.root(), 1000);
    let ours = state(model.as_ref());
    assert!(ours.keys().eq(BTreeMap::from_iter(store.variables()).keys()), "both use torchvision's names");
    tch::no_grad(|| {
        for (name, mut tensor) in store.variables() {
            tensor.copy_(&ours[&name]);
        }
    });
    store.unfreeze();

    let loss = model.loss(0, &batch).unwrap();
    backward(&loss, &[]).unwrap();
    let expected = reference.forward_t(&batch.inputs, true).cross_entropy_for_logits(&batch.targets);
    expected.backward();

    assert!(difference(&loss.detach(), &expected.detach()) < 1e-5);
    for (name, tensor) in store.variables() {
        // Gradients of parameters; running statistics as they are after the step.
        let (ours, reference) = if tensor.requires_grad() {
            (ours[&name].grad(), tensor.grad())
        } else {
            (ours[&name].copy(), tensor)
        };
        let apart = difference(&ours, &reference);
        assert!(apart < 1e-5, "{name}: {apart}");
    }
}

#[test]
fn initial_weights_have_the_spread_that_the_paper_gives() {
    let model = build(&catalog("resnet18-cifar"));
    assert_deviation(model.as_ref(), "layer2.0.conv1.weight", (2.0 / (128.0 * 9.0_f64)).sqrt());
    assert_deviation(model.as_ref(), "fc.weight", (1.0 / (3.0 * 512.0_f64)).sqrt());
}
