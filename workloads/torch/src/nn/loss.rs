//! Losses, as means over the samples of a micro-batch.

use tch::{Reduction, TchError, Tensor};

use super::precision::at_least_fp32;

/// Cross entropy of `logits`, `[.., classes]`, against the indices of the right classes, `[..]`, in nats: the mean over
/// those that are not [`NO_CLASS`].
///
/// Computed in fp32 at least, even if autocast made the logits bf16, because the logarithm of a sum over
/// 50,000 classes needs it.
///
/// # Errors
/// Out of memory.
pub fn cross_entropy(logits: &Tensor, classes: &Tensor) -> Result<Tensor, TchError> {
    const NO_SMOOTHING: f64 = 0.0;
    smoothed_cross_entropy(logits, classes, NO_SMOOTHING)
}

/// Replaces the class if nothing is to be predicted; PyTorch's default.
pub const NO_CLASS: i64 = -100;

/// As [`cross_entropy`], where `smoothing` of the probability is spread over all classes (Szegedy et al., CVPR 2016).
///
/// # Errors
/// Out of memory.
pub fn smoothed_cross_entropy(logits: &Tensor, classes: &Tensor, smoothing: f64) -> Result<Tensor, TchError> {
    let logits = at_least_fp32(logits)?;
    // The loss does not distinguish between the dimensions before the last one.
    let (logits, classes) = if logits.dim() > 2 {
        (logits.f_flatten(0, -2)?, classes.f_flatten(0, -1)?)
    } else {
        (logits, classes.shallow_clone())
    };
    logits.f_cross_entropy_loss(&classes, None::<&Tensor>, Reduction::Mean, NO_CLASS, smoothing)
}

/// Binary cross entropy of logits against probabilities of the same shape, in nats; in fp32, as above.
///
/// The sigmoid is part of the loss, which is the stable way to compute it and the only one that autocast allows.
///
/// # Errors
/// Out of memory.
pub fn binary_cross_entropy(logits: &Tensor, probabilities: &Tensor) -> Result<Tensor, TchError> {
    at_least_fp32(logits)?.f_binary_cross_entropy_with_logits(
        probabilities,
        None::<&Tensor>,
        None::<&Tensor>,
        Reduction::Mean,
    )
}

/// The mean of squared differences; in fp32, as above.
///
/// # Errors
/// Out of memory.
pub fn mean_squared_error(output: &Tensor, targets: &Tensor) -> Result<Tensor, TchError> {
    at_least_fp32(output)?.f_mse_loss(targets, Reduction::Mean)
}

/// The loss of connectionist temporal classification (Graves et al., ICML 2006) of `logits`, `[samples, time, alphabet]`,
/// against transcripts, `[samples, letters]`, in nats for each letter, as `torch.nn.CTCLoss`; in fp32, as above. Letter 0
/// is the blank.
///
/// Every sample is as long as the tensors are, so the lengths are known to the host and never read from a device.
///
/// # Errors
/// Out of memory.
pub fn connectionist_temporal_classification(logits: &Tensor, letters: &Tensor) -> Result<Tensor, TchError> {
    const BLANK: i64 = 0;
    const INFINITIES_ARE_ZERO: bool = false;
    let (samples, time, _) = logits.size3()?;
    let lengths = |length: i64| vec![length; samples as usize];
    let log_probabilities = at_least_fp32(logits)?.f_log_softmax(-1, None)?.f_transpose(0, 1)?;
    Tensor::f_ctc_loss(
        &log_probabilities,
        letters,
        lengths(time),
        lengths(letters.size()[1]),
        BLANK,
        Reduction::Mean,
        INFINITIES_ARE_ZERO,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ctc_is_the_sum_over_all_ways_to_say_a_transcript() {
        let logits = Tensor::arange(2 * 3 * 3, tch::kind::FLOAT_CPU).sin().view([2, 3, 3]);
        let letters = Tensor::from_slice(&[1_i64, 2, 2, 2]).view([2, 2]);
        // All paths of three time steps that become the transcript after removing repetitions, then blanks.
        let ways: [&[[i64; 3]]; 2] = [&[[0, 1, 2], [1, 0, 2], [1, 2, 0], [1, 1, 2], [1, 2, 2]], &[[2, 0, 2]]];
        let probabilities = logits.softmax(-1, None);
        let nats = |sample: usize| {
            let path = |letters: &[i64; 3]| -> f64 {
                (0..3).map(|t| probabilities.double_value(&[sample as i64, t, letters[t as usize]])).product()
            };
            -ways[sample].iter().map(path).sum::<f64>().ln()
        };
        let expected = (nats(0) + nats(1)) / 2.0 / 2.0;
        let loss = connectionist_temporal_classification(&logits, &letters).unwrap().double_value(&[]);
        assert!((loss - expected).abs() < 1e-6, "{loss} for {expected}");
    }
}
