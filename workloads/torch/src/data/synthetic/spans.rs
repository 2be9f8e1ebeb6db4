//! Texts with spans missing, and the spans.

use fastrand::Rng;
use tch::Tensor;

use super::{
    Pairs,
    language::{
        Text,
        special::{END, NOTHING},
    },
    pool_samples,
};

/// The last tokens of a vocabulary. The k-th from the end replaces the k-th span in the source, and
/// precedes it in the target.
const SENTINELS: u32 = 100;

/// Texts in which each span, three words long on average, is replaced by a sentinel (Raffel et al., 2020,
/// section 3.1.4). If the target is too long for the available sentinels, the spans are longer. With 512
/// and 114 tokens, 15 % of a text of 568 are missing, in 28 spans, as in the paper.
///
/// Returns the source followed by the target shifted by one token, `[samples, source + target]`, and the
/// target, `[samples, target]`.
pub(super) fn spans(rng: &mut Rng, vocabulary: u32, source: u32, target: u32) -> Pairs {
    let text = Text::new(rng, vocabulary, SENTINELS);
    let (source, target) = (source as usize, target as usize);
    let spans = span_count(target);
    let (kept, missing) = (source - 1 - spans, target - 1 - spans);
    let samples = pool_samples((source + 2 * target) * size_of::<i64>());
    let (mut inputs, mut targets) = (Vec::new(), Vec::new());
    for _ in 0..samples {
        let words = text.go_on(rng, None, kept + missing);
        let mut rest = &words[..];
        let mut take = |count| {
            let (taken, left) = rest.split_at(count);
            rest = left;
            taken
        };
        let mut answer = Vec::with_capacity(target);
        let lengths = parts(rng, kept, spans).into_iter().zip(parts(rng, missing, spans));
        for ((kept, missing), sentinel) in lengths.zip((0..i64::from(vocabulary)).rev()) {
            inputs.extend(take(kept));
            inputs.push(sentinel);
            answer.push(sentinel);
            answer.extend(take(missing));
        }
        inputs.push(END);
        answer.push(END);
        inputs.push(NOTHING);
        inputs.extend(&answer[..target - 1]);
        targets.extend(answer);
    }
    Ok((
        Tensor::f_from_slice(&inputs)?.f_reshape([samples as i64, (source + target) as i64])?,
        Tensor::f_from_slice(&targets)?.f_reshape([samples as i64, target as i64])?,
    ))
}

/// All tokens of a target but its end are alternately a sentinel and three words, as nearly as possible.
fn span_count(target: usize) -> usize {
    const SPAN: usize = 1 + 3;
    ((target - 1 + SPAN / 2) / SPAN).min(SENTINELS as usize)
}

/// Cuts `whole` into `count` parts of at least one, with every division equally likely.
fn parts(rng: &mut Rng, whole: usize, count: usize) -> Vec<usize> {
    let mut cuts: Vec<usize> = (1..whole).collect();
    rng.shuffle(&mut cuts);
    cuts.truncate(count - 1);
    cuts.extend([0, whole]);
    cuts.sort_unstable();
    cuts.windows(2).map(|pair| pair[1] - pair[0]).collect()
}

#[cfg(test)]
mod tests {
    use super::{super::tests::samples, *};

    #[test]
    fn source_and_target_together_are_the_whole_text() {
        let batch = samples("t5-mini", 1);
        let tokens = |tensor: Tensor| Vec::<i64>::try_from(tensor).unwrap();
        for sample in 0..256 {
            let input = tokens(batch.inputs.select(0, sample));
            let target = tokens(batch.targets.select(0, sample));
            let (source, before) = input.split_at(64);
            assert_eq!((before[0], &before[1..]), (NOTHING, &target[..17]));
            let sentinels = |tokens: &[i64]| tokens.iter().copied().filter(|&t| t >= 412).collect::<Vec<_>>();
            assert_eq!(sentinels(source), [511, 510, 509, 508], "17 tokens hold 4 sentinels and 13 words");
            assert_eq!(sentinels(&target), sentinels(source));
            assert_eq!((source[63], target[17]), (END, END));
            assert!(target[..17].windows(2).all(|pair| pair[0] < 412 || pair[1] < 412), "no span is empty");
        }
    }

    #[test]
    fn a_text_of_the_paper_misses_fifteen_percent_in_spans_of_three() {
        let spans = span_count(114);
        let (kept, missing) = (512 - 1 - spans, 114 - 1 - spans);
        assert_eq!((spans, missing, kept + missing), (28, 85, 568));
        assert_eq!(span_count(768), 100);
    }
}
