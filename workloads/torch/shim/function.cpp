// Operations whose backward pass is a closure of Rust.
#include "shim.h"

#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/utils.h>

#include <memory>
#include <mutex>
#include <stdexcept>

namespace {

using at::Tensor;
using torch::autograd::Node;
using torch::autograd::variable_list;

// Takes a gradient for each output and leaves one for each input; null stands for an undefined one. Gives 0, or 1 and
// leaves its message for `tw_last_error`.
using BackwardCall = int (*)(void* closure, Tensor* const* gradients, size_t count, Tensor** results,
                             size_t result_count);
using BackwardDrop = void (*)(void* closure);

class Function final : public Node {
 public:
  Function(void* closure, BackwardCall call, BackwardDrop drop) : closure_(closure), call_(call), drop_(drop) {}
  Function(const Function&) = delete;
  Function& operator=(const Function&) = delete;
  ~Function() override { release(); }

  variable_list apply(variable_list&& gradients) override {
    std::lock_guard<std::mutex> lock(mutex_);
    TORCH_CHECK(closure_ != nullptr, torch::autograd::ERR_BACKWARD_TWICE);
    std::vector<Tensor*> handles;
    for (Tensor& gradient : gradients) handles.push_back(gradient.defined() ? &gradient : nullptr);
    std::vector<Tensor*> results(num_outputs(), nullptr);
    const int failed = call_(closure_, handles.data(), handles.size(), results.data(), results.size());
    variable_list found(results.size());
    for (size_t i = 0; i < results.size(); i++) {
      if (results[i] == nullptr) continue;
      found[i] = std::move(*results[i]);
      delete results[i];
    }
    if (failed != 0) throw std::runtime_error(tw_last_error());
    return found;
  }

  void release_variables() override {
    std::lock_guard<std::mutex> lock(mutex_);
    release();
  }

  std::string name() const override { return "Function"; }

 private:
  void release() {
    if (closure_ != nullptr) drop_(closure_);
    closure_ = nullptr;
  }

  void* closure_;
  BackwardCall call_;
  BackwardDrop drop_;
};

}  // namespace

extern "C" {

// Gives new handles on the data of `values`, which were computed of `inputs` outside of autograd, with a graph whose
// backward pass is the closure. Takes the closure over, whatever comes of it.
int tw_function(void* closure, BackwardCall call, BackwardDrop drop, Tensor* const* inputs, size_t input_count,
                Tensor* const* values, size_t value_count, Tensor** outputs) {
  return shim::guarded([&] {
    std::shared_ptr<Function> node(new Function(closure, call, drop), torch::autograd::deleteNode);
    const variable_list list = shim::tensor_list(inputs, input_count);
    const bool has_graph = at::GradMode::is_enabled() && torch::autograd::any_variable_requires_grad(list);
    if (has_graph) node->set_next_edges(torch::autograd::collect_next_edges(list));
    std::vector<std::unique_ptr<Tensor>> made;
    for (size_t i = 0; i < value_count; i++) {
      auto output = std::make_unique<Tensor>(values[i]->detach());
      if (has_graph) torch::autograd::set_history(*output, node);
      made.push_back(std::move(output));
    }
    for (size_t i = 0; i < value_count; i++) outputs[i] = made[i].release();
  });
}

}  // extern "C"
