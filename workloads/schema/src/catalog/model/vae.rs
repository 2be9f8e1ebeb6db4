//! Kingma and Welling, ICLR 2014.

use serde::{Deserialize, Serialize};

use super::{Family, Features, Samples};

/// An encoder and a decoder of square grey images, each with one hidden layer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Vae {
    pub image: u32,
    pub hidden: u32,
    /// Size of the latent vector.
    pub latent: u32,
}

impl Family for Vae {
    fn samples(&self) -> Samples {
        Samples::GreyImages { side: self.image }
    }

    fn features(&self) -> Features {
        // Two layers in the encoder and two in the decoder.
        Features { hidden: Some(self.hidden), ..Features::of_images(4, self.image) }
    }

    fn links(&self) -> Option<u32> {
        // The encoder and the decoder.
        Some(2)
    }
}
