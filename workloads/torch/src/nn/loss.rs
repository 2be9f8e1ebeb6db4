//! Losses, as means over the samples of a micro-batch.

use tch::{Kind, Reduction, TchError, Tensor};

/// Cross entropy of `logits`, `[.., classes]`, against the indices of the right classes, `[..]`, in nats.
///
/// Computed in fp32 also where autocast made the logits bf16: the logarithm of a sum over 50,000 classes needs it.
///
/// # Errors
/// Out of memory.
pub fn cross_entropy(logits: &Tensor, classes: &Tensor) -> Result<Tensor, TchError> {
    const IGNORED_CLASS: i64 = -100;
    const LABEL_SMOOTHING: f64 = 0.0;
    let logits = logits.f_totype(Kind::Float)?;
    // The dimensions before the last one are all the same to the loss.
    let (logits, classes) = if logits.dim() > 2 {
        (logits.f_flatten(0, -2)?, classes.f_flatten(0, -1)?)
    } else {
        (logits, classes.shallow_clone())
    };
    logits.f_cross_entropy_loss(&classes, None::<&Tensor>, Reduction::Mean, IGNORED_CLASS, LABEL_SMOOTHING)
}

/// Binary cross entropy of logits against probabilities of the same shape, in nats; in fp32, as above.
///
/// The sigmoid is part of the loss, which is the stable way to compute it and the only one that autocast allows.
///
/// # Errors
/// Out of memory.
pub fn binary_cross_entropy(logits: &Tensor, probabilities: &Tensor) -> Result<Tensor, TchError> {
    logits.f_totype(Kind::Float)?.f_binary_cross_entropy_with_logits(
        probabilities,
        None::<&Tensor>,
        None::<&Tensor>,
        Reduction::Mean,
    )
}
