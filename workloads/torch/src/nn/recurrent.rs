//! Recurrent layers.

use tch::{Cuda, Device, Kind, TchError, Tensor, no_grad};

use super::{flops, init::Init, parameters::Scope};
use crate::{
    shim::{autograd::SuspendedCpuAutocast, meta::zeros_beside},
    workload::Block,
};

const BATCH_FIRST: bool = true;

/// Stacked LSTM layers in one fused call, as `torch.nn.LSTM(.., batch_first=True)`, starting from a zero state.
///
/// Takes `[samples, time, inputs]` and gives the hidden states of the last layer, `[samples, time, width]`.
pub struct Lstm {
    /// For each layer: input weight, recurrent weight and their biases, as the fused call wants them.
    weights: Vec<Tensor>,
    layers: i64,
    width: i64,
    dropout: f64,
    bidirectional: bool,
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
        let mut weights = Vec::new();
        for layer in 0..layers {
            let inputs = if layer == 0 { inputs } else { width };
            weights.extend(Self::layer(&mut scope, &format!("l{layer}"), inputs, width)?);
        }
        let layer = Self { weights, layers, width, dropout, bidirectional: false };
        layer.join_weights(inputs)?;
        Ok(layer)
    }

    /// One layer that also reads each sequence backwards. Gives `[samples, time, 2 * width]`: forwards, then backwards.
    ///
    /// # Errors
    /// Out of memory.
    pub fn bidirectional(mut scope: Scope<'_>, inputs: i64, width: i64) -> Result<Self, TchError> {
        let mut weights = Vec::from(Self::layer(&mut scope, "l0", inputs, width)?);
        weights.extend(Self::layer(&mut scope, "l0_reverse", inputs, width)?);
        let layer = Self { weights, layers: 1, width, dropout: 0.0, bidirectional: true };
        layer.join_weights(inputs)?;
        Ok(layer)
    }

    /// What one layer learns in one direction.
    fn layer(scope: &mut Scope<'_>, name: &str, inputs: i64, width: i64) -> Result<[Tensor; 4], TchError> {
        let init = Init::fan_in(width);
        // The four gates lie one below the other: input, forget, cell, output.
        let gates = 4 * width;
        Ok([
            scope.parameter(&format!("weight_ih_{name}"), &[gates, inputs], init)?,
            scope.parameter(&format!("weight_hh_{name}"), &[gates, width], init)?,
            scope.parameter(&format!("bias_ih_{name}"), &[gates], init)?,
            scope.parameter(&format!("bias_hh_{name}"), &[gates], init)?,
        ])
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
                    self.bidirectional,
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
        let in_fp32 = !has_bf16_kernel(input.device());
        let _suspended = in_fp32.then(SuspendedCpuAutocast::enter).transpose()?;
        let input = match input.kind() {
            Kind::BFloat16 if in_fp32 => &input.f_to_kind(Kind::Float)?,
            _ => input,
        };
        let states = self.layers * (1 + i64::from(self.bidirectional));
        let zeros = zeros_beside(input, &[states, samples, self.width])?;
        let (output, _hidden, _cell) = input.f_lstm(
            &[&zeros, &zeros],
            &self.weights.iter().collect::<Vec<_>>(),
            BIASES,
            self.layers,
            self.dropout,
            TRAINING,
            self.bidirectional,
            BATCH_FIRST,
        )?;
        Ok(output)
    }
}

/// Whether there is an LSTM in bf16 for a device. For x86 without AVX-512 oneDNN has none and the call fails, so that the LSTM
/// computes in fp32 there, as autocast does with other operations that have no bf16 kernel.
pub fn has_bf16_kernel(device: Device) -> bool {
    device != Device::Cpu || cpu_has_bf16_kernel()
}

#[cfg(target_arch = "x86_64")]
fn cpu_has_bf16_kernel() -> bool {
    std::arch::is_x86_feature_detected!("avx512bw")
}

#[cfg(not(target_arch = "x86_64"))]
fn cpu_has_bf16_kernel() -> bool {
    true
}
