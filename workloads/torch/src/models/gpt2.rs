//! GPT-2 (Radford et al., 2019): a pre-norm decoder with learned positions.
//!
//! Names are those of Hugging Face's `GPT2Model`; weights are stored as `torch.nn.Linear` does, `[outputs, inputs]`.
//! There is no dropout, as is usual where a model sees each token but once (nanoGPT's setting for pre-training).

use schema::catalog::{Gpt2, Optimizer};
use tch::{TchError, Tensor};

use super::pre_norm::PreNorm;
use crate::{
    chain::Link,
    nn::{
        attention::SelfAttention,
        dense::{Bias, Embedding, Linear},
        init::Init,
        loss::of_vocabulary,
        norm::LayerNorm,
        parameters::{Parameters, Scope},
        split::Split,
        tensor_parallel::TensorParallel,
    },
    workload::{Block, Supervised},
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
    let (vocabulary, width) = (i64::from(vocabulary), i64::from(width));
    let mut root = parameters.root();
    let ranks = root.tensor_parallel().clone();
    let embeddings = Embeddings {
        tokens: Embedding::of_vocabulary(root.part("wte"), vocabulary, width, Init::normal(DEVIATION))?,
        positions: Embedding::new(root.part("wpe"), i64::from(context), width, Init::normal(DEVIATION))?,
    };
    let last = 1 + layers as usize;
    root.begin_link(last);
    let output = Linear::tied_to(&mut root, &embeddings.tokens);
    let mut links: Vec<Box<dyn Link>> = vec![Box::new(embeddings)];
    for layer in 0..layers {
        root.begin_link(links.len());
        links.push(Box::new(decoder(root.part("h"), layer, width, i64::from(heads), layers)?));
    }
    root.begin_link(last);
    let norm = LayerNorm::new(root.part("ln_f"), width)?;
    links.push(Box::new(Head { norm, output, ranks: ranks.clone() }));
    Ok(Supervised::with_criterion(parameters, links, of_vocabulary(vocabulary, 0.0, ranks), optimizer))
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
    let ranks = scope.tensor_parallel().clone();
    let (init, inner) = (Init::normal(DEVIATION), 4 * width);
    // The sum over all shortcuts shall begin with the same variance at any depth (section 2.3 of the paper); each
    // layer adds two terms to it.
    let onto_shortcut = Init::normal(DEVIATION / f64::from(2 * layers).sqrt());
    Ok(PreNorm {
        norm_1: LayerNorm::new(scope.part("ln_1"), width)?,
        attention: {
            let mut scope = scope.part("attn");
            SelfAttention {
                project_in: {
                    let split = Split::outputs(heads).blocks(3);
                    let (scope, sizes) = (scope.part("c_attn"), [width, 3 * width]);
                    Linear::column_parallel(scope, sizes, init, Bias::Zero, split)?
                },
                project_out: {
                    let (scope, sizes) = (scope.part("c_proj"), [width, width]);
                    Linear::row_parallel(scope, sizes, onto_shortcut, Bias::Zero, heads)?
                },
                heads: ranks.local(heads),
                is_causal: true,
                ranks: ranks.clone(),
            }
        },
        norm_2: LayerNorm::new(scope.part("ln_2"), width)?,
        feed_forward_in: {
            let (scope, split) = (scope.part("mlp.c_fc"), Split::outputs(inner));
            Linear::column_parallel(scope, [width, inner], init, Bias::Zero, split)?
        },
        feed_forward_out: {
            let scope = scope.part("mlp.c_proj");
            Linear::row_parallel(scope, [inner, width], onto_shortcut, Bias::Zero, inner)?
        },
        gelu: "tanh",
        ranks,
    })
}

/// The last norm and the output layer, which shares its weight with the token embedding.
struct Head {
    norm: LayerNorm,
    output: Linear,
    ranks: TensorParallel,
}

impl Block for Head {
    fn forward(&self, input: &Tensor) -> Result<Tensor, TchError> {
        self.output.forward(&self.ranks.enter(&self.norm.forward(input)?)?)
    }
}
