//! Relative positions as T5 has them: a number for each head and distance that is added to the scores of attention.

use tch::{Device, Kind, TchError, Tensor};

use super::{dense::Embedding, init::Init, parameters::Scope};
use crate::workload::Block;

/// Distances fall into buckets: one each for small distances, and increasingly wide ones for larger
/// distances (Raffel et al., JMLR 2020, section 2.1). Each head learns a bias for each bucket.
pub struct RelativeBias {
    embedding: Embedding,
    /// The bucket of each pair of a query and a key: `[tokens, tokens]`. It is constant and computed once.
    buckets: Tensor,
    /// True if a key comes after its query; `None` for an encoder, where every token sees all others.
    future: Option<Tensor>,
}

const BUCKETS: i64 = 32;
/// Distances from here on share a bucket.
const FARTHEST: f64 = 128.0;

impl RelativeBias {
    /// For `tokens` that see all others, or but themselves and those before them where `causal`.
    ///
    /// # Errors
    /// Out of memory.
    pub fn new(
        mut scope: Scope<'_>,
        heads: i64,
        init: Init,
        tokens: i64,
        causal: bool,
    ) -> Result<Self, TchError> {
        let future = if causal {
            Some(scope.table(&Tensor::f_ones([tokens, tokens], (Kind::Bool, Device::Cpu))?.f_triu(1)?)?)
        } else {
            None
        };
        let buckets = scope.table(&buckets(tokens, causal)?)?;
        Ok(Self {
            embedding: Embedding::column_parallel(scope, [BUCKETS, heads], init, heads)?,
            buckets,
            future,
        })
    }

    /// The numbers that all layers of a stack add to the scores of this rank's heads: `[1, heads, tokens, tokens]`.
    ///
    /// # Errors
    /// Out of memory.
    pub fn forward(&self) -> Result<Tensor, TchError> {
        let bias = self.embedding.forward(&self.buckets)?.f_permute([2, 0, 1])?.f_unsqueeze(0)?;
        match &self.future {
            Some(future) => bias.f_masked_fill(future, f64::NEG_INFINITY)?.f_contiguous(),
            None => bias.f_contiguous(),
        }
    }
}

/// The bucket of each pair, by the operations of Hugging Face's `_relative_position_bucket`, so that roundings agree.
fn buckets(tokens: i64, causal: bool) -> Result<Tensor, TchError> {
    let places = Tensor::f_arange(tokens, (Kind::Int64, Device::Cpu))?;
    // From the query to the key.
    let distance = places.f_unsqueeze(0)?.f_sub(&places.f_unsqueeze(1)?)?;
    let (count, side, distance) = if causal {
        (BUCKETS, distance.f_zeros_like()?, distance.f_neg()?.f_clamp_min(0)?)
    } else {
        // Half of the buckets are for keys behind their queries.
        let side = distance.f_gt(0)?.f_to_kind(Kind::Int64)?.f_mul_scalar(BUCKETS / 2)?;
        (BUCKETS / 2, side, distance.f_abs()?)
    };
    let exact = count / 2;
    let wide = distance
        .f_to_kind(Kind::Float)?
        .f_div_scalar(exact)?
        .f_log()?
        .f_div_scalar((FARTHEST / exact as f64).ln())?
        .f_mul_scalar(count - exact)?
        // The logarithm of distance 0 is infinite, which no integer is; small distances do not use it.
        .f_clamp_min(0)?
        .f_to_kind(Kind::Int64)?
        .f_add_scalar(exact)?
        .f_clamp_max(count - 1)?;
    side.f_add(&distance.f_where_self(&distance.f_lt(exact)?, &wide)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(tokens: i64, causal: bool, query: i64) -> Vec<i64> {
        Vec::try_from(buckets(tokens, causal).unwrap().select(0, query)).unwrap()
    }

    #[test]
    fn near_keys_have_buckets_of_their_own_and_far_ones_share() {
        assert_eq!(row(5, false, 2), [2, 1, 0, 17, 18]);
        assert_eq!(row(5, true, 2), [2, 1, 0, 0, 0], "keys behind their queries are masked anyway");
        // Eight buckets for distances 0 to 7, then eight for 8 to 127 and beyond.
        let far = row(300, false, 0);
        assert_eq!(far[7..13], [23, 24, 24, 24, 24, 25]);
        assert_eq!((far[127], far[128], far[299]), (31, 31, 31));
        assert_eq!(row(300, true, 299)[..2], [31, 31]);
        assert_eq!(row(300, true, 15)[0], 15);
    }
}
