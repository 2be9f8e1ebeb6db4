//! Recurrent layers.

use tch::{Cuda, TchError, Tensor, no_grad};

use super::{flops, init::Init, parameters::Scope};
use crate::{shim::meta::zeros_beside, workload::Block};

const BATCH_FIRST: bool = true;
const BIDIRECTIONAL: bool = false;

/// Stacked LSTM layers in one fused call, as `torch.nn.LSTM(.., batch_first=True)`, starting from a zero state.
///
/// Takes `[samples, time, inputs]` and gives the hidden states of the last layer, `[samples, time, width]`.
pub struct Lstm {
    /// For each layer: input weight, recurrent weight and their biases, as the fused call wants them.
    weights: Vec<Tensor>,
    layers: i64,
    width: i64,
    dropout: f64,
}

impl Lstm {
    /// `dropout` acts between the layers, in training only.
    ///
    /// # Errors
    /// Out of memory.
    pub fn new(
        mut scope: Scope<'_>,
        inputs: i64,
        width: i64,
        layers: i64,
        dropout: f64,
    ) -> Result<Self, TchError> {
        let init = Init::fan_in(width);
        // The four gates lie one below the other: input, forget, cell, output.
        let gates = 4 * width;
        let mut weights = Vec::new();
        for layer in 0..layers {
            let inputs = if layer == 0 { inputs } else { width };
            weights.push(scope.parameter(&format!("weight_ih_l{layer}"), &[gates, inputs], init)?);
            weights.push(scope.parameter(&format!("weight_hh_l{layer}"), &[gates, width], init)?);
            weights.push(scope.parameter(&format!("bias_ih_l{layer}"), &[gates], init)?);
            weights.push(scope.parameter(&format!("bias_hh_l{layer}"), &[gates], init)?);
        }
        let layer = Self { weights, layers, width, dropout };
        layer.join_weights(inputs)?;
        Ok(layer)
    }

    /// Lets the weights lie in one buffer, in which cuDNN wants them and would else copy them at every call, as
    /// `torch.nn.LSTM.flatten_parameters` does. They stay the same parameters.
    fn join_weights(&self, inputs: i64) -> Result<(), TchError> {
        const WEIGHTS_A_LAYER: i64 = 4;
        const LSTM: i64 = 2;
        const NO_PROJECTION: i64 = 0;
        let device = self.weights.first().expect("an LSTM has a layer").device();
        if device.is_cuda() && Cuda::cudnn_is_available() {
            // The weights are views of the buffer from here on and keep it alive.
            let _buffer = no_grad(|| {
                Tensor::f_internal_cudnn_rnn_flatten_weight(
                    &self.weights,
                    WEIGHTS_A_LAYER,
                    inputs,
                    LSTM,
                    self.width,
                    NO_PROJECTION,
                    self.layers,
                    BATCH_FIRST,
                    BIDIRECTIONAL,
                )
            })?;
        }
        Ok(())
    }
}

impl Block for Lstm {
    fn forward(&self, input: &Tensor) -> Result<Tensor, TchError> {
        const BIASES: bool = true;
        const TRAINING: bool = true;
        let (samples, time, _) = input.size3()?;
        flops::add(|| {
            let per_token: usize = self.weights.iter().filter(|w| w.dim() == 2).map(Tensor::numel).sum();
            samples * time * per_token as i64
        });
        let zeros = zeros_beside(input, &[self.layers, samples, self.width])?;
        let (output, _hidden, _cell) = input.f_lstm(
            &[&zeros, &zeros],
            &self.weights.iter().collect::<Vec<_>>(),
            BIASES,
            self.layers,
            self.dropout,
            TRAINING,
            BIDIRECTIONAL,
            BATCH_FIRST,
        )?;
        Ok(output)
    }
}
