// Where a device's random generator is.
#include "shim.h"

#include <ATen/Context.h>

#include <mutex>

namespace {
at::Generator generator(int cuda) {
  return at::globalContext().defaultGenerator(cuda < 0 ? at::Device(at::kCPU)
                                                       : at::Device(at::kCUDA, static_cast<c10::DeviceIndex>(cuda)));
}
}  // namespace

extern "C" {

// `cuda` is the number of a CUDA device, or negative for the CPU. `state` is a new tensor of bytes in host memory.
int tw_random_state(int cuda, at::Tensor** state) {
  return shim::guarded([&] {
    auto source = generator(cuda);
    const std::lock_guard<std::mutex> lock(source.mutex());
    *state = new at::Tensor(source.get_state());
  });
}

int tw_set_random_state(int cuda, const at::Tensor* state) {
  return shim::guarded([&] {
    auto source = generator(cuda);
    const std::lock_guard<std::mutex> lock(source.mutex());
    source.set_state(*state);
  });
}

}  // extern "C"
