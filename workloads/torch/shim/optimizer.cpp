// PyTorch's fused optimizer kernels on state tensors that Rust owns: one call per update, CPU and CUDA alike.
#include "layout.h"
#include "shim.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/_fused_adam.h>
#include <ATen/ops/_fused_adamw.h>
#include <ATen/ops/_fused_sgd.h>

namespace {

// The same numbers as a contiguous tensor. The fused kernels copy other tensors, parameters and state, in and
// out, which would happen to the weights of convolutions in channels-last layout in every step. An optimizer
// does not depend on the order of the elements, as long as it is the same for all tensors of a parameter.
at::Tensor contiguous(const at::Tensor& tensor) {
  return tensor.is_contiguous() ? tensor : shim::in_memory_order(tensor);
}

// The parameters that have a gradient, and what belongs to them. A parameter without one is left alone, as in PyTorch.
struct Parameters {
  std::vector<at::Tensor> parameters, gradients, first_state, second_state;

  Parameters(size_t count, at::Tensor* const* all, at::Tensor* const* given, at::Tensor* const* first,
        at::Tensor* const* second) {
    parameters.reserve(count);
    gradients.reserve(count);
    if (first != nullptr) first_state.reserve(count);
    if (second != nullptr) second_state.reserve(count);
    for (size_t i = 0; i < count; i++) {
      const at::Tensor& gradient = given != nullptr ? *given[i] : all[i]->grad();
      if (!gradient.defined()) continue;
      parameters.push_back(contiguous(*all[i]));
      gradients.push_back(contiguous(shim::laid_out_as(*all[i], gradient)));
      if (first != nullptr) first_state.push_back(contiguous(*first[i]));
      if (second != nullptr) second_state.push_back(contiguous(*second[i]));
    }
  }
};

}  // namespace

extern "C" {

// `gradients` is null where each parameter has its own. `momenta` is null without momentum. They start as zeros, which
// makes PyTorch's special first step (the momentum becomes the gradient) the ordinary one, as dampening is zero.
int tw_fused_sgd(size_t count, at::Tensor* const* parameters, at::Tensor* const* gradients, at::Tensor* const* momenta,
                 double learning_rate, double momentum, double weight_decay) {
  return shim::guarded([&] {
    at::NoGradGuard no_grad;
    Parameters group(count, parameters, gradients, momenta, nullptr);
    if (group.parameters.empty()) return;
    at::_fused_sgd_(group.parameters, group.gradients, group.first_state, weight_decay, momentum, learning_rate,
                    /*dampening=*/0.0, /*nesterov=*/false, /*maximize=*/false, /*is_first_step=*/false);
  });
}

// `step` is one scalar on the parameters' device, shared by all of them: it counts the updates, this one included.
int tw_fused_adam(size_t count, at::Tensor* const* parameters, at::Tensor* const* gradients,
                  at::Tensor* const* averages, at::Tensor* const* squares, const at::Tensor* step,
                  double learning_rate, double beta1, double beta2, double epsilon, double weight_decay,
                  int decoupled) {
  return shim::guarded([&] {
    at::NoGradGuard no_grad;
    Parameters group(count, parameters, gradients, averages, squares);
    if (group.parameters.empty()) return;
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
