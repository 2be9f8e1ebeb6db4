//! Linear layers and embeddings.

use tch::{Kind, TchError, Tensor};

use super::{flops, init::Init, parameters::Scope};
use crate::workload::Block;

/// `y = x W^T + b` over the last dimension, as `torch.nn.Linear`.
pub struct Linear {
    weight: Tensor,
    bias: Option<Tensor>,
}

impl Linear {
    /// PyTorch's own initial values.
    ///
    /// # Errors
    /// Out of memory.
    pub fn new(mut scope: Scope<'_>, inputs: i64, outputs: i64) -> Result<Self, TchError> {
        let weight = scope.parameter("weight", &[outputs, inputs], Init::fan_in(inputs))?;
        let bias = scope.parameter("bias", &[outputs], Init::fan_in(inputs))?;
        Ok(Self { weight, bias: Some(bias) })
    }

    /// Weights from `init`, biases zero.
    ///
    /// # Errors
    /// Out of memory.
    pub fn with_init(mut scope: Scope<'_>, inputs: i64, outputs: i64, init: Init) -> Result<Self, TchError> {
        let weight = scope.parameter("weight", &[outputs, inputs], init)?;
        let bias = scope.parameter("bias", &[outputs], Init::ZEROS)?;
        Ok(Self { weight, bias: Some(bias) })
    }

    /// Weights from `init`, no biases.
    ///
    /// # Errors
    /// Out of memory.
    pub fn unbiased(mut scope: Scope<'_>, inputs: i64, outputs: i64, init: Init) -> Result<Self, TchError> {
        Ok(Self { weight: scope.parameter("weight", &[outputs, inputs], init)?, bias: None })
    }

    /// A layer whose weight, `[outputs, inputs]`, and bias are registered under names of their own.
    pub fn of(weight: Tensor, bias: Tensor) -> Self {
        Self { weight, bias: Some(bias) }
    }

    /// A layer without bias that shares its weight, `[outputs, inputs]`, with the embedding.
    pub fn tied_to(embedding: &Embedding) -> Self {
        Self { weight: embedding.weight.shallow_clone(), bias: None }
    }

    /// The same with a bias of its own, zero. It stands beside the parts of a head, in the head's own scope.
    ///
    /// # Errors
    /// Out of memory.
    pub fn tied_with_bias(scope: &mut Scope<'_>, embedding: &Embedding) -> Result<Self, TchError> {
        let bias = scope.parameter("bias", &embedding.weight.size()[..1], Init::ZEROS)?;
        Ok(Self { bias: Some(bias), ..Self::tied_to(embedding) })
    }

    /// The kind of numbers that it computes with.
    pub fn kind(&self) -> Kind {
        self.weight.kind()
    }

    /// The width of what it gives.
    pub fn outputs(&self) -> i64 {
        self.weight.size()[0]
    }

    /// A layer of the same values whose tensors are buffers: it is not trained.
    ///
    /// # Errors
    /// Out of memory.
    pub fn frozen(&self, mut scope: Scope<'_>) -> Result<Self, TchError> {
        let mut buffer = |name, tensor: &Tensor| -> Result<Tensor, TchError> {
            let mut buffer = scope.buffer(name, &tensor.size(), 0.0)?;
            buffer.f_copy_(&tensor.detach())?;
            Ok(buffer)
        };
        let weight = buffer("weight", &self.weight)?;
        Ok(Self { weight, bias: self.bias.as_ref().map(|bias| buffer("bias", bias)).transpose()? })
    }

    /// Moves a frozen layer towards `leader`, of the same shape, by a share of what lies between them.
    ///
    /// # Errors
    /// None is known; libtorch reserves the right.
    pub fn follow(&self, leader: &Self, share: f64) -> Result<(), TchError> {
        let tensors = |layer: &Self| {
            [Some(layer.weight.detach()), layer.bias.as_ref().map(Tensor::detach)].into_iter().flatten()
        };
        for (mut tensor, leader) in tensors(self).zip(tensors(leader)) {
            let _ = tensor.f_lerp_(&leader, share)?;
        }
        Ok(())
    }
}

impl Block for Linear {
    fn forward(&self, input: &Tensor) -> Result<Tensor, TchError> {
        flops::add(|| input.numel() as i64 * self.outputs());
        input.f_linear(&self.weight, self.bias.as_ref())
    }
}

/// The product of each sample's two matrices, as `torch.bmm`: takes `[samples, a, b]` and `[samples, b, c]` and gives
/// `[samples, a, c]`.
///
/// # Errors
/// Out of memory.
pub fn batched_product(left: &Tensor, right: &Tensor) -> Result<Tensor, TchError> {
    flops::add(|| left.numel() as i64 * right.size()[2]);
    left.f_bmm(right)
}

/// A row of the weight for each index, as `torch.nn.Embedding` with dense gradients.
pub struct Embedding {
    weight: Tensor,
}

impl Embedding {
    /// # Errors
    /// Out of memory.
    pub fn new(mut scope: Scope<'_>, rows: i64, width: i64, init: Init) -> Result<Self, TchError> {
        Ok(Self { weight: scope.parameter("weight", &[rows, width], init)? })
    }

    /// All rows in their order, `[rows, width]`.
    pub fn rows(&self) -> &Tensor {
        &self.weight
    }
}

impl Block for Embedding {
    fn forward(&self, indices: &Tensor) -> Result<Tensor, TchError> {
        const NO_PADDING: i64 = -1;
        Tensor::f_embedding(&self.weight, indices, NO_PADDING, false, false)
    }
}
