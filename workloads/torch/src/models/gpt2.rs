//! GPT-2 (Radford et al., 2019): a pre-norm decoder with learned positions.
//!
//! Names are those of Hugging Face's `GPT2Model`; weights are stored as `torch.nn.Linear` does, `[outputs, inputs]`.
//! There is no dropout, as is usual where a model sees each token but once (nanoGPT's setting for pre-training).

use schema::catalog::{Gpt2, Optimizer};
use tch::{TchError, Tensor};

use super::pre_norm::PreNorm;
use crate::{
    nn::{
        attention::SelfAttention,
        dense::{Embedding, Linear},
        init::Init,
        loss::cross_entropy,
        norm::LayerNorm,
        parameters::{Parameters, Scope},
    },
    workload::{Block, Sequential, Supervised},
};

/// Of the initial weights; the biases begin at zero.
const DEVIATION: f64 = 0.02;

/// Embeddings, decoder layers, head. Takes `[samples, context]` and gives logits `[samples, context, vocabulary]`.
///
/// # Errors
/// Out of memory.
pub(super) fn build(
    model: &Gpt2,
    mut parameters: Parameters,
    optimizer: Optimizer,
) -> Result<Supervised, TchError> {
    let &Gpt2 { vocabulary, context, layers, width, heads } = model;
    let width = i64::from(width);
    let mut root = parameters.root();
    let embeddings = Embeddings {
        tokens: Embedding::new(root.part("wte"), i64::from(vocabulary), width, Init::normal(DEVIATION))?,
        positions: Embedding::new(root.part("wpe"), i64::from(context), width, Init::normal(DEVIATION))?,
    };
    let output = Linear::tied_to(&embeddings.tokens);
    let mut blocks: Vec<Box<dyn Block>> = vec![Box::new(embeddings)];
    for layer in 0..layers {
        let scope = root.part("h");
        blocks.push(Box::new(decoder(scope, layer, width, i64::from(heads), layers)?));
    }
    blocks.push(Box::new(Head { norm: LayerNorm::new(root.part("ln_f"), width)?, output }));
    Ok(Supervised::new(parameters, Sequential::new(blocks), cross_entropy, optimizer))
}

struct Embeddings {
    tokens: Embedding,
    positions: Embedding,
}

impl Block for Embeddings {
    fn forward(&self, tokens: &Tensor) -> Result<Tensor, TchError> {
        // A sequence fills the context, so each position is used once and no look-up is needed.
        self.tokens.forward(tokens)?.f_add(self.positions.rows())
    }
}

fn decoder(
    mut scope: Scope<'_>,
    layer: u32,
    width: i64,
    heads: i64,
    layers: u32,
) -> Result<PreNorm, TchError> {
    let mut scope = scope.part(layer);
    let init = Init::normal(DEVIATION);
    // The sum over all shortcuts shall begin with the same variance at any depth (section 2.3 of the paper); each
    // layer adds two terms to it.
    let onto_shortcut = Init::normal(DEVIATION / f64::from(2 * layers).sqrt());
    Ok(PreNorm {
        norm_1: LayerNorm::new(scope.part("ln_1"), width)?,
        attention: {
            let mut scope = scope.part("attn");
            SelfAttention {
                project_in: Linear::with_init(scope.part("c_attn"), width, 3 * width, init)?,
                project_out: Linear::with_init(scope.part("c_proj"), width, width, onto_shortcut)?,
                heads,
                is_causal: true,
            }
        },
        norm_2: LayerNorm::new(scope.part("ln_2"), width)?,
        feed_forward_in: Linear::with_init(scope.part("mlp").part("c_fc"), width, 4 * width, init)?,
        feed_forward_out: Linear::with_init(
            scope.part("mlp").part("c_proj"),
            4 * width,
            width,
            onto_shortcut,
        )?,
        gelu: "tanh",
    })
}

/// The last norm and the output layer, which shares its weight with the token embedding.
struct Head {
    norm: LayerNorm,
    output: Linear,
}

impl Block for Head {
    fn forward(&self, input: &Tensor) -> Result<Tensor, TchError> {
        self.output.forward(&self.norm.forward(input)?)
    }
}
