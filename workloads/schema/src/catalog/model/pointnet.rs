//! Qi et al., CVPR 2017.

use serde::{Deserialize, Serialize};

use super::{Family, Features, Samples, share_problem};

/// A classifier of point clouds at the paper's widths.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pointnet {
    /// Points of one cloud.
    pub points: u32,
    pub classes: u32,
    /// Whether a second transform rotates the features of points, besides the one for their coordinates.
    /// The loss then keeps it close to a rotation.
    pub feature_transform: bool,
    /// Dropout of the features of a cloud, in the head.
    pub dropout: f64,
}

impl Family for Pointnet {
    fn samples(&self) -> Samples {
        Samples::PointClouds { points: self.points, classes: self.classes }
    }

    fn features(&self) -> Features {
        Features { sequence: Some(self.points), ..Features::default() }
    }

    fn links(&self) -> Option<u32> {
        // The coordinates' transform, the first layer, the other layers of a point, and the head.
        Some(4)
    }

    fn convolves_or_recurs(&self) -> bool {
        true
    }

    fn problem(&self) -> Option<String> {
        share_problem("dropout", self.dropout)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dropout_leaves_something() {
        let problem = |dropout| Pointnet { points: 9, classes: 2, feature_transform: false, dropout }.problem();
        assert_eq!(problem(0.0), None);
        for dropout in [1.0, -0.1, f64::NAN] {
            assert!(problem(dropout).unwrap().starts_with("dropout"), "{dropout}");
        }
    }
}
