//! What synthetic texts are drawn from.

use std::iter::repeat_with;

use fastrand::Rng;

/// A Markov chain in which each word has but four successors, drawn like words of a language: the k-th most frequent with
/// a probability proportional to 1/k (Zipf's law). First the frequencies can be learnt, then the successors.
pub(super) struct Language {
    words: u32,
    successors: Vec<u32>,
}

const SUCCESSORS: usize = 4;

impl Language {
    /// Of words 0 to `words` - 1, the frequent ones first.
    pub(super) fn new(rng: &mut Rng, words: u32) -> Self {
        let mut language = Self { words, successors: Vec::new() };
        language.successors = repeat_with(|| language.any(rng)).take(words as usize * SUCCESSORS).collect();
        language
    }

    /// A word as frequent as it is in texts.
    pub(super) fn any(&self, rng: &mut Rng) -> u32 {
        (f64::from(self.words).powf(rng.f64()) as u32 - 1).min(self.words - 1)
    }

    /// A word that follows another.
    pub(super) fn after(&self, rng: &mut Rng, word: u32) -> u32 {
        self.successors[word as usize * SUCCESSORS + rng.usize(..SUCCESSORS)]
    }
}

/// What stands in a text beside words; words are numbered from [`FIRST_WORD`] on.
pub(super) mod special {
    /// Before the first token that a decoder is to give. No text holds it, and none holds 1, which is padding to some.
    pub(in super::super) const NOTHING: i64 = 0;
    pub(in super::super) const START: i64 = 2;
    /// Of a sentence.
    pub(in super::super) const END: i64 = 3;
    /// In place of a token to be found out.
    pub(in super::super) const MASK: i64 = 4;
    pub(in super::super) const FIRST_WORD: u32 = 5;
}

/// Texts as tokens.
pub(super) struct Text {
    language: Language,
}

impl Text {
    /// Of a vocabulary that the words share with special tokens, `others` of which stand at its end.
    pub(super) fn new(rng: &mut Rng, vocabulary: u32, others: u32) -> Self {
        Self { language: Language::new(rng, vocabulary - special::FIRST_WORD - others) }
    }

    /// The next `length` words after the last of `before`, or after any.
    pub(super) fn go_on(&self, rng: &mut Rng, before: Option<i64>, length: usize) -> Vec<i64> {
        let mut word = match before {
            Some(token) => (token - i64::from(special::FIRST_WORD)) as u32,
            None => self.language.any(rng),
        };
        repeat_with(|| {
            word = self.language.after(rng, word);
            i64::from(word + special::FIRST_WORD)
        })
        .take(length)
        .collect()
    }

    /// A token of a word, all of them alike.
    pub(super) fn any_word(&self, rng: &mut Rng) -> i64 {
        i64::from(rng.u32(..self.language.words) + special::FIRST_WORD)
    }
}
