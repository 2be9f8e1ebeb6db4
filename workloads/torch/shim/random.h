// What decides what a random generator draws next.
#pragma once

#include <ATen/core/Generator.h>

namespace shim {

// Returns the state as a new tensor of bytes in host memory. Waits until the generator is not in use.
at::Tensor state_of(at::Generator generator);

// Lets `generator` go on from such a state.
void set_state_of(at::Generator generator, const at::Tensor& state);

}  // namespace shim
