// Where a device's random generator is.
#include "random.h"

#include "shim.h"

#include <ATen/Context.h>

#include <mutex>

namespace {

at::Generator generator(int cuda) {
  return at::globalContext().defaultGenerator(cuda < 0 ? at::Device(at::kCPU)
                                                       : at::Device(at::kCUDA, static_cast<c10::DeviceIndex>(cuda)));
}

}  // namespace

at::Tensor shim::state_of(at::Generator generator) {
  const std::lock_guard<std::mutex> lock(generator.mutex());
  return generator.get_state();
}

void shim::set_state_of(at::Generator generator, const at::Tensor& state) {
  const std::lock_guard<std::mutex> lock(generator.mutex());
  generator.set_state(state);
}

extern "C" {

// `cuda` is the number of a CUDA device, or negative for the CPU. `state` is a new tensor of bytes in host memory.
int tw_random_state(int cuda, at::Tensor** state) {
  return shim::guarded([&] { *state = new at::Tensor(shim::state_of(generator(cuda))); });
}

int tw_set_random_state(int cuda, const at::Tensor* state) {
  return shim::guarded([&] { shim::set_state_of(generator(cuda), *state); });
}

}  // extern "C"
