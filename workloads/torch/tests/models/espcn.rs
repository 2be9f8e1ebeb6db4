//! Super-resolution against single operations.

use tch::{Kind, Tensor};

use crate::{
    operations::{assert_same_training, convolution, draw},
    support::{batch, build, catalog, state},
};

#[test]
fn espcn_equals_single_operations() {
    let workload = catalog("espcn-mini");
    let (model, batch) = (build(&workload), batch(&workload, 2));
    let state = state(model.as_ref());
    draw(&state);
    let layer = |name: &str, x: &Tensor, padding: i64| convolution(&state, name, x, [1; 2], [padding; 2]);
    let first = layer("conv1", &batch.inputs, 2).relu();
    let last = layer("conv4", &layer("conv3", &layer("conv2", &first, 1).relu(), 1).relu(), 1);
    // Channel 3 i + j of a pixel is the pixel in row i and column j of its square.
    let large = last.view([2, 3, 3, 24, 24]).permute([0, 3, 1, 4, 2]).reshape([2, 1, 72, 72]);
    let expected = (large - &batch.targets).square().mean(Kind::Float);
    assert_same_training(&state, &model.loss(0, &batch).unwrap(), &expected, 1e-4);
}

#[test]
fn initial_weights_are_orthogonal() {
    let state = state(build(&catalog("espcn-mini")).as_ref());
    for (name, gain) in [("conv2.weight", 2.0), ("conv4.weight", 1.0)] {
        let matrix = state[name].reshape([state[name].size()[0], -1]);
        let identity = Tensor::eye(matrix.size()[0], tch::kind::FLOAT_CPU);
        assert!(matrix.matmul(&matrix.tr()).allclose(&(identity * gain), 1e-4, 1e-4, false), "{name}");
    }
}
