// Every allocation and every release of one device's tensor memory, in order, while somebody records them.
//
// On the CPU our own allocator reports them. On CUDA the caching allocator does, to what PyTorch's memory profiler would
// put in the same place of the thread; autograd hands that place on to its own threads.
#include "memory_trace.h"

#include "shim.h"

#include <c10/core/Allocator.h>
#include <c10/util/ThreadLocalDebugInfo.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

namespace {

std::atomic<bool> recording_cpu{false};
std::mutex events_lock;
std::vector<int64_t> events;

void note(int64_t bytes) {
  const std::lock_guard<std::mutex> held(events_lock);
  events.push_back(bytes);
}

struct CudaReports final : c10::MemoryReportingInfoBase {
  void reportMemoryUsage(void*, int64_t bytes, size_t, size_t, c10::Device device) override {
    if (device.is_cuda()) note(bytes);
  }
  bool memoryProfilingEnabled() const override { return true; }
};

}  // namespace

void shim::note_cpu_memory(int64_t bytes) noexcept {
  if (recording_cpu.load(std::memory_order_relaxed)) note(bytes);
}

extern "C" {

// Begins anew. On CUDA what this thread does is recorded, and what autograd's threads do for it.
int tw_memory_trace_begin(int cuda) {
  return shim::guarded([&] {
    {
      const std::lock_guard<std::mutex> held(events_lock);
      events.clear();
    }
    if (cuda) {
      c10::ThreadLocalDebugInfo::_push(c10::DebugInfoKind::PROFILER_STATE, std::make_shared<CudaReports>());
    } else {
      recording_cpu = true;
    }
  });
}

size_t tw_memory_trace_length() {
  const std::lock_guard<std::mutex> held(events_lock);
  return events.size();
}

// Ends the recording on the thread that began it. The events stay until the next one begins.
int tw_memory_trace_end(int cuda) {
  return shim::guarded([&] {
    recording_cpu = false;
    if (cuda) c10::ThreadLocalDebugInfo::_pop(c10::DebugInfoKind::PROFILER_STATE);
  });
}

// Copies the first `count` events, of which there are at least so many.
void tw_memory_trace_read(int64_t* into, size_t count) {
  const std::lock_guard<std::mutex> held(events_lock);
  std::copy_n(events.begin(), count, into);
}

}  // extern "C"
