//! The language of synthetic texts.

use std::iter::repeat_with;

use fastrand::Rng;

/// A Markov chain in which each word has four successors. The k-th most frequent one has a probability
/// proportional to 1/k (Zipf's law). A model can first learn the frequencies, then the successors.
pub(super) struct Language {
    words: u32,
    successors: Vec<u32>,
}

const SUCCESSORS: usize = 4;

impl Language {
    /// A language of the words 0 to `words` - 1, the frequent ones first.
    pub(super) fn new(rng: &mut Rng, words: u32) -> Self {
        let mut language = Self { words, successors: Vec::new() };
        language.successors = repeat_with(|| language.any(rng)).take(words as usize * SUCCESSORS).collect();
        language
    }

    /// A random word by its frequency in texts.
    pub(super) fn any(&self, rng: &mut Rng) -> u32 {
        (f64::from(self.words).powf(rng.f64()) as u32 - 1).min(self.words - 1)
    }

    /// A random successor of a word.
    pub(super) fn after(&self, rng: &mut Rng, word: u32) -> u32 {
        self.successors[word as usize * SUCCESSORS + rng.usize(..SUCCESSORS)]
    }
}

/// Special tokens. Words are numbered from [`FIRST_WORD`] on.
pub(super) mod special {
    /// The token before the first one of a decoder. It occurs in no text, like 1, which is padding to some
    /// models.
    pub(in super::super) const NOTHING: i64 = 0;
    pub(in super::super) const START: i64 = 2;
    /// The end of a sentence.
    pub(in super::super) const END: i64 = 3;
    /// Replaces a token that the model has to predict.
    pub(in super::super) const MASK: i64 = 4;
    pub(in super::super) const FIRST_WORD: u32 = 5;
}

/// Texts as tokens.
pub(super) struct Text {
    language: Language,
}

impl Text {
    /// A vocabulary that words share with special tokens, `others` of which are at its end.
    pub(super) fn new(rng: &mut Rng, vocabulary: u32, others: u32) -> Self {
        Self { language: Language::new(rng, vocabulary - special::FIRST_WORD - others) }
    }

    /// The next `length` words after the last of `before`, or after a random word.
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

    /// The token of a random word, uniformly distributed.
    pub(super) fn any_word(&self, rng: &mut Rng) -> i64 {
        i64::from(rng.u32(..self.language.words) + special::FIRST_WORD)
    }
}
