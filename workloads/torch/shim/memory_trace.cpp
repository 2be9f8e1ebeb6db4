// Records every allocation and release of one device's tensor memory, and the operations that they belong to,
// in order.
//
// On the CPU the shim's allocator reports them. On CUDA the caching allocator reports them to the place in
// the thread that PyTorch's memory profiler would use; autograd passes that place on to its threads. The
// begin and end of operations come from the callbacks of PyTorch's profiler, which autograd passes on as
// well.
#include "memory_trace.h"

#include "shim.h"

#include <ATen/record_function.h>
#include <c10/core/Allocator.h>
#include <c10/util/ThreadLocalDebugInfo.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

namespace {

// Bytes that were taken, negative where they were given back; 0 where an operation begins or ends.
struct Event {
  int64_t bytes;
  // 1 where an operation begins, -1 where it ends, 0 for bytes.
  int64_t nesting;
};

std::atomic<bool> recording_cpu{false};
std::mutex events_lock;
std::vector<Event> events;
at::CallbackHandle callback = at::INVALID_CALLBACK_HANDLE;

void note(Event event) {
  const std::lock_guard<std::mutex> held(events_lock);
  events.push_back(event);
}

std::unique_ptr<at::ObserverContext> note_begin(const at::RecordFunction&) {
  note({0, 1});
  return nullptr;
}

void note_end(const at::RecordFunction&, at::ObserverContext*) { note({0, -1}); }

struct CudaReports final : c10::MemoryReportingInfoBase {
  void reportMemoryUsage(void*, int64_t bytes, size_t, size_t, c10::Device device) override {
    if (device.is_cuda()) note({bytes, 0});
  }
  bool memoryProfilingEnabled() const override { return true; }
};

}  // namespace

void shim::note_cpu_memory(int64_t bytes) noexcept {
  if (recording_cpu.load(std::memory_order_relaxed)) note({bytes, 0});
}

extern "C" {

// Starts a new recording. On CUDA it contains the work of this thread and of autograd's threads for it.
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
    callback = at::addThreadLocalCallback(at::RecordFunctionCallback(note_begin, note_end));
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
    at::removeCallback(callback);
    if (cuda) c10::ThreadLocalDebugInfo::_pop(c10::DebugInfoKind::PROFILER_STATE);
  });
}

// Copies the first `count` events, which must exist.
void tw_memory_trace_read(Event* into, size_t count) {
  const std::lock_guard<std::mutex> held(events_lock);
  std::copy_n(events.begin(), count, into);
}

}  // extern "C"
