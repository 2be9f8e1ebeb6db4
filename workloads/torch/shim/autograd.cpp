// Gradients and autocast.
#include "shim.h"

#include <ATen/autocast_mode.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

#include <memory>
#include <stdexcept>

namespace {

at::DeviceType device_type(int is_cuda) { return is_cuda ? at::kCUDA : at::kCPU; }

// A closure of Rust that hears of each addition to the gradient of a parameter.
class GradientHook final : public torch::autograd::PostAccumulateGradHook {
 public:
  // Gives 0, or 1 and leaves its message for `tw_last_error`.
  using Call = int (*)(const void* closure, const at::Tensor* parameter);
  using Drop = void (*)(void* closure);

  GradientHook(void* closure, Call call, Drop drop) : closure_(closure), call_(call), drop_(drop) {}
  GradientHook(const GradientHook&) = delete;
  GradientHook& operator=(const GradientHook&) = delete;
  ~GradientHook() override { drop_(closure_); }

  // The exception ends the backward pass, which throws it again.
  void operator()(const at::Tensor& parameter) override {
    if (call_(closure_, &parameter) != 0) throw std::runtime_error(tw_last_error());
  }

 private:
  void* closure_;
  Call call_;
  Drop drop_;
};

// Whether others can reach the numbers of `gradient`. An operation that ends in a view, as a product that is
// then transposed, returns a view of its result, which only that view holds.
bool is_shared(const at::Tensor& gradient) {
  size_t holders = gradient.storage().use_count();
  if (gradient.is_view() && gradient._base().use_count() == 1) holders--;
  return holders > 1;
}

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

// As `tw_backward`, from several tensors of any shape, each with its gradient.
int tw_backward_from(at::Tensor* const* outputs, at::Tensor* const* gradients, size_t count) {
  return shim::guarded([&] {
    torch::autograd::backward(shim::tensor_list(outputs, count), shim::tensor_list(gradients, count),
                              /*retain_graph=*/false, /*create_graph=*/false);
  });
}

// Frees the gradients, so that the next backward pass hands its results over instead of adding them to zeros.
int tw_clear_gradients(at::Tensor* const* parameters, size_t count) {
  return shim::guarded([&] {
    for (size_t i = 0; i < count; i++) parameters[i]->mutable_grad().reset();
  });
}

// Has autograd call `closure` each time it has added to the gradient of the leaf `parameter`: on the thread that runs the
// backward pass, which on CUDA is one of autograd's own, in the stream of the pass. The closure is taken over.
int tw_gradient_hook_set(at::Tensor* parameter, void* closure, GradientHook::Call call, GradientHook::Drop drop) {
  return shim::guarded([&] {
    auto hook = std::make_unique<GradientHook>(closure, call, drop);
    TORCH_CHECK(torch::autograd::impl::post_acc_grad_hooks(*parameter) == nullptr, "a parameter has a hook already");
    torch::autograd::impl::set_post_acc_grad_hooks(*parameter, std::move(hook));
  });
}

int tw_gradient_hook_clear(at::Tensor* parameter) {
  return shim::guarded([&] { torch::autograd::impl::set_post_acc_grad_hooks(*parameter, nullptr); });
}

// Makes autograd copy the gradient of the leaf `parameter` if others can reach its memory. By default
// autograd checks handles only, and uses a view of memory that other operations have still to read.
// `position` is for `tw_gradient_share`.
int tw_gradient_unshare(const at::Tensor* parameter, unsigned* position) {
  return shim::guarded([&] {
    *position = parameter->register_hook([](const at::Tensor& gradient) {
      // One with gaps, or with numbers that stand for several, is copied by autograd itself.
      const bool is_left = !gradient.defined() || !gradient.is_non_overlapping_and_dense() || !is_shared(gradient);
      return is_left ? at::Tensor() : gradient.clone();
    });
  });
}

int tw_gradient_share(const at::Tensor* parameter, unsigned position) {
  return shim::guarded([&] { parameter->remove_hook(position); });
}

// Makes `place` the gradient of `parameter`, with the numbers of the gradient that it has, if any. From then on autograd
// adds to `place`, until the gradient is cleared.
int tw_keep_gradient_in(const at::Tensor* parameter, const at::Tensor* place) {
  return shim::guarded([&] {
    at::NoGradGuard no_grad;
    at::Tensor& gradient = parameter->mutable_grad();
    if (gradient.is_same(*place)) return;
    if (gradient.defined()) place->copy_(gradient);
    gradient = *place;
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

// Turns autocast of CPU operations off for this thread, and keeps the cached weights; `was_on` is what `resume` puts back.
int tw_autocast_cpu_suspend(int* was_on) {
  return shim::guarded([&] {
    *was_on = at::autocast::is_autocast_enabled(at::kCPU);
    at::autocast::set_autocast_enabled(at::kCPU, false);
  });
}

int tw_autocast_cpu_resume(int was_on) {
  return shim::guarded([&] { at::autocast::set_autocast_enabled(at::kCPU, was_on != 0); });
}

}  // extern "C"
