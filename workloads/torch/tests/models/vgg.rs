//! VGG.

use crate::support::{assert_deviation, build, catalog, state};

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
