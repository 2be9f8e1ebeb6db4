//! Tan and Le, ICML 2019.

use serde::{Deserialize, Serialize};

use super::{
    Family, Features, Samples,
    inverted_residual::{InvertedResiduals, window_problem},
    share_problem,
};

/// Inverted residual blocks with squeeze-and-excitation between a 3x3 and a 1x1 convolution, then a linear layer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Efficientnet {
    /// Channels of the first convolution.
    pub stem: u32,
    pub stem_stride: u32,
    pub blocks: Vec<InvertedResiduals>,
    /// Channels of the last convolution.
    pub head: u32,
    /// Dropout before the linear layer.
    pub dropout: f64,
    /// Probability to skip a block, growing with depth from 0 to this value behind the last block (Huang et
    /// al., ECCV 2016).
    pub stochastic_depth: f64,
    pub classes: u32,
    pub image: u32,
}

impl Family for Efficientnet {
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
            .or_else(|| share_problem("stochastic_depth", self.stochastic_depth))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_leave_something_to_learn_from() {
        let problem = |dropout, stochastic_depth| {
            let row = InvertedResiduals { expansion: 6, kernel: 5, channels: 8, count: 2, stride: 2 };
            let (stem, stem_stride, blocks, head, classes, image) = (8, 1, vec![row], 16, 10, 32);
            Efficientnet { stem, stem_stride, blocks, head, dropout, stochastic_depth, classes, image }
                .problem()
        };
        assert_eq!(problem(0.2, 0.2), None);
        assert_eq!(problem(-0.1, 0.2).as_deref(), Some("dropout -0.1: use a number from 0 to below 1"));
        assert_eq!(problem(0.2, 1.0).as_deref(), Some("stochastic_depth 1: use a number from 0 to below 1"));
    }
}
