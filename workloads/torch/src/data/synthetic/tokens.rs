//! Sequences of tokens.

use std::iter::repeat_with;

use fastrand::Rng;
use tch::Tensor;

use super::{Pairs, pool_samples};

/// Sequences from a Markov chain in which each token has but four successors, drawn like words of a language: the k-th
/// most frequent with a probability proportional to 1/k (Zipf's law). First the frequencies can be learnt, then the
/// successors.
///
/// Gives tokens `[samples, context]` and, for each, the token that follows.
pub(super) fn markov_chain(rng: &mut Rng, vocabulary: u32, context: u32) -> Pairs {
    const SUCCESSORS: usize = 4;
    let zipf = |rng: &mut Rng| (f64::from(vocabulary).powf(rng.f64()) as u32 - 1).min(vocabulary - 1);
    let successors: Vec<u32> = repeat_with(|| zipf(rng)).take(vocabulary as usize * SUCCESSORS).collect();

    let length = context as usize;
    let samples = pool_samples(2 * length * size_of::<i64>());
    let (mut inputs, mut targets) = (Vec::new(), Vec::new());
    let mut token = zipf(rng);
    for _ in 0..samples * length {
        inputs.push(i64::from(token));
        token = successors[token as usize * SUCCESSORS + rng.usize(..SUCCESSORS)];
        targets.push(i64::from(token));
    }
    let shape = [samples as i64, i64::from(context)];
    Ok((Tensor::f_from_slice(&inputs)?.f_reshape(shape)?, Tensor::f_from_slice(&targets)?.f_reshape(shape)?))
}

#[cfg(test)]
mod tests {
    use tch::Tensor;

    use super::super::tests::{range, samples};

    #[test]
    fn each_token_has_at_most_four_successors_and_small_numbers_are_frequent() {
        let batch = samples("gpt2-mini", 1);
        let tokens = |tensor: &Tensor| Vec::<i64>::try_from(tensor.flatten(0, -1)).unwrap();
        let (inputs, targets) = (tokens(&batch.inputs), tokens(&batch.targets));
        assert_eq!(inputs[1..], targets[..targets.len() - 1], "a target is the input that follows");
        let mut successors = std::collections::BTreeMap::<_, std::collections::BTreeSet<_>>::new();
        for (input, target) in inputs.iter().zip(&targets) {
            successors.entry(input).or_default().insert(target);
        }
        assert!(successors.values().all(|set| set.len() <= 4));
        let (low, high) = range(&batch.inputs);
        assert!(low == 0.0 && high < 512.0 && successors.len() > 50);
        let frequent = inputs.iter().filter(|&&token| token < 16).count();
        assert!((0.3..0.7).contains(&(frequent as f64 / inputs.len() as f64)), "4 of 9 octaves");
    }
}
