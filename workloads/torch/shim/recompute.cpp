// Activation checkpointing (Chen et al., 2016): a part of a forward pass that is forgotten and made again when the
// backward pass comes to it.
//
// PyTorch's own two ways are written in Python. This node differs from its reentrant one in what its edges are: not the
// inputs alone, but also the parameters that the part uses. So a parameter inside gets its gradient from the pass that
// is under way, by that pass's own rules: once, in the order of the graph, with its hooks, and only where the pass is
// asked for it. The parameters are read off the graph of the first run, which for that is made and dropped.
#include "random.h"
#include "shim.h"

#include <ATen/Context.h>
#include <ATen/autocast_mode.h>
#include <ATen/ops/alias.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/functions/accumulate_grad.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/saved_variable.h>

#include <algorithm>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <unordered_set>

namespace {

using at::Tensor;
using torch::autograd::Node;
using torch::autograd::variable_list;

// The largest number of tensors that a closure makes.
constexpr size_t kMaxOutputs = 8;

// Gives 0 and up to `kMaxOutputs` new tensors, or 1 and leaves its message for `tw_last_error`. `again` is 1 in a
// backward pass.
using SegmentCall = int (*)(void* context, int again, const Tensor* const* inputs, size_t count, Tensor** outputs,
                            size_t* output_count);
using SegmentDrop = void (*)(void* context);

// A closure of Rust's, dropped with the last graph that may call it.
class Closure {
 public:
  Closure(SegmentCall call, SegmentDrop drop, void* context) : call_(call), drop_(drop), context_(context) {}
  Closure(const Closure&) = delete;
  Closure& operator=(const Closure&) = delete;
  ~Closure() { drop_(context_); }

  variable_list run(bool again, const variable_list& inputs) const {
    std::vector<const Tensor*> handles;
    for (const Tensor& input : inputs) handles.push_back(&input);
    Tensor* outputs[kMaxOutputs] = {};
    size_t count = kMaxOutputs;
    if (call_(context_, again, handles.data(), handles.size(), outputs, &count) != 0) {
      throw std::runtime_error(tw_last_error());
    }
    variable_list made;
    for (size_t i = 0; i < count; i++) made.push_back(*std::unique_ptr<Tensor>(outputs[i]));
    return made;
  }

 private:
  SegmentCall call_;
  SegmentDrop drop_;
  void* context_;
};

// What else an operation depends on beside its arguments: the states of the generators it may draw from, and autocast.
class Surroundings {
 public:
  // Those of this thread now.
  explicit Surroundings(std::vector<at::Generator> generators) : generators_(std::move(generators)) {
    for (const at::Generator& generator : generators_) states_.push_back(shim::state_of(generator));
    for (const at::DeviceType device : {at::kCPU, at::kCUDA}) {
      autocast_.push_back({device, at::autocast::is_autocast_enabled(device), at::autocast::get_autocast_dtype(device)});
    }
  }

  // Of operations on `inputs`.
  static Surroundings of(const variable_list& inputs) {
    std::vector<at::Generator> generators{at::globalContext().defaultGenerator(at::kCPU)};
    for (const Tensor& input : inputs) {
      if (!input.is_cuda()) continue;
      const at::Generator& generator = at::globalContext().defaultGenerator(input.device());
      if (std::find(generators.begin(), generators.end(), generator) == generators.end()) generators.push_back(generator);
    }
    return Surroundings(std::move(generators));
  }

  // Runs `body` in them, and leaves those of before behind.
  template <typename Body>
  variable_list around(Body body) const {
    const Surroundings before(generators_);
    set();
    at::autocast::increment_nesting();
    const auto leave = [&before] {
      // bf16 copies of the weights that were kept for a second use inside.
      if (at::autocast::decrement_nesting() == 0) at::autocast::clear_cache();
      before.set();
    };
    try {
      variable_list made = body();
      leave();
      return made;
    } catch (...) {
      leave();
      throw;
    }
  }

 private:
  struct Autocast {
    at::DeviceType device;
    bool enabled;
    at::ScalarType dtype;
  };

  void set() const {
    for (size_t i = 0; i < generators_.size(); i++) shim::set_state_of(generators_[i], states_[i]);
    for (const Autocast& autocast : autocast_) {
      at::autocast::set_autocast_enabled(autocast.device, autocast.enabled);
      at::autocast::set_autocast_dtype(autocast.device, autocast.dtype);
    }
  }

  std::vector<at::Generator> generators_;
  std::vector<Tensor> states_;
  std::vector<Autocast> autocast_;
};

// Stand-ins for the inputs, at which the graph of a run ends. They share the data and its version counter, so that
// autograd sees it when an input is overwritten.
variable_list leaves_for(const variable_list& inputs) {
  variable_list leaves;
  for (const Tensor& input : inputs) leaves.push_back(input.detach().set_requires_grad(input.requires_grad()));
  return leaves;
}

// What the closure is given of the leaves. A view of one that requires a gradient is not taken for a weight by autocast,
// which would keep its bf16 copy to the end of the forward pass, and refuses to be overwritten.
variable_list views_of(const variable_list& leaves) {
  variable_list views;
  for (const Tensor& leaf : leaves) views.push_back(leaf.requires_grad() ? at::alias(leaf) : leaf);
  return views;
}

// Which of the views an output is, if the closure hands one through; their number if it made the output.
size_t handed_through(const Tensor& output, const variable_list& views) {
  const auto is_it = [&output](const Tensor& view) { return output.is_same(view); };
  return std::find_if(views.begin(), views.end(), is_it) - views.begin();
}

// The leaves that the graphs of `made` go back to, without those that stand for inputs.
variable_list parameters_of(const variable_list& made, const variable_list& leaves) {
  variable_list parameters;
  std::unordered_set<Node*> seen;
  std::vector<Node*> ahead;
  for (const Tensor& tensor : made) {
    Node* last = torch::autograd::impl::gradient_edge(tensor).function.get();
    if (seen.insert(last).second) ahead.push_back(last);
  }
  while (!ahead.empty()) {
    Node* node = ahead.back();
    ahead.pop_back();
    if (const auto* leaf = dynamic_cast<torch::autograd::AccumulateGrad*>(node)) {
      const auto is_it = [leaf](const Tensor& input) { return input.is_same(leaf->variable); };
      if (std::none_of(leaves.begin(), leaves.end(), is_it)) parameters.push_back(leaf->variable);
    }
    for (const auto& edge : node->next_edges()) {
      if (edge.is_valid() && seen.insert(edge.function.get()).second) ahead.push_back(edge.function.get());
    }
  }
  return parameters;
}

class Recompute : public Node {
 public:
  // Runs the closure for the first time.
  static variable_list run(std::shared_ptr<Closure> closure, const variable_list& inputs) {
    // The inputs are saved as they are now, and the surroundings before anything is drawn.
    std::shared_ptr<Recompute> node(new Recompute(std::move(closure), inputs), torch::autograd::deleteNode);
    const variable_list leaves = leaves_for(inputs), views = views_of(leaves);
    variable_list outputs = node->closure_->run(/*again=*/false, views), made;
    for (size_t i = 0; i < outputs.size(); i++) {
      const size_t through = handed_through(outputs[i], views);
      if (through < inputs.size()) {
        outputs[i] = inputs[through];
      } else if (outputs[i].requires_grad()) {
        node->made_.push_back(i);
        made.push_back(outputs[i]);
      }
    }
    if (made.empty()) return outputs;
    node->parameters_ = parameters_of(made, leaves);
    node->set_next_edges(torch::autograd::collect_next_edges(inputs, node->parameters_));
    for (size_t i : node->made_) {
      outputs[i] = outputs[i].detach();
      torch::autograd::set_history(outputs[i], node);
    }
    return outputs;
  }

  variable_list apply(variable_list&& gradients) override {
    std::lock_guard<std::mutex> lock(mutex_);
    TORCH_CHECK(closure_, torch::autograd::ERR_BACKWARD_TWICE);
    variable_list results(num_outputs());
    variable_list inputs;
    for (const auto& input : inputs_) inputs.push_back(input.unpack());
    const variable_list leaves = leaves_for(inputs);

    // In the order of the edges. A pass that names its inputs asks for some of them only.
    variable_list candidates = leaves, wanted;
    candidates.insert(candidates.end(), parameters_.begin(), parameters_.end());
    std::vector<size_t> places;
    for (size_t i = 0; i < candidates.size(); i++) {
      if (!task_should_compute_output(i)) continue;
      wanted.push_back(candidates[i]);
      places.push_back(i);
    }
    const auto is_defined = [](const Tensor& gradient) { return gradient.defined(); };
    if (wanted.empty() || std::none_of(gradients.begin(), gradients.end(), is_defined)) return results;

    const variable_list outputs = surroundings_.around([&] {
      at::AutoGradMode with_graph(true);
      return closure_->run(/*again=*/true, views_of(leaves));
    });
    variable_list made, of_made;
    for (size_t i = 0; i < made_.size(); i++) {
      if (!gradients[i].defined()) continue;
      made.push_back(outputs[made_[i]]);
      of_made.push_back(std::move(gradients[i]));
    }
    variable_list found = torch::autograd::grad(made, wanted, of_made, /*retain_graph=*/false,
                                                /*create_graph=*/false, /*allow_unused=*/true);
    // Moved, so that a parameter may take its gradient over without a copy.
    for (size_t i = 0; i < places.size(); i++) results[places[i]] = std::move(found[i]);
    return results;
  }

  void release_variables() override {
    std::lock_guard<std::mutex> lock(mutex_);
    closure_.reset();
    for (auto& input : inputs_) input.reset_data();
    parameters_.clear();
  }

  std::string name() const override { return "Recompute"; }

 private:
  Recompute(std::shared_ptr<Closure> closure, const variable_list& inputs)
      : closure_(std::move(closure)), surroundings_(Surroundings::of(inputs)) {
    for (const Tensor& input : inputs) inputs_.emplace_back(input, /*is_output=*/false);
  }

  std::shared_ptr<Closure> closure_;
  Surroundings surroundings_;
  std::vector<torch::autograd::SavedVariable> inputs_;
  variable_list parameters_;
  // The outputs of the closure that have a graph, in the order of this node's own.
  std::vector<size_t> made_;
};

}  // namespace

extern "C" {

// Runs the closure and gives what it makes, with a graph that remembers the inputs alone and runs the closure again in
// the backward pass. An input that the closure hands through is given as it is. There is room for `kMaxOutputs`
// outputs, which `output_count` counts. Takes the closure over, whatever comes of it.
int tw_recompute(SegmentCall call, SegmentDrop drop, void* context, Tensor* const* inputs, size_t count,
                 Tensor** outputs, size_t* output_count) {
  return shim::guarded([&] {
    auto closure = std::make_shared<Closure>(call, drop, context);
    const variable_list list = shim::tensor_list(inputs, count);
    const bool has_graph = at::GradMode::is_enabled();
    const variable_list made =
        has_graph ? Recompute::run(std::move(closure), list) : closure->run(/*again=*/false, list);
    for (size_t i = 0; i < made.size(); i++) outputs[i] = new Tensor(made[i]);
    *output_count = made.size();
  });
}

}  // extern "C"
