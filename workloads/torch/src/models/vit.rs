//! Vision transformers (Dosovitskiy et al., ICLR 2021), laid out, named and initialised as torchvision does.
//!
//! There is no dropout, which is torchvision's default.

use schema::catalog::{Optimizer, Vit};
use tch::{TchError, Tensor};

use super::pre_norm::PreNorm;
use crate::{
    chain::Link,
    nn::{
        attention::SelfAttention,
        convolution::{Conv2d, Window},
        dense::{Bias, Linear},
        init::Init,
        loss::cross_entropy,
        norm::LayerNorm,
        parameters::{Parameters, Scope},
        split::Split,
    },
    workload::{Block, Supervised},
};

/// Patches, encoder layers, head. Takes `[samples, 3, image, image]` and gives `[samples, classes]`.
///
/// # Errors
/// Out of memory.
pub(super) fn build(
    model: &Vit,
    mut parameters: Parameters,
    optimizer: Optimizer,
) -> Result<Supervised, TchError> {
    let &Vit { image, patch, classes, layers, width, heads, feed_forward } = model;
    let width = i64::from(width);
    let mut root = parameters.root();
    let patches = Patches::new(&mut root, i64::from(patch), i64::from(image / patch), width)?;
    let mut blocks: Vec<Box<dyn Link>> = vec![Box::new(patches)];
    let mut encoder = root.part("encoder");
    for layer in 0..layers {
        encoder.begin_link(blocks.len());
        let scope = encoder.part("layers");
        blocks.push(Box::new(encoder_layer(scope, layer, width, heads.into(), feed_forward.into())?));
    }
    encoder.begin_link(blocks.len());
    blocks.push(Box::new(Head {
        norm: norm(encoder.part("ln"), width)?,
        output: Linear::with_init(root.part("heads").part("head"), width, i64::from(classes), Init::ZEROS)?,
    }));
    Ok(Supervised::new(parameters, blocks, cross_entropy, optimizer))
}

fn norm(scope: Scope<'_>, width: i64) -> Result<LayerNorm, TchError> {
    const EPSILON: f64 = 1e-6;
    LayerNorm::with_epsilon(scope, width, EPSILON)
}

/// One vector for each patch behind one that will stand for the whole image, at learned positions.
struct Patches {
    projection: Conv2d,
    /// `[1, 1, width]`
    class: Tensor,
    /// `[1, 1 + patches, width]`
    positions: Tensor,
    width: i64,
}

impl Patches {
    fn new(root: &mut Scope<'_>, patch: i64, patches_a_side: i64, width: i64) -> Result<Self, TchError> {
        const COLOURS: i64 = 3;
        const DEVIATION_OF_POSITIONS: f64 = 0.02;
        let window = Window { kernel: patch, stride: patch, padding: 0 };
        // Truncated at two, which is many deviations away.
        let init = Init::normal((1.0 / (COLOURS * patch * patch) as f64).sqrt());
        let tokens = 1 + patches_a_side * patches_a_side;
        Ok(Self {
            class: root.parameter("class_token", &[1, 1, width], Init::ZEROS)?,
            projection: Conv2d::with_bias(root.part("conv_proj"), COLOURS, width, window, init, Init::ZEROS)?,
            positions: root.part("encoder").parameter(
                "pos_embedding",
                &[1, tokens, width],
                Init::normal(DEVIATION_OF_POSITIONS),
            )?,
            width,
        })
    }
}

impl Block for Patches {
    fn forward(&self, images: &Tensor) -> Result<Tensor, TchError> {
        let patches = self.projection.forward(images)?.f_flatten(2, 3)?.f_transpose(1, 2)?;
        let class = self.class.f_expand([patches.size()[0], 1, self.width], false)?;
        Tensor::f_cat(&[class, patches], 1)?.f_add(&self.positions)
    }
}

fn encoder_layer(
    mut scope: Scope<'_>,
    layer: u32,
    width: i64,
    heads: i64,
    feed_forward: i64,
) -> Result<PreNorm, TchError> {
    const DEVIATION_OF_BIASES: f64 = 1e-6;
    let mut scope = scope.part(format_args!("encoder_layer_{layer}"));
    let ranks = scope.tensor_parallel().clone();
    let norm_1 = norm(scope.part("ln_1"), width)?;
    let attention = {
        let mut scope = scope.part("self_attention");
        let (xavier, of_heads) = (Init::xavier_uniform(width, 3 * width), Split::outputs(heads).blocks(3));
        let weight = scope.divided("in_proj_weight", &[3 * width, width], xavier, of_heads)?;
        let bias = scope.divided("in_proj_bias", &[3 * width], Init::ZEROS, of_heads)?;
        SelfAttention {
            project_in: Linear::of(weight, bias),
            project_out: {
                let (scope, sizes, init) = (scope.part("out_proj"), [width, width], Init::fan_in(width));
                Linear::row_parallel(scope, sizes, init, Bias::Zero, heads)?
            },
            heads: ranks.local(heads),
            is_causal: false,
            ranks: ranks.clone(),
        }
    };
    let norm_2 = norm(scope.part("ln_2"), width)?;
    let bias_init = Init::normal(DEVIATION_OF_BIASES);
    let feed_forward_in = {
        let (mut scope, init) = (scope.part("mlp.0"), Init::xavier_uniform(width, feed_forward));
        let split = Split::outputs(feed_forward);
        let weight = scope.divided("weight", &[feed_forward, width], init, split)?;
        Linear::of(weight, scope.divided("bias", &[feed_forward], bias_init, split)?)
    };
    let feed_forward_out = {
        let (mut scope, init) = (scope.part("mlp.3"), Init::xavier_uniform(feed_forward, width));
        let weight = scope.divided("weight", &[width, feed_forward], init, Split::inputs(feed_forward))?;
        Linear::row_parallel_of(weight, scope.parameter("bias", &[width], bias_init)?, ranks.clone())
    };
    Ok(PreNorm { norm_1, attention, norm_2, feed_forward_in, feed_forward_out, gelu: "none", ranks })
}

/// The last norm, and classes from the vector that stands for the image.
struct Head {
    norm: LayerNorm,
    output: Linear,
}

impl Block for Head {
    fn forward(&self, input: &Tensor) -> Result<Tensor, TchError> {
        self.output.forward(&self.norm.forward(input)?.f_select(1, 0)?)
    }
}
