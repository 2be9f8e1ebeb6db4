// Tensors of PyTorch's `meta` device: shapes and kinds without memory.
//
// Most operations infer the shape of their result in C++. PyTorch infers that of some in Python alone, where this
// program cannot reach it; those that models here use stand below. An operation that is missing says so by name
// ("attempted to run this operator with Meta tensors"): it is one more line of the list at the end.
#include "shim.h"

#include <ATen/ATen.h>
#include <ATen/ExpandUtils.h>
#include <ATen/WrapDimUtils.h>
#include <torch/library.h>

#include <algorithm>
#include <optional>
#include <tuple>

namespace {

using at::IntArrayRef;
using at::Tensor;
using Maybe = std::optional<Tensor>;

// One number stands for all dimensions.
int64_t along(IntArrayRef numbers, int64_t dimension) { return numbers.size() == 1 ? numbers[0] : numbers[dimension]; }

Tensor convolution(const Tensor& input, const Tensor& weight, const Maybe&, IntArrayRef stride, IntArrayRef padding,
                   IntArrayRef dilation, bool transposed, IntArrayRef output_padding, int64_t groups) {
  const int64_t inputs = transposed ? weight.size(0) : weight.size(1) * groups;
  TORCH_CHECK(input.dim() == weight.dim() && input.size(1) == inputs, "a convolution with a weight of ", weight.sizes(),
              " does not take ", input.sizes());
  std::vector<int64_t> shape{input.size(0), transposed ? weight.size(1) * groups : weight.size(0)};
  for (int64_t i = 0; i + 2 < input.dim(); i++) {
    const int64_t size = input.size(i + 2), step = along(stride, i), borders = 2 * along(padding, i);
    const int64_t reach = along(dilation, i) * (weight.size(i + 2) - 1);
    shape.push_back(transposed ? (size - 1) * step - borders + reach + along(output_padding, i) + 1
                               : (size + borders - reach - 1) / step + 1);
  }
  return at::empty(shape, input.options());
}

std::tuple<Tensor, Tensor, Tensor> batch_norm(const Tensor& input, const Maybe&, const Maybe&, const Maybe&,
                                              const Maybe&, bool, double, double) {
  const Tensor statistics = at::empty({input.size(1)}, input.options());
  return {at::empty_like(input), statistics, statistics};
}

Tensor index_select(const Tensor& input, int64_t dimension, const Tensor& index) {
  std::vector<int64_t> shape = input.sizes().vec();
  shape.at(at::maybe_wrap_dim(dimension, input.dim())) = index.numel();
  return at::empty(shape, input.options());
}

Tensor adaptive_avg_pool(const Tensor& input, IntArrayRef output) {
  std::vector<int64_t> shape = input.sizes().vec();
  std::copy(output.begin(), output.end(), shape.end() - static_cast<ptrdiff_t>(output.size()));
  return at::empty(shape, input.options());
}

std::vector<int64_t> of_three(const Tensor& a, const Tensor& b, const Tensor& c) {
  return at::infer_size(at::infer_size(a.sizes(), b.sizes()), c.sizes());
}

Tensor where(const Tensor& condition, const Tensor& yes, const Tensor& no) {
  return at::empty(of_three(condition, yes, no), yes.options().dtype(at::result_type(yes, no)));
}

Tensor& where_out(const Tensor& condition, const Tensor& yes, const Tensor& no, Tensor& out) {
  out.resize_(of_three(condition, yes, no));
  return out;
}

// The second tensor is what a backward pass would read.
std::tuple<Tensor, Tensor> log_sigmoid(const Tensor& input) {
  return {at::empty_like(input), at::empty({0}, input.options())};
}

Tensor& hardtanh_in_place(Tensor& input, const at::Scalar&, const at::Scalar&) { return input; }

Tensor& hardswish_in_place(Tensor& input) { return input; }

}  // namespace

TORCH_LIBRARY_IMPL(aten, Meta, library) {
  library.impl("convolution", &convolution);
  library.impl("native_batch_norm", &batch_norm);
  library.impl("index_select", &index_select);
  library.impl("_adaptive_avg_pool2d", &adaptive_avg_pool);
  library.impl("where.self", &where);
  library.impl("where.self_out", &where_out);
  library.impl("log_sigmoid_forward", &log_sigmoid);
  library.impl("hardtanh_", &hardtanh_in_place);
  library.impl("hardswish_", &hardswish_in_place);
}

extern "C" {

// A tensor of 32-bit floats in `shape` on the meta device.
int tw_meta_empty(const int64_t* shape, size_t dimensions, at::Tensor** tensor) {
  return shim::guarded([&] {
    *tensor = new at::Tensor(at::empty({shape, dimensions}, at::TensorOptions(at::kMeta).dtype(at::kFloat)));
  });
}

// Zeros in `shape`, of the kind and on the device of `like`.
int tw_zeros_beside(at::Tensor* like, const int64_t* shape, size_t dimensions, at::Tensor** tensor) {
  return shim::guarded([&] { *tensor = new at::Tensor(at::zeros({shape, dimensions}, like->options())); });
}

}  // extern "C"
