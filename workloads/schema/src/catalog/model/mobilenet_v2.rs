//! Sandler et al., CVPR 2018.

use serde::{Deserialize, Serialize};

use super::{
    Family, Features, Samples,
    inverted_residual::{InvertedResiduals, window_problem},
    share_problem,
};

/// Inverted residual blocks between a 3x3 and a 1x1 convolution, then a linear layer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MobilenetV2 {
    /// Channels of the first convolution.
    pub stem: u32,
    pub stem_stride: u32,
    pub blocks: Vec<InvertedResiduals>,
    /// Channels of the last convolution.
    pub head: u32,
    /// Dropout before the linear layer.
    pub dropout: f64,
    pub classes: u32,
    pub image: u32,
}

impl Family for MobilenetV2 {
    fn samples(&self) -> Samples {
        Samples::LabelledImages { channels: 3, side: self.image, classes: self.classes }
    }

    fn features(&self) -> Features {
        let layers = self.blocks.iter().map(|row| row.count).sum();
        Features::of_images(layers, self.image)
    }

    fn links(&self) -> Option<u32> {
        // The stem comes first and the head last.
        Some(self.blocks.iter().map(|row| row.count).sum::<u32>() + 2)
    }

    fn convolves_or_recurs(&self) -> bool {
        true
    }

    fn problem(&self) -> Option<String> {
        let stem = (3, self.stem_stride);
        window_problem(self.blocks.iter().map(|row| (row.kernel, row.stride)).chain([stem]))
            .or_else(|| share_problem("dropout", self.dropout))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_have_a_middle_and_small_strides() {
        let problem = |kernel, stride, stem_stride| {
            let row = InvertedResiduals { expansion: 6, kernel, channels: 8, count: 1, stride };
            let (stem, head, classes, image) = (8, 16, 10, 32);
            MobilenetV2 { stem, stem_stride, blocks: vec![row], head, dropout: 0.2, classes, image }.problem()
        };
        assert_eq!(problem(3, 2, 1), None);
        assert_eq!(problem(4, 2, 1).as_deref(), Some("kernel 4: use an odd number"));
        assert_eq!(problem(5, 3, 1).as_deref(), Some("stride 3: use 1 or 2"));
        assert_eq!(problem(3, 1, 4).as_deref(), Some("stride 4: use 1 or 2"));
    }
}
