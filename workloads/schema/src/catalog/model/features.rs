//! The sizes of a model that predict its step time and its memory.

/// Sizes that families have in common; absent if a family has no such size.
///
/// A layer means something else in each family, so compare layers within one family only.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Features {
    /// Number of successive layers with weights, or of blocks if the family's paper counts blocks, as for
    /// transformers and inverted residuals. Layers of encoder and decoder are added up. If a step trains
    /// several parallel networks, this counts one of them.
    pub layers: Option<u32>,
    /// Width of the hidden layers, the widest if they differ; absent if layers have channels instead.
    pub hidden: Option<u32>,
    /// Positions per sample that share weights: tokens (source and target added up), patches including the
    /// class token, time steps of an utterance, or points.
    pub sequence: Option<u32>,
    /// Side of an image, in pixels.
    pub image: Option<u32>,
}

impl Features {
    pub(super) fn of_sequences(layers: u32, hidden: u32, sequence: u32) -> Features {
        Features { layers: Some(layers), hidden: Some(hidden), sequence: Some(sequence), image: None }
    }

    pub(super) fn of_images(layers: u32, image: u32) -> Features {
        Features { layers: Some(layers), image: Some(image), ..Features::default() }
    }

    /// The features of linear layers of these widths plus the output layer.
    pub(super) fn of_mlp(hidden: &[u32]) -> Features {
        let layers = hidden.len() as u32 + 1;
        Features { layers: Some(layers), hidden: hidden.iter().max().copied(), ..Features::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::Catalog;

    #[test]
    fn sizes_are_those_of_the_papers() {
        let catalog = Catalog::embedded();
        let none = None;
        for (workload, layers, hidden, sequence, image) in [
            ("bert-base", Some(12), Some(768), Some(512), none),
            ("dcgan", Some(5), none, none, Some(64)),
            ("deepspeech2", Some(5), Some(1024), Some(750), none),
            ("efficientnet-b0", Some(16), none, none, Some(224)),
            ("espcn", Some(4), none, none, Some(85)),
            ("gpt2", Some(12), Some(768), Some(1024), none),
            ("llama2-7b", Some(32), Some(4096), Some(2048), none),
            ("mobilenet-v2", Some(17), none, none, Some(224)),
            ("mobilenet-v3-small", Some(11), none, none, Some(224)),
            ("neumf", Some(4), Some(32), none, none),
            ("pointnet", none, none, Some(2500), none),
            ("ppo-cartpole", Some(3), Some(64), none, none),
            ("resnet18", Some(18), none, none, Some(224)),
            ("resnet50", Some(50), none, none, Some(224)),
            ("roberta-large", Some(24), Some(1024), Some(512), none),
            ("synthetic-spin", none, none, none, none),
            ("t5-base", Some(24), Some(768), Some(626), none),
            ("td3-pendulum", Some(3), Some(400), none, none),
            ("transformer", Some(12), Some(512), Some(64), none),
            ("vae", Some(4), Some(400), none, Some(28)),
            ("vgg11", Some(11), none, none, Some(224)),
            ("vit-b-16", Some(12), Some(768), Some(197), Some(224)),
        ] {
            let found = catalog.get(workload).unwrap_or_else(|| panic!("{workload}")).model.features();
            assert_eq!(found, Features { layers, hidden, sequence, image }, "{workload}");
        }
    }

    #[test]
    fn a_family_is_named_as_its_definitions_name_it() {
        let catalog = Catalog::embedded();
        for (workload, family) in [("lstm", "lstm-lm"), ("gpt2", "gpt2"), ("resnext50-mini", "resnet")] {
            assert_eq!(catalog.get(workload).unwrap().model.family_name(), family);
        }
    }
}
