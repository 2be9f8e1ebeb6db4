//! Amodei et al., ICML 2016.

use serde::{Deserialize, Serialize};

use super::{Family, Features, Samples};

/// Two convolutions of a spectrogram, bidirectional LSTM layers, and one letter per time step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Deepspeech {
    /// Frequencies of a frame of the spectrogram.
    pub frequencies: u32,
    /// Frames of an utterance; the convolutions halve them.
    pub frames: u32,
    /// Number of distinct letters, including the blank.
    pub alphabet: u32,
    /// Letters of an utterance's transcript.
    pub letters: u32,
    /// Channels of the convolutions.
    pub channels: u32,
    /// Number of recurrent layers.
    pub layers: u32,
    pub width: u32,
}

impl Family for Deepspeech {
    fn samples(&self) -> Samples {
        let &Deepspeech { frequencies, frames, alphabet, letters, .. } = self;
        Samples::Utterances { frequencies, frames, alphabet, letters }
    }

    fn features(&self) -> Features {
        // The first convolution halves the frames, rounding up.
        Features::of_sequences(self.layers, self.width, self.frames.div_ceil(2))
    }

    fn links(&self) -> Option<u32> {
        // Two convolutions, the change of layout between them and the recurrent layers, and the head.
        Some(self.layers + 4)
    }

    fn convolves_or_recurs(&self) -> bool {
        true
    }

    fn problem(&self) -> Option<String> {
        let &Deepspeech { frames, alphabet, letters, .. } = self;
        if alphabet < 2 {
            return Some(format!("alphabet {alphabet}: use 2 or more, a blank and a letter"));
        }
        // A letter takes a time step, and one more to separate it from an equal letter before it: two of
        // half the frames.
        (u64::from(frames) < 4 * u64::from(letters))
            .then(|| format!("frames {frames} leave no room for {letters} letters; use 4 frames a letter or more"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_transcript_fits_into_the_frames() {
        let problem = |frames, alphabet, letters| {
            let (frequencies, channels, layers, width) = (9, 1, 1, 1);
            Deepspeech { frequencies, frames, alphabet, letters, channels, layers, width }.problem()
        };
        assert_eq!(problem(8, 2, 2), None);
        assert!(problem(7, 2, 2).unwrap().starts_with("frames 7 leave no room for 2 letters"));
        assert!(problem(8, 1, 2).unwrap().starts_with("alphabet 1: use 2 or more"));
    }
}
