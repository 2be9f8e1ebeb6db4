//! Shi et al., CVPR 2016.

use serde::{Deserialize, Serialize};

use super::{Family, Features, Samples};

/// Convolutions of a small grey image, of which the last one makes the pixels of the large image.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Espcn {
    /// Side of the small image.
    pub image: u32,
    /// Ratio of the sides of the large and the small image.
    pub upscale: u32,
    /// Channels of the three convolutions before the last.
    pub widths: [u32; 3],
}

impl Family for Espcn {
    fn samples(&self) -> Samples {
        Samples::ImagePairs { side: self.image, upscale: self.upscale }
    }

    fn features(&self) -> Features {
        Features::of_images(self.widths.len() as u32 + 1, self.image)
    }

    fn links(&self) -> Option<u32> {
        Some(self.widths.len() as u32 + 1)
    }

    fn convolves_or_recurs(&self) -> bool {
        true
    }
}
