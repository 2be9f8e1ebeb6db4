// Records operators with PyTorch's own profiler.
#include "shim.h"

#include <torch/csrc/autograd/profiler_kineto.h>

#include <set>

namespace {

namespace kineto = torch::autograd::profiler;
using torch::profiler::impl::ActivityType;
using torch::profiler::impl::ProfilerConfig;
using torch::profiler::impl::ProfilerState;

}  // namespace

extern "C" {

// Begins a recording of this thread, of autograd's threads for it and, with `cuda`, of the devices.
int tw_operators_begin(int cuda) {
  return shim::guarded([&] {
    const ProfilerConfig config(ProfilerState::KINETO);
    std::set<ActivityType> activities{ActivityType::CPU};
    if (cuda) activities.insert(ActivityType::CUDA);
    kineto::prepareProfiler(config, activities);
    kineto::enableProfiler(config, activities);
  });
}

// Ends the recording on the thread that began it, and writes its trace to `path`.
int tw_operators_end(const char* path) {
  return shim::guarded([&] { kineto::disableProfiler()->save(path); });
}

}  // extern "C"
