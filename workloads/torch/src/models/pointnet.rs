//! PointNet (Qi et al., CVPR 2017) for classification, laid out and named as in fxia22/pointnet.pytorch, the
//! implementation that Lucid trains.

use schema::catalog::{Optimizer, Pointnet};
use tch::{TchError, Tensor};

use crate::{
    chain::Link,
    nn::{
        convolution::Pointwise,
        dense::{Linear, batched_product},
        dropout::Dropout,
        loss::cross_entropy,
        norm::BatchNorm2d,
        parameters::{Parameters, Scope},
        precision::at_least_fp32,
        relu_in_place,
    },
    workload::{Block, Supervised},
};

const COORDINATES: i64 = 3;
/// Widths of the three layers that see one point each, in the network and in its transforms.
const OF_POINTS: [i64; 3] = [64, 128, 1024];
/// Widths of the two layers that see the whole cloud, before the output layer.
const OF_CLOUD: [i64; 2] = [512, 256];

/// Turns coordinates, sees points, then the cloud. Takes `[samples, 3, points]` and gives logits `[samples, classes]`;
/// with a feature transform the last of a sample's numbers is how far that is from a rotation.
///
/// # Errors
/// Out of memory.
pub(super) fn build(
    model: &Pointnet,
    mut parameters: Parameters,
    optimizer: Optimizer,
) -> Result<Supervised, TchError> {
    let &Pointnet { points: _, classes, feature_transform, dropout } = model;
    let mut root = parameters.root();
    let [width, ..] = OF_POINTS;
    let mut features = root.part("feat");
    let turned = Turned { transform: Transform::new(features.part("stn"), COORDINATES)? };
    // The first layer of points is a link, and the other two are in the next one.
    let [first, second, third] = OF_POINTS;
    features.begin_link(1);
    let layer_1 = Pointwise::new(features.part("conv1"), COORDINATES, first)?;
    features.begin_link(2);
    let layer_2 = Pointwise::new(features.part("conv2"), first, second)?;
    let layer_3 = Pointwise::new(features.part("conv3"), second, third)?;
    features.begin_link(1);
    let [norm_1] = norms(&mut features, 1, [first])?;
    features.begin_link(2);
    let [norm_2, norm_3] = norms(&mut features, 2, [second, third])?;
    let transform = feature_transform.then(|| Transform::new(features.part("fstn"), width)).transpose()?;
    root.begin_link(3);
    let layers = OfCloud::layers(&mut root, i64::from(classes))?;
    let head =
        Head { layers: OfCloud { layers, norms: norms(&mut root, 1, OF_CLOUD)? }, dropout: Dropout(dropout) };
    let links: Vec<Box<dyn Link>> = vec![
        Box::new(turned),
        Box::new(First { layer: layer_1, norm: norm_1 }),
        Box::new(Seen { transform, layers: [layer_2, layer_3], norms: [norm_2, norm_3] }),
        Box::new(head),
    ];
    let criterion = if feature_transform { regularised_cross_entropy } else { cross_entropy };
    Ok(Supervised::new(parameters, links, criterion, optimizer))
}

fn of_points(scope: &mut Scope<'_>, inputs: i64) -> Result<[Pointwise; 3], TchError> {
    let [first, second, third] = OF_POINTS;
    Ok([
        Pointwise::new(scope.part("conv1"), inputs, first)?,
        Pointwise::new(scope.part("conv2"), first, second)?,
        Pointwise::new(scope.part("conv3"), second, third)?,
    ])
}

/// Numbered from `first` on.
fn norms<const N: usize>(
    scope: &mut Scope<'_>,
    first: usize,
    widths: [i64; N],
) -> Result<[BatchNorm2d; N], TchError> {
    let mut norms = Vec::new();
    for (index, width) in widths.into_iter().enumerate() {
        norms.push(BatchNorm2d::new(scope.part(format_args!("bn{}", first + index)), width)?);
    }
    Ok(norms.try_into().unwrap_or_else(|_| unreachable!("there is one for each width")))
}

/// The largest value of each channel over all points, in any order.
fn over_points(features: &Tensor) -> Result<Tensor, TchError> {
    Ok(features.f_max_dim(2, false)?.0)
}

/// Three linear layers on the features of a cloud, with batch norm between them.
struct OfCloud {
    layers: [Linear; 3],
    norms: [BatchNorm2d; 2],
}

impl OfCloud {
    fn layers(scope: &mut Scope<'_>, outputs: i64) -> Result<[Linear; 3], TchError> {
        let ([.., seen], [first, second]) = (OF_POINTS, OF_CLOUD);
        Ok([
            Linear::new(scope.part("fc1"), seen, first)?,
            Linear::new(scope.part("fc2"), first, second)?,
            Linear::new(scope.part("fc3"), second, outputs)?,
        ])
    }

    fn forward(&self, cloud: &Tensor, dropout: Dropout) -> Result<Tensor, TchError> {
        let [layer_1, layer_2, layer_3] = &self.layers;
        let [norm_1, norm_2] = &self.norms;
        let hidden = relu_in_place(norm_1.forward(&layer_1.forward(cloud)?)?)?;
        let dropped = dropout.forward(&layer_2.forward(&hidden)?)?;
        layer_3.forward(&relu_in_place(norm_2.forward(&dropped)?)?)
    }
}

/// A small PointNet that finds a square matrix for each cloud.
struct Transform {
    of_points: [Pointwise; 3],
    norms: [BatchNorm2d; 3],
    of_cloud: OfCloud,
    width: i64,
}

impl Transform {
    fn new(mut scope: Scope<'_>, width: i64) -> Result<Self, TchError> {
        let of_points = of_points(&mut scope, width)?;
        let layers = OfCloud::layers(&mut scope, width * width)?;
        let norms_of_points = norms(&mut scope, 1, OF_POINTS)?;
        let of_cloud = OfCloud { layers, norms: norms(&mut scope, 4, OF_CLOUD)? };
        Ok(Self { of_points, norms: norms_of_points, of_cloud, width })
    }

    /// The matrices, `[samples, width, width]`. They begin near the identity, which is added to what is learned.
    fn matrices(&self, points: &Tensor) -> Result<Tensor, TchError> {
        const NO_DROPOUT: Dropout = Dropout(0.0);
        let features =
            self.of_points.iter().zip(&self.norms).try_fold(points.shallow_clone(), |x, (layer, norm)| {
                relu_in_place(norm.forward(&layer.forward(&x)?)?)
            })?;
        let learned = self.of_cloud.forward(&over_points(&features)?, NO_DROPOUT)?;
        add_to_diagonals(at_least_fp32(&learned)?.f_view([-1, self.width, self.width])?, 1.0)
    }
}

/// Adds `number` to the diagonal of each matrix, in place and so without a matrix to add.
fn add_to_diagonals(matrices: Tensor, number: f64) -> Result<Tensor, TchError> {
    let _ = matrices.f_diagonal(0, 1, 2)?.f_add_scalar_(number)?;
    Ok(matrices)
}

/// Each point times its cloud's matrix; points are columns here, rows in the paper.
fn turn(points: &Tensor, matrices: &Tensor) -> Result<Tensor, TchError> {
    batched_product(&points.f_transpose(1, 2)?, matrices)?.f_transpose(1, 2)
}

struct Turned {
    transform: Transform,
}

impl Block for Turned {
    fn forward(&self, points: &Tensor) -> Result<Tensor, TchError> {
        turn(points, &self.transform.matrices(points)?)
    }
}

/// The first layer for each point.
struct First {
    layer: Pointwise,
    norm: BatchNorm2d,
}

impl Block for First {
    fn forward(&self, points: &Tensor) -> Result<Tensor, TchError> {
        relu_in_place(self.norm.forward(&self.layer.forward(points)?)?)
    }
}

/// The other layers for each point, after the feature transform, up to the features of the whole cloud.
struct Seen {
    transform: Option<Transform>,
    layers: [Pointwise; 2],
    norms: [BatchNorm2d; 2],
}

impl Block for Seen {
    /// Gives the features of clouds; the feature transform adds one number to each, its distance from a rotation.
    fn forward(&self, points: &Tensor) -> Result<Tensor, TchError> {
        let ([layer_2, layer_3], [norm_2, norm_3]) = (&self.layers, &self.norms);
        let matrices = self.transform.as_ref().map(|transform| transform.matrices(points)).transpose()?;
        let turned =
            matrices.as_ref().map_or(Ok(points.shallow_clone()), |matrices| turn(points, matrices))?;
        let inner = relu_in_place(norm_2.forward(&layer_2.forward(&turned)?)?)?;
        let seen = over_points(&norm_3.forward(&layer_3.forward(&inner)?)?)?;
        match matrices {
            None => Ok(seen),
            Some(matrices) => Tensor::f_cat(&[seen, from_rotation(&matrices)?], 1),
        }
    }
}

/// How far each matrix is from one that keeps lengths, `[samples, 1]`: the norm of `A A^T - I`.
fn from_rotation(matrices: &Tensor) -> Result<Tensor, TchError> {
    let products = batched_product(matrices, &matrices.f_transpose(1, 2)?)?;
    let apart = add_to_diagonals(at_least_fp32(&products)?, -1.0)?;
    apart.f_norm_scalaropt_dim(2.0, [1, 2], false)?.f_unsqueeze(1)
}

/// The classifier, which passes extra numbers after the features through.
struct Head {
    layers: OfCloud,
    dropout: Dropout,
}

impl Block for Head {
    fn forward(&self, seen: &Tensor) -> Result<Tensor, TchError> {
        let [.., width] = OF_POINTS;
        let logits = self.layers.forward(&seen.f_narrow(1, 0, width)?, self.dropout)?;
        let rest = seen.size()[1] - width;
        if rest == 0 { Ok(logits) } else { Tensor::f_cat(&[logits, seen.f_narrow(1, width, rest)?], 1) }
    }
}

/// The cross entropy plus the paper's equation 2.
fn regularised_cross_entropy(output: &Tensor, classes: &Tensor) -> Result<Tensor, TchError> {
    const WEIGHT: f64 = 0.001;
    let logits = output.size()[1] - 1;
    let distance = at_least_fp32(&output.f_narrow(1, logits, 1)?)?.f_mean(None)?;
    cross_entropy(&output.f_narrow(1, 0, logits)?, classes)?.f_add(&distance.f_mul_scalar(WEIGHT)?)
}
