//! Texts in which tokens are masked.

use fastrand::Rng;
use tch::Tensor;

use super::{
    Pairs,
    language::{
        Text,
        special::{END, FIRST_WORD, MASK, START},
    },
    pool_samples,
};
use crate::nn::loss::NO_CLASS;

/// Pairs of sentences, `[samples, 2, context]`: the tokens, and the sentence of each. The targets are the
/// masked tokens and, in an extra column, 0 if the second sentence continues the first and 1 if not, each
/// in half of the cases: `[samples, context + 1]`.
pub(super) fn pairs(rng: &mut Rng, vocabulary: u32, context: u32) -> Pairs {
    let text = Text::new(rng, vocabulary, 0);
    let samples = pool_samples((3 * context as usize + 1) * size_of::<i64>());
    let (mut inputs, mut targets) = (Vec::new(), Vec::new());
    for _ in 0..samples {
        let (first, second) = lengths(rng, context);
        let mut tokens = vec![START];
        tokens.extend(text.go_on(rng, None, first));
        let is_other = rng.bool();
        let before = if is_other { None } else { tokens.last().copied() };
        tokens.push(END);
        tokens.extend(text.go_on(rng, before, second));
        tokens.push(END);
        let masked = mask(rng, &text, &mut tokens);
        inputs.extend(tokens);
        inputs.extend(segments(first, second));
        targets.extend(masked);
        targets.push(i64::from(is_other));
    }
    let shape = |sizes: &[i64]| [&[samples as i64], sizes].concat();
    let context = i64::from(context);
    Ok((
        Tensor::f_from_slice(&inputs)?.f_reshape(shape(&[2, context]))?,
        Tensor::f_from_slice(&targets)?.f_reshape(shape(&[context + 1]))?,
    ))
}

/// Single texts, `[samples, context]`, and the masked tokens, `[samples, context]`.
pub(super) fn texts(rng: &mut Rng, vocabulary: u32, context: u32) -> Pairs {
    let text = Text::new(rng, vocabulary, 0);
    let samples = pool_samples(2 * context as usize * size_of::<i64>());
    let (mut inputs, mut targets) = (Vec::new(), Vec::new());
    for _ in 0..samples {
        let mut tokens = vec![START];
        tokens.extend(text.go_on(rng, None, context as usize - 2));
        tokens.push(END);
        targets.extend(mask(rng, &text, &mut tokens));
        inputs.extend(tokens);
    }
    let shape = [samples as i64, i64::from(context)];
    Ok((Tensor::f_from_slice(&inputs)?.f_reshape(shape)?, Tensor::f_from_slice(&targets)?.f_reshape(shape)?))
}

/// The lengths of two sentences that fill a context with a start and two ends; each is at least a quarter
/// of the words.
pub(super) fn lengths(rng: &mut Rng, context: u32) -> (usize, usize) {
    let words = context as usize - 3;
    let first = rng.usize(words / 4..=words - words / 4).clamp(1, words - 1);
    (first, words - first)
}

/// The sentence of each token of a pair. The start and the first end belong to the first sentence.
pub(super) fn segments(first: usize, second: usize) -> impl Iterator<Item = i64> {
    std::iter::repeat_n(0, first + 2).chain(std::iter::repeat_n(1, second + 1))
}

/// Masks 15 % of the words: of ten, eight become the mask, one becomes a random word, and one stays (Devlin
/// et al., 2019, section 3.1). Returns the original words, and no class elsewhere.
fn mask(rng: &mut Rng, text: &Text, tokens: &mut [i64]) -> Vec<i64> {
    let mut words: Vec<usize> =
        (0..tokens.len()).filter(|&place| tokens[place] >= i64::from(FIRST_WORD)).collect();
    // The number is the same in each sample, so that a mean over samples is one over masked words.
    let count = (tokens.len() * 15).div_ceil(100).min(words.len());
    rng.shuffle(&mut words);
    let mut masked = vec![NO_CLASS; tokens.len()];
    for &place in &words[..count] {
        masked[place] = tokens[place];
        tokens[place] = match rng.u32(..10) {
            0..8 => MASK,
            8 => text.any_word(rng),
            _ => tokens[place],
        };
    }
    masked
}

#[cfg(test)]
mod tests {
    use super::{super::tests::samples, *};

    #[test]
    fn fifteen_percent_of_the_tokens_are_masked_as_the_paper_says() {
        for name in ["bert-mini", "roberta-mini"] {
            let batch = samples(name, 1);
            let tokens = if batch.inputs.dim() == 3 { batch.inputs.select(1, 0) } else { batch.inputs };
            let targets = batch.targets.narrow(1, 0, 64);
            let chosen = targets.not_equal(NO_CLASS);
            let share = |what: &Tensor| what.to_kind(tch::Kind::Float).mean(None).double_value(&[]);
            assert_eq!(share(&chosen), 10.0 / 64.0, "{name}: 15 % of 64, rounded up");
            let among = |what: &Tensor| share(&what.logical_and(&chosen)) / share(&chosen);
            assert!((among(&tokens.eq(MASK)) - 0.8).abs() < 0.03, "{name}");
            let kept = among(&tokens.eq_tensor(&targets));
            assert!((kept - 0.1).abs() < 0.03, "{name}: {kept}");
            assert_eq!(share(&tokens.eq(MASK).logical_and(&chosen.logical_not())), 0.0, "{name}");
            assert_eq!(share(&targets.lt(i64::from(FIRST_WORD)).logical_and(&chosen)), 0.0, "{name}");
        }
    }

    #[test]
    fn pairs_have_a_start_two_ends_and_a_second_sentence_that_follows_in_half_of_them() {
        let batch = samples("bert-mini", 1);
        let (tokens, segments) = (batch.inputs.select(1, 0), batch.inputs.select(1, 1));
        let count = |what: Tensor| what.sum_dim_intlist([1].as_slice(), false, tch::Kind::Int64);
        assert_eq!(count(tokens.eq(START)), Tensor::ones([256], tch::kind::INT64_CPU));
        assert_eq!(count(tokens.eq(END)), Tensor::ones([256], tch::kind::INT64_CPU) * 2);
        let second = count(segments.shallow_clone());
        assert!(second.min().int64_value(&[]) >= 15 && second.max().int64_value(&[]) <= 48);
        let other = batch.targets.select(1, 64).to_kind(tch::Kind::Float).mean(None).double_value(&[]);
        assert!((other - 0.5).abs() < 0.1, "{other}");
    }
}
