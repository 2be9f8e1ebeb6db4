// Gradients and autocast.
#include "shim.h"

#include <ATen/autocast_mode.h>
#include <torch/csrc/autograd/autograd.h>

namespace {
at::DeviceType device_type(int is_cuda) { return is_cuda ? at::kCUDA : at::kCPU; }
}  // namespace

extern "C" {

// Adds the gradients of the scalar `output` to `.grad` of `inputs`, or of every leaf of the graph if there are none,
// and frees the graph.
int tw_backward(at::Tensor* output, at::Tensor* const* inputs, size_t count) {
  return shim::guarded([&] {
    torch::autograd::backward({*output}, /*grad_tensors=*/{}, /*retain_graph=*/false, /*create_graph=*/false,
                              shim::tensor_list(inputs, count));
  });
}

// Frees the gradients, so that the next backward pass hands its results over instead of adding them to zeros.
int tw_clear_gradients(at::Tensor* const* parameters, size_t count) {
  return shim::guarded([&] {
    for (size_t i = 0; i < count; i++) parameters[i]->mutable_grad().reset();
  });
}

// Turns autocast to bfloat16 on for this thread and one kind of device; `previous` is what `leave` puts back.
int tw_autocast_bf16_enter(int is_cuda, int64_t* previous) {
  return shim::guarded([&] {
    const auto device = device_type(is_cuda);
    const auto dtype = static_cast<int64_t>(at::autocast::get_autocast_dtype(device));
    *previous = (dtype << 1) | static_cast<int64_t>(at::autocast::is_autocast_enabled(device));
    at::autocast::set_autocast_dtype(device, at::kBFloat16);
    at::autocast::set_autocast_enabled(device, true);
    at::autocast::increment_nesting();
  });
}

int tw_autocast_bf16_leave(int is_cuda, int64_t previous) {
  return shim::guarded([&] {
    const auto device = device_type(is_cuda);
    // The outermost leave drops the cached bf16 copies of the weights: the optimizer is about to change them.
    if (at::autocast::decrement_nesting() == 0) at::autocast::clear_cache();
    at::autocast::set_autocast_enabled(device, previous & 1);
    at::autocast::set_autocast_dtype(device, static_cast<at::ScalarType>(previous >> 1));
  });
}

}  // extern "C"
