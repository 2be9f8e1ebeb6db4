// Events: marks in a CUDA stream that tell when the device came by.
#include "shim.h"

#include <c10/core/Event.h>
#include <c10/core/impl/VirtualGuardImpl.h>

extern "C" {

// An event that keeps its time. CUDA makes what lies behind it at the first `record`.
int tw_event_new(c10::Event** event) {
  return shim::guarded([&] { *event = new c10::Event(at::kCUDA, c10::EventFlag::BACKEND_DEFAULT); });
}

void tw_event_delete(c10::Event* event) { delete event; }

// Marks the end of all that was queued so far in the stream that `device` works on for this thread. An event recorded
// again forgets its earlier mark.
int tw_event_record(c10::Event* event, int device) {
  return shim::guarded([&] {
    const c10::impl::VirtualGuardImpl cuda(at::kCUDA);
    event->record(cuda.getStream(c10::Device(at::kCUDA, static_cast<c10::DeviceIndex>(device))));
  });
}

// Makes later work in the stream that `device` uses for this thread wait for the mark, in any stream; does
// nothing without a recorded mark.
int tw_event_block(const c10::Event* event, int device) {
  return shim::guarded([&] {
    const c10::impl::VirtualGuardImpl cuda(at::kCUDA);
    event->block(cuda.getStream(c10::Device(at::kCUDA, static_cast<c10::DeviceIndex>(device))));
  });
}

// Whether the device has come by. An error of anything queued before the mark may surface here.
int tw_event_query(const c10::Event* event, int* done) {
  return shim::guarded([&] { *done = event->query(); });
}

// Both must have been come by. CUDA counts in single precision, in steps of about half a microsecond.
int tw_event_elapsed(const c10::Event* from, const c10::Event* to, double* milliseconds) {
  return shim::guarded([&] { *milliseconds = from->elapsedTime(*to); });
}

}  // extern "C"
