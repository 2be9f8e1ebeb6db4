// A tensor as a line: its numbers in the order in which they lie in memory.
#include "layout.h"

#include "shim.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/as_strided.h>
#include <ATen/ops/empty_like.h>
#include <torch/csrc/autograd/utils/grad_layout_contract.h>

at::Tensor shim::in_memory_order(const at::Tensor& tensor) {
  TORCH_CHECK(tensor.is_non_overlapping_and_dense(), "a tensor has gaps in memory");
  return tensor.as_strided({tensor.numel()}, {1}, tensor.storage_offset());
}

at::Tensor shim::laid_out_as(const at::Tensor& parameter, const at::Tensor& gradient) {
  // A dimension of one number has a stride that says nothing, and gradients of 1x1 convolutions come with another one.
  if (torch::autograd::utils::obeys_layout_contract(gradient, parameter)) return gradient;
  return at::empty_like(parameter).copy_(gradient);
}

extern "C" {

// `line` is a new handle on the numbers of `tensor`, which autograd knows nothing of.
int tw_line(const at::Tensor* tensor, at::Tensor** line) {
  return shim::guarded([&] { *line = new at::Tensor(shim::in_memory_order(tensor->detach())); });
}

// The gradient of `parameter` as a line in the order of the parameter; undefined without a gradient.
int tw_gradient_line(const at::Tensor* parameter, at::Tensor** line) {
  return shim::guarded([&] {
    at::NoGradGuard no_grad;
    const at::Tensor& gradient = parameter->grad();
    *line = gradient.defined() ? new at::Tensor(shim::in_memory_order(shim::laid_out_as(*parameter, gradient)))
                               : new at::Tensor();
  });
}

// The existing gradient as a line in its own memory, which is replaced if it has another layout.
int tw_gradient_as_line(const at::Tensor* parameter, at::Tensor** line) {
  return shim::guarded([&] {
    at::NoGradGuard no_grad;
    at::Tensor& gradient = parameter->mutable_grad();
    TORCH_CHECK(gradient.defined(), "a parameter has no gradient");
    gradient = shim::laid_out_as(*parameter, gradient);
    *line = new at::Tensor(shim::in_memory_order(gradient));
  });
}

}  // extern "C"
