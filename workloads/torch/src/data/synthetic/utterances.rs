//! Spectrograms and their transcripts.

use std::iter::repeat_with;

use fastrand::Rng;
use tch::Tensor;

use super::{Pairs, pool_samples};

/// Letters one after another, each for the same number of frames, as a pattern over the frequencies with
/// noise. Mean and deviation of a spectrogram are about 0 and 1, the usual normalisation of speech. The
/// k-th letter has a probability proportional to 1/k (Zipf's law).
///
/// Returns `[samples, 1, frequencies, frames]` and transcripts `[samples, letters]`, in which letter 0, the
/// blank, does not occur.
pub(super) fn spoken(rng: &mut Rng, [frequencies, frames]: [u32; 2], alphabet: u32, letters: u32) -> Pairs {
    /// Of a value uniform between -1/2 and 1/2, twice, so that their sum has a deviation of one.
    const SCALE: f32 = 2.449_489_7;
    let [height, length, said] = [frequencies, frames, letters].map(|size| size as usize);
    let samples = pool_samples(height * length * size_of::<f32>());
    let patterns: Vec<f32> =
        repeat_with(|| SCALE * (rng.f32() - 0.5)).take(alphabet as usize * height).collect();

    let mut transcripts = Vec::with_capacity(samples * said);
    let mut values = Vec::with_capacity(samples * height * length);
    for _ in 0..samples {
        let start = transcripts.len();
        for _ in 0..said {
            let letter = f64::from(alphabet).powf(rng.f64()) as i64;
            transcripts.push(letter.min(i64::from(alphabet) - 1));
        }
        let transcript = &transcripts[start..];
        for frequency in 0..height {
            for frame in 0..length {
                let letter = transcript[frame * said / length] as usize;
                values.push(patterns[letter * height + frequency] + SCALE * (rng.f32() - 0.5));
            }
        }
    }
    let shape = [samples as i64, 1, i64::from(frequencies), i64::from(frames)];
    let transcripts = Tensor::f_from_slice(&transcripts)?.f_reshape([samples as i64, i64::from(letters)])?;
    Ok((Tensor::f_from_slice(&values)?.f_reshape(shape)?, transcripts))
}

#[cfg(test)]
mod tests {
    use super::super::tests::{range, samples};

    #[test]
    fn spectrograms_are_normalised_and_transcripts_hold_no_blank() {
        let batch = samples("deepspeech2-mini", 1);
        assert_eq!((batch.inputs.size(), batch.targets.size()), (vec![256, 1, 41, 100], vec![256, 10]));
        let (mean, deviation) = (batch.inputs.mean(None), batch.inputs.std(true));
        assert!(mean.double_value(&[]).abs() < 0.1 && (deviation.double_value(&[]) - 1.0).abs() < 0.1);
        assert_eq!(range(&batch.targets), (1.0, 28.0));
    }
}
