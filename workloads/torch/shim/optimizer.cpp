// PyTorch's fused optimizer kernels on state tensors that Rust owns: one call per update, CPU and CUDA alike.
#include "shim.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/_fused_adam.h>
#include <ATen/ops/_fused_adamw.h>
#include <ATen/ops/_fused_sgd.h>
#include <ATen/ops/as_strided.h>
#include <ATen/ops/empty_like.h>

namespace {

// The same numbers as a tensor that is contiguous. The fused kernels copy what is not, parameters and state there and
// back, which the weights of convolutions in channels-last layout would suffer in every step. An optimizer does not mind
// in which order it goes through the elements, as long as it is one order for all that belongs to a parameter.
at::Tensor in_memory_order(const at::Tensor& tensor) {
  if (tensor.is_contiguous()) return tensor;
  TORCH_CHECK(tensor.is_non_overlapping_and_dense(), "a parameter has gaps in memory");
  return tensor.as_strided({tensor.numel()}, {1}, tensor.storage_offset());
}

// A gradient in its parameter's layout. Autograd gives it that layout unless an operation handed its own over.
at::Tensor laid_out_as(const at::Tensor& parameter, const at::Tensor& gradient) {
  if (gradient.strides() == parameter.strides()) return gradient;
  return at::empty_like(parameter).copy_(gradient);
}

// The parameters that have a gradient, and what belongs to them. A parameter without one is left alone, as in PyTorch.
struct Group {
  std::vector<at::Tensor> parameters, gradients, first_state, second_state;

  Group(size_t count, at::Tensor* const* all, at::Tensor* const* first, at::Tensor* const* second) {
    parameters.reserve(count);
    gradients.reserve(count);
    if (first != nullptr) first_state.reserve(count);
    if (second != nullptr) second_state.reserve(count);
    for (size_t i = 0; i < count; i++) {
      const at::Tensor& gradient = all[i]->grad();
      if (!gradient.defined()) continue;
      parameters.push_back(in_memory_order(*all[i]));
      gradients.push_back(in_memory_order(laid_out_as(*all[i], gradient)));
      if (first != nullptr) first_state.push_back(in_memory_order(*first[i]));
      if (second != nullptr) second_state.push_back(in_memory_order(*second[i]));
    }
  }
};

}  // namespace

extern "C" {

// `momenta` is null without momentum. They start as zeros, which makes PyTorch's special first step (the momentum
// becomes the gradient) the ordinary one, as dampening is zero.
int tw_fused_sgd(size_t count, at::Tensor* const* parameters, at::Tensor* const* momenta, double learning_rate,
                 double momentum, double weight_decay) {
  return shim::guarded([&] {
    at::NoGradGuard no_grad;
    Group group(count, parameters, momenta, nullptr);
    if (group.parameters.empty()) return;
    at::_fused_sgd_(group.parameters, group.gradients, group.first_state, weight_decay, momentum, learning_rate,
                    /*dampening=*/0.0, /*nesterov=*/false, /*maximize=*/false, /*is_first_step=*/false);
  });
}

// `step` is one scalar on the parameters' device, shared by all of them: it counts the updates, this one included.
int tw_fused_adam(size_t count, at::Tensor* const* parameters, at::Tensor* const* averages, at::Tensor* const* squares,
                  at::Tensor* step, double learning_rate, double beta1, double beta2, double epsilon,
                  double weight_decay, int decoupled) {
  return shim::guarded([&] {
    at::NoGradGuard no_grad;
    Group group(count, parameters, averages, squares);
    if (group.parameters.empty()) return;
    step->add_(1);
    const std::vector<at::Tensor> steps(group.parameters.size(), *step);
    if (decoupled) {
      at::_fused_adamw_(group.parameters, group.gradients, group.first_state, group.second_state, {}, steps,
                        learning_rate, beta1, beta2, weight_decay, epsilon, /*amsgrad=*/false, /*maximize=*/false);
    } else {
      at::_fused_adam_(group.parameters, group.gradients, group.first_state, group.second_state, {}, steps,
                       learning_rate, beta1, beta2, weight_decay, epsilon, /*amsgrad=*/false, /*maximize=*/false);
    }
  });
}

}  // extern "C"
