//! Dosovitskiy et al., ICLR 2021.

use serde::{Deserialize, Serialize};

use super::{Family, Features, Samples};

/// An encoder that reads an image as a sequence of square patches.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Vit {
    pub image: u32,
    /// Side of a patch; divides `image`.
    pub patch: u32,
    pub classes: u32,
    pub layers: u32,
    pub width: u32,
    pub heads: u32,
    /// Hidden width of the feed-forward networks.
    pub feed_forward: u32,
}

impl Family for Vit {
    fn samples(&self) -> Samples {
        Samples::LabelledImages { channels: 3, side: self.image, classes: self.classes }
    }

    fn features(&self) -> Features {
        // One extra position for the class token.
        let positions = (self.image / self.patch).pow(2) + 1;
        Features { image: Some(self.image), ..Features::of_sequences(self.layers, self.width, positions) }
    }

    fn links(&self) -> Option<u32> {
        // The patches come first and the head last.
        Some(self.layers + 2)
    }

    fn heads(&self) -> Option<u32> {
        Some(self.heads)
    }

    fn convolves_or_recurs(&self) -> bool {
        true
    }

    fn problem(&self) -> Option<String> {
        let Vit { image, patch, width, heads, .. } = self;
        if !image.is_multiple_of(*patch) {
            return Some(format!("image {image} is not a multiple of patch {patch}"));
        }
        (!width.is_multiple_of(*heads)).then(|| format!("width {width} is not a multiple of heads {heads}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patches_fill_the_image_and_heads_the_width() {
        let problem = |image, patch, width, heads| {
            Vit { image, patch, classes: 9, layers: 1, width, heads, feed_forward: 8 }.problem()
        };
        assert_eq!(problem(32, 16, 8, 2), None);
        assert_eq!(problem(32, 12, 8, 2).unwrap(), "image 32 is not a multiple of patch 12");
        assert_eq!(problem(32, 16, 8, 3).unwrap(), "width 8 is not a multiple of heads 3");
    }
}
