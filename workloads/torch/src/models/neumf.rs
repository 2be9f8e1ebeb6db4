//! Neural matrix factorisation (He et al., WWW 2017, section 3.4): a generalised matrix factorisation beside an MLP,
//! each with embeddings of its own. Names are those of hexiangnan/neural_collaborative_filtering.

use schema::catalog::{self, Optimizer};
use tch::{TchError, Tensor};

use crate::{
    chain::Link,
    nn::{
        dense::{Embedding, Linear},
        init::Init,
        loss::binary_cross_entropy,
        parameters::Parameters,
        relu_in_place,
    },
    workload::{Block, Supervised},
};

/// Embeddings, MLP, prediction. Takes pairs (user, item), `[samples, 2]`, and gives logits `[samples]`.
///
/// # Errors
/// Out of memory.
pub(super) fn build(
    model: &catalog::Neumf,
    mut parameters: Parameters,
    optimizer: Optimizer,
) -> Result<Supervised, TchError> {
    let &catalog::Neumf { users, items, factors, ref mlp } = model;
    let widths: Vec<i64> = mlp.iter().copied().map(i64::from).collect();
    let (&[first, ..], &[.., last]) = (&widths[..], &widths[..]) else {
        unreachable!("a sound model has a width, that of its embeddings");
    };
    let mut root = parameters.root();
    let factors = i64::from(factors);

    let mut embedding = |name, rows: u32, width| {
        const DEVIATION: f64 = 0.01;
        Embedding::new(root.part(name), i64::from(rows), width, Init::normal(DEVIATION))
    };
    let embeddings = Embeddings {
        factors_of_user: embedding("mf_embedding_user", users, factors)?,
        factors_of_item: embedding("mf_embedding_item", items, factors)?,
        mlp_of_user: embedding("mlp_embedding_user", users, first / 2)?,
        mlp_of_item: embedding("mlp_embedding_item", items, first / 2)?,
    };
    root.begin_link(1);
    let mut layers = Vec::new();
    for (index, pair) in widths.windows(2).enumerate() {
        layers.push(Linear::new(root.part(format_args!("layer{}", index + 1)), pair[0], pair[1])?);
    }
    root.begin_link(2);
    let prediction = Linear::new(root.part("prediction"), factors + last, 1)?;
    let links: Vec<Box<dyn Link>> = vec![
        Box::new(embeddings),
        Box::new(Mlp { layers, factors, width: first }),
        Box::new(Prediction { layer: prediction }),
    ];
    Ok(Supervised::new(parameters, links, binary_cross_entropy, optimizer))
}

struct Embeddings {
    factors_of_user: Embedding,
    factors_of_item: Embedding,
    mlp_of_user: Embedding,
    mlp_of_item: Embedding,
}

impl Block for Embeddings {
    /// Gives the products of factors, then what the MLP takes, side by side in one row.
    fn forward(&self, pairs: &Tensor) -> Result<Tensor, TchError> {
        let (user, item) = (pairs.f_select(1, 0)?, pairs.f_select(1, 1)?);
        let factors = self.factors_of_user.forward(&user)?.f_mul(&self.factors_of_item.forward(&item)?)?;
        Tensor::f_cat(&[factors, self.mlp_of_user.forward(&user)?, self.mlp_of_item.forward(&item)?], 1)
    }
}

/// Passes the products of factors by and runs the rest of the row through its layers.
struct Mlp {
    layers: Vec<Linear>,
    factors: i64,
    width: i64,
}

impl Block for Mlp {
    fn forward(&self, row: &Tensor) -> Result<Tensor, TchError> {
        let factors = row.f_narrow(1, 0, self.factors)?;
        let start = row.f_narrow(1, self.factors, self.width)?;
        let end = self.layers.iter().try_fold(start, |x, layer| relu_in_place(layer.forward(&x)?))?;
        Tensor::f_cat(&[factors, end], 1)
    }
}

struct Prediction {
    layer: Linear,
}

impl Block for Prediction {
    fn forward(&self, row: &Tensor) -> Result<Tensor, TchError> {
        self.layer.forward(row)?.f_flatten(0, 1)
    }
}
