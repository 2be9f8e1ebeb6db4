// What decides what a random generator draws next.
#pragma once

#include <ATen/core/Generator.h>

namespace shim {

// As a new tensor of bytes in host memory. Waits until nobody draws.
at::Tensor state_of(at::Generator generator);

// Lets `generator` go on from such a state.
void set_state_of(at::Generator generator, const at::Tensor& state);

}  // namespace shim
