//! He et al., CVPR 2016.

use serde::{Deserialize, Serialize};

use super::{Family, Samples};

/// Four groups of residual blocks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Resnet {
    pub block: ResnetBlock,
    /// Blocks of each group.
    pub layers: [u32; 4],
    pub stem: ResnetStem,
    pub classes: u32,
    pub image: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ResnetBlock {
    Basic,
    Bottleneck,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ResnetStem {
    /// 7x7 stride 2 and max-pool.
    Imagenet,
    /// 3x3 stride 1.
    Cifar,
}

impl Family for Resnet {
    fn samples(&self) -> Samples {
        Samples::LabelledImages { channels: 3, side: self.image, classes: self.classes }
    }

    fn problem(&self) -> Option<String> {
        let image = self.image;
        // Stem and groups halve the image up to five times; below 8 nothing would be left to learn from.
        (image < 8).then(|| format!("image {image}: use 8 or more"))
    }
}
