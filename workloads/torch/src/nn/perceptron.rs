//! Multi-layer perceptrons.

use tch::{Kind, TchError, Tensor};

use super::{dense::Linear, parameters::Scope};
use crate::workload::Block;

/// Linear layers with an activation between each two and none after the last.
pub struct Perceptron {
    layers: Vec<Linear>,
    /// May overwrite its argument, which no linear layer keeps.
    activation: fn(Tensor) -> Result<Tensor, TchError>,
}

impl Perceptron {
    /// `layers` must hold at least one.
    pub fn new(layers: Vec<Linear>, activation: fn(Tensor) -> Result<Tensor, TchError>) -> Self {
        assert!(!layers.is_empty(), "a perceptron has at least one layer");
        Self { layers, activation }
    }

    /// Layers between each two neighbours of `widths`, with PyTorch's own initial values, under the names of a
    /// `torch.nn.Sequential` in which activations count: `0`, `2`, `4`.
    ///
    /// # Errors
    /// Out of memory.
    pub fn sequential(
        mut scope: Scope<'_>,
        widths: &[i64],
        activation: fn(Tensor) -> Result<Tensor, TchError>,
    ) -> Result<Self, TchError> {
        let layers = widths
            .windows(2)
            .enumerate()
            .map(|(index, pair)| Linear::new(scope.part(2 * index), pair[0], pair[1]))
            .collect::<Result<_, _>>()?;
        Ok(Self::new(layers, activation))
    }

    /// The kind of numbers that it computes with.
    pub fn kind(&self) -> Kind {
        self.layers.first().expect("`new` refuses an empty list").kind()
    }

    /// One of the same values that is not trained: its tensors are buffers, under the names of
    /// [`Perceptron::sequential`].
    ///
    /// # Errors
    /// Out of memory.
    pub fn frozen(&self, mut scope: Scope<'_>) -> Result<Self, TchError> {
        let layers = self.layers.iter().enumerate();
        let layers =
            layers.map(|(index, layer)| layer.frozen(scope.part(2 * index))).collect::<Result<_, _>>()?;
        Ok(Self { layers, activation: self.activation })
    }

    /// Moves one that [`Perceptron::frozen`] made towards `leader` by a share of what lies between them; a share of 1
    /// makes it equal. Moving so after each update is Polyak's averaging.
    ///
    /// # Errors
    /// None is known; libtorch reserves the right.
    pub fn follow(&self, leader: &Self, share: f64) -> Result<(), TchError> {
        self.layers.iter().zip(&leader.layers).try_for_each(|(layer, leader)| layer.follow(leader, share))
    }
}

impl Block for Perceptron {
    fn forward(&self, input: &Tensor) -> Result<Tensor, TchError> {
        let (first, rest) = self.layers.split_first().expect("`new` refuses an empty list");
        rest.iter().try_fold(first.forward(input)?, |x, layer| layer.forward(&(self.activation)(x)?))
    }
}

#[cfg(test)]
mod tests {
    use tch::Device;

    use super::*;
    use crate::nn::{parameters::Parameters, relu_in_place};

    #[test]
    fn a_frozen_copy_begins_equal_is_not_trained_and_follows_by_a_share() {
        let mut parameters = Parameters::new(Device::Cpu);
        let leader =
            Perceptron::sequential(parameters.root().part("net"), &[3, 5, 2], relu_in_place).unwrap();
        let follower = leader.frozen(parameters.root().part("target")).unwrap();
        let names: Vec<_> = parameters.state().map(|entry| entry.name().to_owned()).collect();
        assert_eq!(names[..4], ["net.0.weight", "net.0.bias", "net.2.weight", "net.2.bias"]);
        assert_eq!(names[4..6], ["target.0.weight", "target.0.bias"]);
        assert_eq!(parameters.count(), 3 * 5 + 5 + 5 * 2 + 2);

        let input = Tensor::arange(6, (Kind::Float, Device::Cpu)).view([2, 3]) - 2.5;
        let outputs = || [&leader, &follower].map(|net| net.forward(&input).unwrap().detach());
        let [ours, theirs] = outputs();
        assert_eq!(ours, theirs);

        let bias =
            |name| parameters.state().find(|entry| entry.name() == name).unwrap().tensor().shallow_clone();
        let (leading, following) = (bias("net.2.bias"), bias("target.2.bias"));
        let start = following.copy();
        let _ = tch::no_grad(|| leading.shallow_clone().g_add_scalar_(8.0));
        follower.follow(&leader, 0.25).unwrap();
        assert!((&following - &start - 2.0).abs().max().double_value(&[]) < 1e-6);
        follower.follow(&leader, 1.0).unwrap();
        let [ours, theirs] = outputs();
        assert_eq!(ours, theirs);
        assert!(!following.requires_grad());
    }
}
