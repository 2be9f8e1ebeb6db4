//! Howard et al., ICCV 2019.

use serde::{Deserialize, Serialize};

use super::{Family, Features, Samples, inverted_residual::window_problem, share_problem};

/// Inverted residual blocks, some with squeeze-and-excitation, then two linear layers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MobilenetV3 {
    /// Channels of the first convolution.
    pub stem: u32,
    pub blocks: Vec<MobilenetV3Block>,
    /// Channels of the last convolution.
    pub head: u32,
    /// Width of the first linear layer.
    pub hidden: u32,
    /// Dropout between the linear layers.
    pub dropout: f64,
    pub classes: u32,
    pub image: u32,
}

/// A line of Tables 1 and 2 of the paper.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MobilenetV3Block {
    /// Side of the depthwise convolution.
    pub kernel: u32,
    /// Channels inside the block.
    pub expanded: u32,
    /// Channels of the output.
    pub channels: u32,
    /// Whether the block weighs its channels by squeeze-and-excitation.
    pub squeeze: bool,
    pub activation: MobilenetV3Activation,
    pub stride: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MobilenetV3Activation {
    Relu,
    Hardswish,
}

impl Family for MobilenetV3 {
    fn samples(&self) -> Samples {
        Samples::LabelledImages { channels: 3, side: self.image, classes: self.classes }
    }

    fn features(&self) -> Features {
        Features::of_images(self.blocks.len() as u32, self.image)
    }

    fn links(&self) -> Option<u32> {
        // The stem comes first and the head last.
        Some(self.blocks.len() as u32 + 2)
    }

    fn convolves_or_recurs(&self) -> bool {
        true
    }

    fn problem(&self) -> Option<String> {
        window_problem(self.blocks.iter().map(|block| (block.kernel, block.stride)))
            .or_else(|| share_problem("dropout", self.dropout))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_have_a_middle_and_dropout_leaves_something() {
        let activation = MobilenetV3Activation::Relu;
        let problem = |kernel, dropout| {
            let block =
                MobilenetV3Block { kernel, expanded: 8, channels: 8, squeeze: true, activation, stride: 2 };
            let (stem, head, hidden, classes, image) = (8, 16, 16, 10, 32);
            MobilenetV3 { stem, blocks: vec![block], head, hidden, dropout, classes, image }.problem()
        };
        assert_eq!(problem(5, 0.0), None);
        assert_eq!(problem(2, 0.0).as_deref(), Some("kernel 2: use an odd number"));
        assert_eq!(problem(5, 1.0).as_deref(), Some("dropout 1: use a number from 0 to below 1"));
    }
}
