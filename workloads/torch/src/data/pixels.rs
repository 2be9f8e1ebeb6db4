//! Images as readers make them and as models take them.

use tch::{Device, Kind, TchError, Tensor};

use crate::shim::transfer::to_device;

/// Red, green and blue.
pub(super) const COLOURS: u32 = 3;

/// Converts bytes to the numbers of a model, on the model's device, because bytes are a quarter of the data
/// to move.
pub(super) struct Normalisation {
    /// `[3]`: a pixel of the model is `(byte - centre) * scale`.
    centre: Tensor,
    scale: Tensor,
    device: Device,
}

impl Normalisation {
    /// Normalises images whose colours, from 0 to 1, have this mean and deviation, to mean 0 and deviation
    /// 1.
    pub(super) fn of(mean: [f32; 3], deviation: [f32; 3], device: Device) -> Result<Self, TchError> {
        Self::new(mean.map(|mean| mean * 255.0), deviation.map(|deviation| 1.0 / (deviation * 255.0)), device)
    }

    /// Converts to numbers from -1 to 1, the range of a generator's tanh.
    pub(super) fn to_tanh(device: Device) -> Result<Self, TchError> {
        Self::new([127.5; 3], [1.0 / 127.5; 3], device)
    }

    fn new(centre: [f32; 3], scale: [f32; 3], device: Device) -> Result<Self, TchError> {
        let tensor = |values: [f32; 3]| Tensor::f_from_slice(&values)?.f_to(device);
        Ok(Self { centre: tensor(centre)?, scale: tensor(scale)?, device })
    }

    /// Handles of the tensors that it keeps on the device.
    pub(super) fn tensors(&self) -> Vec<Tensor> {
        [&self.centre, &self.scale].map(Tensor::shallow_clone).into()
    }

    /// `[samples, 3, side, side]`, channels-last, from the bytes of `[samples, side, side, 3]`.
    pub(super) fn images(&self, bytes: &[u8], side: u32) -> Result<Tensor, TchError> {
        let shape = [-1, i64::from(side), i64::from(side), i64::from(COLOURS)];
        let numbers = to_device(Tensor::f_from_slice(bytes)?.f_reshape(shape)?, self.device)?
            .f_totype(Kind::Float)?
            .f_sub_(&self.centre)?
            .f_mul_(&self.scale)?;
        numbers.f_permute([0, 3, 1, 2])
    }
}
