// Activations that tch offers without their arguments.
#include "shim.h"

#include <ATen/ops/leaky_relu.h>

extern "C" {

// Overwrites what is negative in `tensor` by `slope` times its value; autograd knows.
int tw_leaky_relu_in_place(at::Tensor* tensor, double slope) {
  return shim::guarded([&] { at::leaky_relu_(*tensor, slope); });
}

}  // extern "C"
