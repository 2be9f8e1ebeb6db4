// A tensor as a line: its numbers in the order in which they lie in memory.
#pragma once

#include <ATen/core/Tensor.h>

namespace shim {

// Shares the storage of `tensor`, which must have no gaps in memory and no number twice.
at::Tensor in_memory_order(const at::Tensor& tensor);

// `gradient` in the layout of its parameter. Autograd gives it that layout unless an operation handed its own over.
at::Tensor laid_out_as(const at::Tensor& parameter, const at::Tensor& gradient);

}  // namespace shim
