//! Precision of numbers for which bf16 is not enough.

use tch::{Kind, TchError, Tensor};

/// In fp32 where autocast made the numbers bf16, and in fp64 where the model computes in that.
///
/// # Errors
/// Out of memory.
pub fn at_least_fp32(numbers: &Tensor) -> Result<Tensor, TchError> {
    match numbers.f_kind()? {
        Kind::Double => Ok(numbers.shallow_clone()),
        _ => numbers.f_totype(Kind::Float),
    }
}

/// In fp64, for a model that computes in that. Tokens, labels and other whole numbers stay what they are.
///
/// # Errors
/// Out of memory.
pub fn in_fp64(numbers: &Tensor) -> Result<Tensor, TchError> {
    if numbers.f_is_floating_point()? { numbers.f_totype(Kind::Double) } else { Ok(numbers.shallow_clone()) }
}

#[cfg(test)]
mod tests {
    use tch::Device;

    use super::*;

    #[test]
    fn numbers_become_more_precise_and_never_less_and_whole_ones_stay() {
        let cases = [
            (Kind::BFloat16, Kind::Float, Kind::Double),
            (Kind::Float, Kind::Float, Kind::Double),
            (Kind::Double, Kind::Double, Kind::Double),
        ];
        for (kind, fp32, fp64) in cases {
            let numbers = Tensor::ones([2], (kind, Device::Cpu));
            assert_eq!(at_least_fp32(&numbers).unwrap().kind(), fp32, "{kind:?}");
            assert_eq!(in_fp64(&numbers).unwrap().kind(), fp64, "{kind:?}");
        }
        assert_eq!(in_fp64(&Tensor::ones([2], tch::kind::INT64_CPU)).unwrap().kind(), Kind::Int64);
    }
}
