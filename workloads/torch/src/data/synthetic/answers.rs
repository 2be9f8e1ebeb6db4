//! Questions about paragraphs.

use fastrand::Rng;
use tch::Tensor;

use super::{
    Pairs,
    language::{
        Text,
        special::{END, START},
    },
    masked::{lengths, segments},
    pool_samples,
};

/// A question and a paragraph, `[samples, 2, context]` as a pair of sentences, and the first and last token
/// of the answer, `[samples, 2]`. The question ends with the word before the answer. Answers are short and
/// mostly near the start, like those of SQuAD. A model can first learn their positions, then the word that
/// points at them.
pub(super) fn questions(rng: &mut Rng, vocabulary: u32, context: u32) -> Pairs {
    const ANSWER_WORDS_MAX: usize = 4;
    let text = Text::new(rng, vocabulary, 0);
    let samples = pool_samples((2 * context as usize + 2) * size_of::<i64>());
    let (mut inputs, mut targets) = (Vec::new(), Vec::new());
    for _ in 0..samples {
        let (one, other) = lengths(rng, context);
        // Paragraphs are longer than questions.
        let (question_words, paragraph_words) = (one.min(other), one.max(other));
        let mut question = text.go_on(rng, None, question_words);
        let paragraph = text.go_on(rng, None, paragraph_words);
        // The word before the answer, by Zipf's law; an answer has one word or more.
        let places = paragraph_words - 1;
        let pointer = ((places as f64).powf(rng.f64()) as usize - 1).min(places - 1);
        let answer_words = rng.usize(1..=ANSWER_WORDS_MAX.min(paragraph_words - 1 - pointer));
        question[question_words - 1] = paragraph[pointer];
        let first = 1 + question_words + 1 + pointer + 1;
        targets.extend([first as i64, (first + answer_words - 1) as i64]);
        inputs.push(START);
        inputs.extend(question);
        inputs.push(END);
        inputs.extend(paragraph);
        inputs.push(END);
        inputs.extend(segments(question_words, paragraph_words));
    }
    Ok((
        Tensor::f_from_slice(&inputs)?.f_reshape([samples as i64, 2, i64::from(context)])?,
        Tensor::f_from_slice(&targets)?.f_reshape([samples as i64, 2])?,
    ))
}

#[cfg(test)]
mod tests {
    use super::super::tests::samples;

    #[test]
    fn answers_lie_in_the_paragraph_behind_the_word_that_the_question_ends_in() {
        let batch = samples("bert-mini-squad", 1);
        for sample in 0..256 {
            let token = |row, place| batch.inputs.int64_value(&[sample, row, place]);
            let [first, last] = [0, 1].map(|index| batch.targets.int64_value(&[sample, index]));
            assert!(first <= last && last < 63);
            assert_eq!((token(1, first), token(1, last)), (1, 1), "both lie in the second segment");
            let question_end = (0..64).find(|&place| token(1, place) == 1).unwrap() - 2;
            assert_eq!(token(0, question_end), token(0, first - 1));
        }
    }
}
