//! He et al., CVPR 2016, and Xie et al., CVPR 2017.

use serde::{Deserialize, Serialize};

use super::{Family, Features, Samples};

/// Four stages of residual blocks; a ResNeXt if `groups` is above 1.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Resnet {
    pub block: ResnetBlock,
    /// Blocks of each stage.
    pub layers: [u32; 4],
    pub stem: ResnetStem,
    /// Channels of the stem and of the first stage. Each later stage doubles them.
    #[serde(default = "published_width")]
    pub width: u32,
    /// Groups of the 3x3 convolution of a bottleneck.
    #[serde(default = "ungrouped")]
    pub groups: u32,
    /// Channels of each group in the first stage; if absent the groups share `width`.
    #[serde(default)]
    pub width_per_group: Option<u32>,
    pub classes: u32,
    pub image: u32,
}

fn published_width() -> u32 {
    64
}

fn ungrouped() -> u32 {
    1
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

impl Resnet {
    /// Channels of the first stage's 3x3 convolutions.
    pub fn inner_width(&self) -> u32 {
        self.width_per_group.map_or(self.width, |width| width * self.groups)
    }
}

impl Family for Resnet {
    fn samples(&self) -> Samples {
        Samples::LabelledImages { channels: 3, side: self.image, classes: self.classes }
    }

    fn features(&self) -> Features {
        // The paper names its networks by the number of convolutions of the blocks, the stem, and the
        // linear layer.
        let of_block = match self.block {
            ResnetBlock::Basic => 2,
            ResnetBlock::Bottleneck => 3,
        };
        let layers = of_block * self.layers.iter().sum::<u32>() + 2;
        Features::of_images(layers, self.image)
    }

    fn links(&self) -> Option<u32> {
        // The stem comes first and the head last.
        Some(self.layers.iter().sum::<u32>() + 2)
    }

    fn convolves_or_recurs(&self) -> bool {
        true
    }

    fn problem(&self) -> Option<String> {
        let &Resnet { block, width, groups, width_per_group, image, .. } = self;
        // Stem and stages halve the image up to five times, so that below 8 no pixels remain.
        if image < 8 {
            return Some(format!("image {image}: use 8 or more"));
        }
        if block == ResnetBlock::Basic && (groups, width_per_group) != (1, None) {
            return Some("groups and width_per_group are those of bottlenecks; leave them out".into());
        }
        (!self.inner_width().is_multiple_of(groups))
            .then(|| format!("width {width} cannot be cut into {groups} groups; give a width_per_group"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_need_a_bottleneck_and_a_width() {
        let resnet = |block, groups, width_per_group| Resnet {
            block,
            layers: [1; 4],
            stem: ResnetStem::Cifar,
            width: 64,
            groups,
            width_per_group,
            classes: 10,
            image: 32,
        };
        use ResnetBlock::{Basic, Bottleneck};
        assert_eq!(resnet(Basic, 1, None).problem(), None);
        assert_eq!(resnet(Bottleneck, 32, None).problem(), None, "two channels each");
        assert_eq!(resnet(Bottleneck, 32, Some(4)).problem(), None);
        assert_eq!(resnet(Bottleneck, 32, Some(4)).inner_width(), 128);
        let refused = "groups and width_per_group are those of bottlenecks; leave them out";
        assert_eq!(resnet(Basic, 2, None).problem().as_deref(), Some(refused));
        assert_eq!(resnet(Basic, 1, Some(64)).problem().as_deref(), Some(refused));
        let refused = "width 64 cannot be cut into 3 groups; give a width_per_group";
        assert_eq!(resnet(Bottleneck, 3, None).problem().as_deref(), Some(refused));
    }
}
