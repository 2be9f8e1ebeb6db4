//! DCGAN.

use tch::Tensor;
use torch_worker::shim::autograd::backward;

use crate::support::{assert_deviation, batch, build, catalog, size_of_part};

#[test]
fn the_networks_of_dcgan_have_their_published_sizes() {
    let count = |prefix| size_of_part("dcgan", prefix);
    assert_eq!((count("generator."), count("discriminator.")), (3_576_704, 2_765_568));
}

#[test]
fn each_network_of_dcgan_learns_from_its_own_loss_alone() {
    let workload = catalog("dcgan");
    let model = build(&workload);
    let batch = batch(&workload, 4);
    let of = |prefix| model.parameters().with_prefix(prefix);
    let touched = |prefix| of(prefix).iter().filter(|tensor| tensor.grad().defined()).count();
    let [generator, discriminator] = ["generator.", "discriminator."];

    backward(&model.loss(0, &batch).unwrap(), &of(discriminator)).unwrap();
    assert_eq!((touched(generator), touched(discriminator)), (0, of(discriminator).len()));
    of(discriminator).iter_mut().for_each(Tensor::zero_grad);

    let kept = model.loss(1, &batch).unwrap();
    backward(&kept, &of(generator)).unwrap();
    assert_eq!(touched(generator), of(generator).len());
    for tensor in of(discriminator) {
        assert_eq!(tensor.grad().abs().max().double_value(&[]), 0.0);
    }
    let made_again = model.loss(1, &batch).unwrap();
    assert_eq!(kept.double_value(&[]), made_again.double_value(&[]), "the same noise makes the same images");
}

#[test]
fn initial_weights_have_the_spread_that_the_paper_gives() {
    assert_deviation(build(&catalog("dcgan")).as_ref(), "generator.main.3.weight", 0.02);
}
