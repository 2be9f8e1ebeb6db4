// Copies from host to device that the host does not wait for.
#include "shim.h"

#include <c10/core/impl/VirtualGuardImpl.h>

extern "C" {

// `copy` is a new tensor on `device` with the values and the layout of `host`, once the device has come to it.
int tw_to_cuda(const at::Tensor* host, int device, at::Tensor** copy) {
  return shim::guarded([&] {
    const c10::Device target(at::kCUDA, static_cast<c10::DeviceIndex>(device));
    // Only from page-locked memory does a copy go on by itself. The page-locked tensor may die before it has been
    // read: PyTorch's caching host allocator remembers the stream of every such copy, marks it when the memory is
    // freed, and hands the memory out again only when the device has come by that mark.
    *copy = new at::Tensor(host->pin_memory().to(target, host->scalar_type(), /*non_blocking=*/true));
  });
}

// Returns when `device` has done all that was queued.
int tw_cuda_wait(int device) {
  return shim::guarded([&] {
    c10::impl::VirtualGuardImpl(at::kCUDA).synchronizeDevice(static_cast<c10::DeviceIndex>(device));
  });
}

}  // extern "C"
