//! Sentences and their translations.

use fastrand::Rng;
use tch::Tensor;

use super::{
    Pairs,
    language::{
        Text,
        special::{END, FIRST_WORD, START},
    },
    pool_samples,
};

/// Sentences of `source` tokens and their word-by-word translation, which repeats if the target is longer.
///
/// Returns the source followed by the target without its last token, `[samples, source + target]`, and the
/// target, `[samples, target]`.
pub(super) fn translations(rng: &mut Rng, vocabulary: u32, source: u32, target: u32) -> Pairs {
    let text = Text::new(rng, vocabulary, 0);
    // The translation of each word.
    let mut dictionary: Vec<i64> = (FIRST_WORD..vocabulary).map(i64::from).collect();
    rng.shuffle(&mut dictionary);
    let (source, target) = (source as usize, target as usize);
    let samples = pool_samples((source + 2 * target) * size_of::<i64>());
    let (mut inputs, mut targets) = (Vec::new(), Vec::new());
    for _ in 0..samples {
        let words = text.go_on(rng, None, source - 1);
        let meaning = |word: &i64| dictionary[(word - i64::from(FIRST_WORD)) as usize];
        let translated: Vec<i64> = words.iter().cycle().take(target - 1).map(meaning).collect();
        inputs.extend(&words);
        inputs.push(END);
        inputs.push(START);
        inputs.extend(&translated);
        targets.extend(&translated);
        targets.push(END);
    }
    Ok((
        Tensor::f_from_slice(&inputs)?.f_reshape([samples as i64, (source + target) as i64])?,
        Tensor::f_from_slice(&targets)?.f_reshape([samples as i64, target as i64])?,
    ))
}

#[cfg(test)]
mod tests {
    use super::{super::tests::samples, *};

    #[test]
    fn a_word_has_one_translation_and_the_decoder_sees_what_comes_before() {
        let batch = samples("transformer-mini", 1);
        let (source, before) = (batch.inputs.narrow(1, 0, 24), batch.inputs.narrow(1, 24, 20));
        assert_eq!(before.narrow(1, 1, 19), batch.targets.narrow(1, 0, 19));
        assert!(before.select(1, 0).eq(START).all().int64_value(&[]) == 1);
        assert!(source.select(1, 23).eq(END).all().int64_value(&[]) == 1);
        let mut dictionary = std::collections::BTreeMap::new();
        for sample in 0..256 {
            for place in 0..19 {
                let word = source.int64_value(&[sample, place]);
                let meaning = batch.targets.int64_value(&[sample, place]);
                assert_eq!(*dictionary.entry(word).or_insert(meaning), meaning);
            }
        }
        assert!(dictionary.len() > 50);
    }
}
