//! Sequences of tokens.

use fastrand::Rng;
use tch::Tensor;

use super::{Pairs, language::Language, pool_samples};

/// Sequences of a language whose words are the whole vocabulary.
///
/// Returns tokens `[samples, context]` and the next token of each.
pub(super) fn markov_chain(rng: &mut Rng, vocabulary: u32, context: u32) -> Pairs {
    let language = Language::new(rng, vocabulary);
    let length = context as usize;
    let samples = pool_samples(2 * length * size_of::<i64>());
    let (mut inputs, mut targets) = (Vec::new(), Vec::new());
    let mut token = language.any(rng);
    for _ in 0..samples * length {
        inputs.push(i64::from(token));
        token = language.after(rng, token);
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
