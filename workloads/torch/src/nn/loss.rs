//! Losses, as means over the samples of a micro-batch.

use tch::{Kind, Reduction, TchError, Tensor};

use super::{precision::at_least_fp32, tensor_parallel::TensorParallel};
use crate::workload::Criterion;

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
    let (logits, classes) = flat(&at_least_fp32(logits)?, classes)?;
    logits.f_cross_entropy_loss(&classes, None::<&Tensor>, Reduction::Mean, NO_CLASS, smoothing)
}

/// As [`smoothed_cross_entropy`], where tensor-parallel ranks divide the `count` classes, so that each has the logits of
/// its own: the vocabulary-parallel loss of Shoeybi et al., "Megatron-LM", 2019, section 3. The loss is the same on all
/// ranks.
///
/// # Errors
/// Out of memory, or another rank has gone.
pub fn divided_cross_entropy(
    logits: &Tensor,
    classes: &Tensor,
    smoothing: f64,
    count: i64,
    ranks: &TensorParallel,
) -> Result<Tensor, TchError> {
    if ranks.is_alone() {
        return smoothed_cross_entropy(logits, classes, smoothing);
    }
    let (logits, classes) = flat(&at_least_fp32(logits)?, classes)?;
    let own = ranks.share(count);
    let largest = ranks.maximum(&logits.f_amax([-1], true)?)?;
    let shifted = logits.f_sub(&largest)?;
    let normaliser = ranks.leave(shifted.f_exp()?.f_sum_dim_intlist(-1, false, None)?)?.f_log()?;
    // The logit of the right class is another rank's, or this one's; the others add zero to it.
    let is_elsewhere = classes.f_lt(own.start)?.f_bitwise_or_tensor(&classes.f_ge(own.end)?)?;
    let index = classes.f_sub_scalar(own.start)?.f_masked_fill(&is_elsewhere, 0)?.f_unsqueeze(-1)?;
    let found = shifted.f_gather(-1, &index, false)?.f_squeeze_dim(-1)?;
    let right = ranks.leave(found.f_masked_fill(&is_elsewhere, 0.0)?)?;
    let is_ignored = classes.f_eq(NO_CLASS)?;
    let used = is_ignored.f_bitwise_not()?.f_sum(Kind::Int64)?;
    let mean = |nats: Tensor| nats.f_masked_fill(&is_ignored, 0.0)?.f_sum(None)?.f_div(&used);
    let of_right = mean(normaliser.f_sub(&right)?)?;
    if smoothing == 0.0 {
        return Ok(of_right);
    }
    let sum = ranks.leave(shifted.f_sum_dim_intlist(-1, false, None)?)?;
    let of_all = mean(normaliser.f_sub(&sum.f_div_scalar(count)?)?)?;
    of_right.f_mul_scalar(1.0 - smoothing)?.f_add(&of_all.f_mul_scalar(smoothing)?)
}

/// The criterion of a model whose only output are logits of `count` classes: [`divided_cross_entropy`].
pub fn of_vocabulary(count: i64, smoothing: f64, ranks: TensorParallel) -> Criterion {
    Box::new(move |outputs, classes| {
        let [logits] = outputs else { unreachable!("such a model gives logits alone") };
        divided_cross_entropy(logits, classes, smoothing, count, &ranks)
    })
}

/// The loss does not distinguish between the dimensions before the last one.
fn flat(logits: &Tensor, classes: &Tensor) -> Result<(Tensor, Tensor), TchError> {
    if logits.dim() > 2 {
        Ok((logits.f_flatten(0, -2)?, classes.f_flatten(0, -1)?))
    } else {
        Ok((logits.shallow_clone(), classes.shallow_clone()))
    }
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
