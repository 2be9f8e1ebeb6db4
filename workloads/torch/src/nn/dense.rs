//! Linear layers and embeddings.

use std::ops::Range;

use tch::{Kind, TchError, Tensor};

use super::{flops, init::Init, parameters::Scope, split::Split, tensor_parallel::TensorParallel};
use crate::workload::Block;

/// `y = x W^T + b` over the last dimension, as `torch.nn.Linear`.
///
/// Tensor-parallel ranks may divide its outputs: then its input comes from [`TensorParallel::enter`]. Or they divide its
/// inputs, and it adds up what they make of them.
pub struct Linear {
    weight: Tensor,
    bias: Option<Tensor>,
    sum: Sum,
}

/// The numbers that tensor-parallel ranks add up.
enum Sum {
    Nothing,
    /// The outputs, because each rank has some of the inputs.
    Outputs(TensorParallel),
    /// The gradients of the weight, because each rank uses some of the outputs.
    Gradients(TensorParallel),
}

/// Whether a linear layer has biases, which begin at zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bias {
    Zero,
    None,
}

impl Linear {
    /// PyTorch's own initial values.
    ///
    /// # Errors
    /// Out of memory.
    pub fn new(mut scope: Scope<'_>, inputs: i64, outputs: i64) -> Result<Self, TchError> {
        let weight = scope.parameter("weight", &[outputs, inputs], Init::fan_in(inputs))?;
        let bias = scope.parameter("bias", &[outputs], Init::fan_in(inputs))?;
        Ok(Self::of(weight, bias))
    }

    /// Weights from `init`, biases zero.
    ///
    /// # Errors
    /// Out of memory.
    pub fn with_init(mut scope: Scope<'_>, inputs: i64, outputs: i64, init: Init) -> Result<Self, TchError> {
        let weight = scope.parameter("weight", &[outputs, inputs], init)?;
        let bias = scope.parameter("bias", &[outputs], Init::ZEROS)?;
        Ok(Self::of(weight, bias))
    }

    /// Weights from `init`, no biases.
    ///
    /// # Errors
    /// Out of memory.
    pub fn unbiased(mut scope: Scope<'_>, inputs: i64, outputs: i64, init: Init) -> Result<Self, TchError> {
        Ok(Self {
            weight: scope.parameter("weight", &[outputs, inputs], init)?,
            bias: None,
            sum: Sum::Nothing,
        })
    }

    /// A layer whose outputs tensor-parallel ranks divide: `split` is of the first dimension. Weights from `init`.
    ///
    /// # Errors
    /// Out of memory.
    pub fn column_parallel(
        mut scope: Scope<'_>,
        [inputs, outputs]: [i64; 2],
        init: Init,
        bias: Bias,
        split: Split,
    ) -> Result<Self, TchError> {
        let weight = scope.divided("weight", &[outputs, inputs], init, split)?;
        let bias = match bias {
            Bias::Zero => Some(scope.divided("bias", &[outputs], Init::ZEROS, split)?),
            Bias::None => None,
        };
        Ok(Self { weight, bias, sum: Sum::Nothing })
    }

    /// A layer whose inputs tensor-parallel ranks divide into `units`. Weights from `init`. The bias is whole on every rank
    /// and added to the sum.
    ///
    /// # Errors
    /// Out of memory.
    pub fn row_parallel(
        mut scope: Scope<'_>,
        [inputs, outputs]: [i64; 2],
        init: Init,
        bias: Bias,
        units: i64,
    ) -> Result<Self, TchError> {
        let weight = scope.divided("weight", &[outputs, inputs], init, Split::inputs(units))?;
        let bias = match bias {
            Bias::Zero => Some(scope.parameter("bias", &[outputs], Init::ZEROS)?),
            Bias::None => None,
        };
        Ok(Self { weight, bias, sum: Sum::Outputs(scope.tensor_parallel().clone()) })
    }

    /// A layer without bias that every tensor-parallel rank has whole, although each uses some of the outputs alone. Weights
    /// from `init`.
    ///
    /// # Errors
    /// Out of memory.
    pub fn replicated(mut scope: Scope<'_>, inputs: i64, outputs: i64, init: Init) -> Result<Self, TchError> {
        let weight = scope.parameter("weight", &[outputs, inputs], init)?;
        Ok(Self { weight, bias: None, sum: Sum::Gradients(scope.tensor_parallel().clone()) })
    }

    /// A layer whose weight, `[outputs, inputs]`, and bias are registered under names of their own.
    pub fn of(weight: Tensor, bias: Tensor) -> Self {
        Self { weight, bias: Some(bias), sum: Sum::Nothing }
    }

    /// As [`Linear::of`], where tensor-parallel ranks divide the inputs.
    pub fn row_parallel_of(weight: Tensor, bias: Tensor, ranks: TensorParallel) -> Self {
        Self { weight, bias: Some(bias), sum: Sum::Outputs(ranks) }
    }

    /// A layer without bias that shares its weight, `[outputs, inputs]`, with the embedding, in the present link.
    pub fn tied_to(scope: &mut Scope<'_>, embedding: &Embedding) -> Self {
        scope.tie(&embedding.name);
        Self { weight: embedding.weight.shallow_clone(), bias: None, sum: Sum::Nothing }
    }

    /// The same with a bias of its own, zero. It stands beside the parts of a head, in the head's own scope.
    ///
    /// # Errors
    /// Out of memory.
    pub fn tied_with_bias(scope: &mut Scope<'_>, embedding: &Embedding) -> Result<Self, TchError> {
        let rows = embedding.rows;
        let bias = scope.divided("bias", &[rows], Init::ZEROS, Split::outputs(rows))?;
        Ok(Self { bias: Some(bias), ..Self::tied_to(scope, embedding) })
    }

    /// The kind of numbers that it computes with.
    pub fn kind(&self) -> Kind {
        self.weight.kind()
    }

    /// The width of the output of this rank.
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
        let bias = self.bias.as_ref().map(|bias| buffer("bias", bias)).transpose()?;
        Ok(Self { weight, bias, sum: Sum::Nothing })
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
        let bias = self.bias.as_ref();
        match &self.sum {
            Sum::Outputs(ranks) if !ranks.is_alone() => {
                let sum = ranks.leave(input.f_linear(&self.weight, None::<&Tensor>)?)?;
                bias.map_or(Ok(sum.shallow_clone()), |bias| sum.f_add(bias))
            }
            Sum::Gradients(ranks) => input.f_linear(&ranks.enter(&self.weight)?, bias),
            Sum::Nothing | Sum::Outputs(_) => input.f_linear(&self.weight, bias),
        }
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
    /// The full name of the weight.
    name: String,
    /// Number of rows on all ranks together.
    rows: i64,
    /// The ranks that divide the rows, and the rows of this rank.
    divided: Option<(TensorParallel, Range<i64>)>,
}

impl Embedding {
    /// # Errors
    /// Out of memory.
    pub fn new(mut scope: Scope<'_>, rows: i64, width: i64, init: Init) -> Result<Self, TchError> {
        let weight = scope.parameter("weight", &[rows, width], init)?;
        Ok(Self { weight, name: scope.full_name("weight"), rows, divided: None })
    }

    /// An embedding whose columns tensor-parallel ranks divide into `units`: each row has the part of this rank.
    ///
    /// # Errors
    /// Out of memory.
    pub fn column_parallel(
        mut scope: Scope<'_>,
        [rows, width]: [i64; 2],
        init: Init,
        units: i64,
    ) -> Result<Self, TchError> {
        let weight = scope.divided("weight", &[rows, width], init, Split::inputs(units))?;
        Ok(Self { weight, name: scope.full_name("weight"), rows, divided: None })
    }

    /// The embedding of a vocabulary, whose rows tensor-parallel ranks divide. Later links may share its weight
    /// ([`Linear::tied_to`]).
    ///
    /// # Errors
    /// Out of memory.
    pub fn of_vocabulary(mut scope: Scope<'_>, rows: i64, width: i64, init: Init) -> Result<Self, TchError> {
        let weight = scope.tied("weight", &[rows, width], init, Some(Split::outputs(rows)))?;
        let ranks = scope.tensor_parallel();
        let divided = (!ranks.is_alone()).then(|| (ranks.clone(), ranks.share(rows)));
        Ok(Self { weight, name: scope.full_name("weight"), rows, divided })
    }

    /// The same embedding in the present link.
    pub fn also(&self, scope: &mut Scope<'_>) -> Self {
        scope.tie(&self.name);
        Self {
            weight: self.weight.shallow_clone(),
            name: self.name.clone(),
            rows: self.rows,
            divided: self.divided.clone(),
        }
    }

    /// The rows of this rank in their order, `[rows, width]`.
    pub fn rows(&self) -> &Tensor {
        &self.weight
    }
}

impl Block for Embedding {
    fn forward(&self, indices: &Tensor) -> Result<Tensor, TchError> {
        const NO_PADDING: i64 = -1;
        let embed = |indices: &Tensor| Tensor::f_embedding(&self.weight, indices, NO_PADDING, false, false);
        let Some((ranks, Range { start, end })) = &self.divided else { return embed(indices) };
        // Another rank has the rows of the other indices, and this one adds zeros.
        let is_elsewhere = indices.f_lt(*start)?.f_bitwise_or_tensor(&indices.f_ge(*end)?)?;
        let own = indices.f_sub_scalar(*start)?.f_masked_fill(&is_elsewhere, 0)?;
        let rows = embed(&own)?.f_masked_fill(&is_elsewhere.f_unsqueeze(-1)?, 0.0)?;
        ranks.leave(rows)
    }
}
