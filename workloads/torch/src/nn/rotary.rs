//! Rotary position embedding.

use tch::{Device, Kind, TchError, Tensor};

use super::parameters::Scope;

/// Turns pairs of numbers of queries and keys by an angle that grows with their position (Su et al., 2021), so that
/// their products tell how far apart they stand.
///
/// As in Hugging Face's models a number's partner stands half a head further on, and not beside it as in the paper.
pub struct Rotary {
    /// `[tokens, head]`
    cosines: Tensor,
    /// `[tokens, head]`, the first half negated: with it, partners need only change places.
    sines: Tensor,
}

impl Rotary {
    /// For heads of `head` numbers, which must be even, and sequences of `tokens`.
    ///
    /// # Errors
    /// Out of memory.
    pub fn new(scope: &mut Scope<'_>, tokens: i64, head: i64) -> Result<Self, TchError> {
        const BASE: f64 = 10_000.0;
        let options = (Kind::Double, Device::Cpu);
        // Pair number i turns by BASE^(-2i / head) from one position to the next.
        let exponents = Tensor::f_arange(head / 2, options)?.f_mul_scalar(-2.0 / head as f64)?;
        let speeds = exponents.f_mul_scalar(BASE.ln())?.f_exp()?;
        let angles = Tensor::f_arange(tokens, options)?.f_outer(&speeds)?;
        let (cosines, sines) = (angles.f_cos()?, angles.f_sin()?);
        let mut table = |first, second| scope.table(&Tensor::f_cat(&[first, second], 1)?);
        Ok(Self { cosines: table(cosines.shallow_clone(), cosines)?, sines: table(sines.f_neg()?, sines)? })
    }

    /// One that shares the tables.
    pub fn shallow_clone(&self) -> Self {
        Self { cosines: self.cosines.shallow_clone(), sines: self.sines.shallow_clone() }
    }

    /// Takes and gives `[samples, heads, tokens, head]`.
    ///
    /// # Errors
    /// Out of memory.
    pub fn turn(&self, heads: &Tensor) -> Result<Tensor, TchError> {
        let halves = heads.f_chunk(2, -1)?;
        let [first, second] = halves.as_slice() else { unreachable!("a head is even") };
        let partners = Tensor::f_cat(&[second, first], -1)?;
        heads.f_mul(&self.cosines)?.f_addcmul(&partners, &self.sines)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nn::parameters::Parameters;

    #[test]
    fn products_depend_on_distances_alone() {
        let (tokens, head) = (12, 8);
        let rotary = Rotary::new(&mut Parameters::new(Device::Cpu).root(), tokens, head).unwrap();
        // No random numbers: tests run side by side in one process and would draw from the same generator.
        let vector = |rate: f64| {
            let numbers = (Tensor::arange(head, tch::kind::FLOAT_CPU) * rate).sin();
            numbers.view([1, 1, 1, head]).expand([1, 1, tokens, head], false)
        };
        let (query, key) = (rotary.turn(&vector(0.7)).unwrap(), rotary.turn(&vector(1.3)).unwrap());
        let at = |i: i64, j: i64| (query.select(2, i) * key.select(2, j)).sum(Kind::Float).double_value(&[]);
        for distance in 0..tokens {
            for i in distance..tokens {
                assert!((at(i, i - distance) - at(distance, 0)).abs() < 1e-5);
            }
        }
        assert!((at(5, 0) - at(0, 0)).abs() > 1e-3, "and they do depend on them");
    }
}
