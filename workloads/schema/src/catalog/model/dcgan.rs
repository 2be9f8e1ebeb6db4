//! Radford et al., ICLR 2016.

use serde::{Deserialize, Serialize};

use super::{Family, Features, Samples};
use crate::plan::Axis;

/// A generator and a discriminator of square images.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Dcgan {
    /// Size of the random vector that an image is made from.
    pub latent: u32,
    pub generator_width: u32,
    pub discriminator_width: u32,
    pub channels: u32,
    pub image: u32,
}

impl Family for Dcgan {
    fn samples(&self) -> Samples {
        Samples::NoiseAndImages { latent: self.latent, channels: self.channels, side: self.image }
    }

    fn features(&self) -> Features {
        // Each layer but one doubles the side, from 4 to that of the image, or halves it.
        Features::of_images(self.image.ilog2() - 1, self.image)
    }

    fn lacks(&self, axis: Axis) -> Option<&'static str> {
        matches!(axis, Axis::Tp | Axis::Pp | Axis::Zero)
            .then_some("networks that are updated in turn are not divided among ranks")
    }

    fn convolves_or_recurs(&self) -> bool {
        true
    }

    fn problem(&self) -> Option<String> {
        let image = self.image;
        // The networks double and halve from and to 4x4, and need a layer besides the one that makes
        // colours.
        (!image.is_power_of_two() || image < 16)
            .then(|| format!("image {image}: use a power of two from 16 on"))
    }
}
