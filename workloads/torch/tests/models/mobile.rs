//! MobileNets and EfficientNet.

use crate::support::{assert_deviation, build, catalog, state};

#[test]
fn blocks_have_torchvisions_names_and_sizes() {
    let sizes = |name: &str, parameter: &str| state(build(&catalog(name)).as_ref())[parameter].size();
    // Depthwise, projection, squeeze and head.
    assert_eq!(sizes("mobilenet-v2", "features.17.conv.1.0.weight"), [960, 1, 3, 3]);
    assert_eq!(sizes("mobilenet-v2", "features.1.conv.1.weight"), [16, 32, 1, 1]);
    assert_eq!(sizes("mobilenet-v2", "features.18.0.weight"), [1280, 320, 1, 1]);
    assert_eq!(sizes("mobilenet-v3-small", "features.9.block.1.0.weight"), [288, 1, 5, 5]);
    assert_eq!(sizes("mobilenet-v3-small", "features.9.block.2.fc1.weight"), [72, 288, 1, 1]);
    assert_eq!(sizes("mobilenet-v3-small", "classifier.3.weight"), [1000, 1024]);
    assert_eq!(sizes("efficientnet-b0", "features.7.0.block.1.0.weight"), [1152, 1, 3, 3]);
    assert_eq!(sizes("efficientnet-b0", "features.6.3.block.2.fc2.weight"), [1152, 48, 1, 1]);
    assert_eq!(sizes("efficientnet-b0", "features.8.0.weight"), [1280, 320, 1, 1]);
}

#[test]
fn initial_weights_have_torchvisions_spread() {
    let model = build(&catalog("mobilenet-v2-cifar"));
    // A depthwise convolution counts all channels as its outputs.
    assert_deviation(model.as_ref(), "features.17.conv.1.0.weight", (2.0 / (960.0 * 9.0_f64)).sqrt());
    assert_deviation(model.as_ref(), "classifier.1.weight", 0.01);
    let model = build(&catalog("efficientnet-b0-cifar"));
    // Uniform up to one over the root of the number of classes.
    assert_deviation(model.as_ref(), "classifier.1.weight", (1.0 / 30.0_f64).sqrt());
}
