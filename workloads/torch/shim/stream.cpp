// Streams of a CUDA device: what is queued in one of them does not wait for what is queued in another.
#include "shim.h"

#include <c10/core/Stream.h>
#include <c10/core/impl/VirtualGuardImpl.h>

extern "C" {

// A stream of PyTorch's own pool, which outlives the program's use of it.
int tw_stream_of_pool(int device, int64_t* stream) {
  return shim::guarded([&] {
    const c10::impl::VirtualGuardImpl cuda(at::kCUDA);
    *stream = cuda.getStreamFromGlobalPool(c10::Device(at::kCUDA, static_cast<c10::DeviceIndex>(device))).id();
  });
}

// From here on `device` works in `stream` for this thread; `previous` is where it did.
int tw_stream_exchange(int device, int64_t stream, int64_t* previous) {
  return shim::guarded([&] {
    const c10::impl::VirtualGuardImpl cuda(at::kCUDA);
    const c10::Device target(at::kCUDA, static_cast<c10::DeviceIndex>(device));
    *previous = cuda.exchangeStream(c10::Stream(c10::Stream::UNSAFE, target, stream)).id();
  });
}

}  // extern "C"
