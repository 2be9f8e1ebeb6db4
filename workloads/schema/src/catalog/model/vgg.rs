//! Simonyan and Zisserman, ICLR 2015.

use serde::{Deserialize, Serialize};

use super::{Family, Features, Samples, share_problem};

/// Stages of 3x3 convolutions, each followed by a max-pool, then linear layers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Vgg {
    /// Channels of the convolutions of each stage, as a column of Table 1 of the paper.
    pub stages: Vec<Vec<u32>>,
    /// Whether a batch norm follows each convolution; the paper has none.
    pub batch_norm: bool,
    /// Side of the image that the linear layers see. The output of the last stage is averaged to it.
    pub pool: u32,
    /// Widths of the linear layers before the last one.
    pub hidden: Vec<u32>,
    /// Dropout after each of the hidden layers.
    pub dropout: f64,
    pub classes: u32,
    pub image: u32,
}

impl Family for Vgg {
    fn samples(&self) -> Samples {
        Samples::LabelledImages { channels: 3, side: self.image, classes: self.classes }
    }

    fn features(&self) -> Features {
        let layers = self.stages.iter().map(Vec::len).sum::<usize>() + self.hidden.len() + 1;
        Features::of_images(layers as u32, self.image)
    }

    fn links(&self) -> Option<u32> {
        // The pool between convolutions and linear layers is a link of its own.
        let convolutions: usize = self.stages.iter().map(Vec::len).sum();
        Some((convolutions + 1 + self.hidden.len() + 1) as u32)
    }

    fn convolves_or_recurs(&self) -> bool {
        true
    }

    fn problem(&self) -> Option<String> {
        let (stages, image) = (self.stages.len(), self.image);
        if self.stages.iter().any(Vec::is_empty) || stages == 0 {
            return Some("a stage has no convolution; give the channels of each".into());
        }
        // Each stage halves the image and rounds down.
        let smallest = 1_u32.checked_shl(stages as u32);
        if smallest.is_none_or(|smallest| image < smallest) {
            return Some(format!("image {image} is used up before the last of {stages} stages"));
        }
        share_problem("dropout", self.dropout)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_stage_has_a_convolution_and_an_image() {
        let problem = |stages: &[&[u32]], image| {
            let stages = stages.iter().map(|stage| stage.to_vec()).collect();
            let (hidden, classes) = (vec![], 10);
            Vgg { stages, batch_norm: false, pool: 1, hidden, dropout: 0.5, classes, image }.problem()
        };
        assert_eq!(problem(&[&[8], &[8, 8], &[16]], 8), None);
        let refused = "image 7 is used up before the last of 3 stages";
        assert_eq!(problem(&[&[8], &[8, 8], &[16]], 7).as_deref(), Some(refused));
        let refused = "a stage has no convolution; give the channels of each";
        assert_eq!(problem(&[&[8], &[]], 8).as_deref(), Some(refused));
        assert_eq!(problem(&[], 8).as_deref(), Some(refused));
    }
}
