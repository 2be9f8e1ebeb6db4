//! Kingma and Welling, ICLR 2014.

use serde::{Deserialize, Serialize};

use super::{Family, Features, Samples};

/// An encoder and a decoder of square grey images, each with one hidden layer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Vae {
    pub image: u32,
    pub hidden: u32,
    /// Numbers that an image becomes.
    pub latent: u32,
}

impl Family for Vae {
    fn samples(&self) -> Samples {
        Samples::GreyImages { side: self.image }
    }

    fn features(&self) -> Features {
        // Two of the encoder and two of the decoder.
        Features { hidden: Some(self.hidden), ..Features::of_images(4, self.image) }
    }
}
