//! Kingma and Welling, ICLR 2014.

use serde::{Deserialize, Serialize};

use super::{Family, Samples};

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
}
