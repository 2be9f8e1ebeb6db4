//! PointNet against single operations.

use schema::catalog::Model;
use tch::{Kind, Tensor};

use crate::{
    operations::{State, assert_same_training, batch_norm, draw, linear},
    support::{batch, build, catalog, difference, state},
};

/// A linear layer for each point, `[samples, channels, points]`, with batch norm.
fn of_points(state: &State, scope: &str, number: u32, x: &Tensor) -> Tensor {
    let layer = format!("{scope}.conv{number}");
    let weight = state[&format!("{layer}.weight")].squeeze_dim(2);
    let sum = weight.matmul(x) + state[&format!("{layer}.bias")].unsqueeze(1);
    batch_norm(state, &format!("{scope}.bn{number}"), &sum)
}

fn of_cloud(state: &State, scope: &str, first_norm: u32, x: &Tensor) -> Tensor {
    let layer = |number: u32, x: &Tensor| linear(state, &format!("{scope}fc{number}"), x);
    let norm = |number: u32, x: &Tensor| batch_norm(state, &format!("{scope}bn{number}"), x).relu();
    layer(3, &norm(first_norm + 1, &layer(2, &norm(first_norm, &layer(1, x)))))
}

fn transform(state: &State, scope: &str, width: i64, points: &Tensor) -> Tensor {
    let features =
        (1..=3).fold(points.shallow_clone(), |x, number| of_points(state, scope, number, &x).relu());
    let found = of_cloud(state, &format!("{scope}."), 4, &features.amax([2], false));
    found.view([-1, width, width]) + Tensor::eye(width, tch::kind::FLOAT_CPU)
}

/// Points are columns, and a row times the matrix is the transposed matrix times the column.
fn turn(points: &Tensor, matrices: &Tensor) -> Tensor {
    matrices.transpose(1, 2).matmul(points)
}

#[test]
fn pointnet_equals_single_operations() {
    for feature_transform in [false, true] {
        let mut workload = catalog("pointnet-mini");
        let Model::Pointnet(pointnet) = &mut workload.model else { unreachable!("it is a PointNet") };
        // Few points and clouds: where two points nearly tie for a maximum, rounding decides which of them learns.
        (pointnet.points, pointnet.feature_transform, pointnet.dropout) = (16, feature_transform, 0.0);
        let (model, batch) = (build(&workload), batch(&workload, 4));
        let state = state(model.as_ref());
        draw(&state);

        let turned = turn(&batch.inputs, &transform(&state, "feat.stn", 3, &batch.inputs));
        let first = of_points(&state, "feat", 1, &turned).relu();
        let (first, distance) = if feature_transform {
            let matrices = transform(&state, "feat.fstn", 64, &first);
            let products = matrices.matmul(&matrices.transpose(1, 2));
            let apart = products - Tensor::eye(64, tch::kind::FLOAT_CPU);
            let norms = apart.square().sum_dim_intlist([1, 2].as_slice(), false, None).sqrt();
            (turn(&first, &matrices), norms.mean(Kind::Float))
        } else {
            (first, Tensor::from(0.0_f32))
        };
        let second = of_points(&state, "feat", 2, &first).relu();
        let seen = of_points(&state, "feat", 3, &second).amax([2], false);
        let log_probabilities = of_cloud(&state, "", 1, &seen).log_softmax(-1, None);
        let right = log_probabilities.gather(1, &batch.targets.unsqueeze(1), false);
        let expected = 0.001 * distance - right.mean(Kind::Float);
        let loss = model.loss(0, &batch).unwrap();
        if feature_transform {
            // Three networks one behind another differ too much in their gradients, for the reason above.
            assert!(difference(&loss, &expected) < 1e-5, "{loss} for {expected}");
        } else {
            assert_same_training(&state, &loss, &expected, 1e-3);
        }
    }
}

#[test]
fn the_order_of_points_does_not_matter() {
    let mut workload = catalog("pointnet-mini");
    let Model::Pointnet(pointnet) = &mut workload.model else { unreachable!("it is a PointNet") };
    pointnet.dropout = 0.0;
    let (model, mut batch) = (build(&workload), batch(&workload, 8));
    let loss = model.loss(0, &batch).unwrap().double_value(&[]);
    batch.inputs = batch.inputs.flip([2]);
    let flipped = model.loss(0, &batch).unwrap().double_value(&[]);
    assert!((flipped / loss - 1.0).abs() < 1e-4, "{loss} and {flipped}");
}
