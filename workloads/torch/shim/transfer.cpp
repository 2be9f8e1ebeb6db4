// Copies between host and device that the host does not wait for, and the memory that they can go on from by themselves.
#include "shim.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
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

// `line` is a new tensor of `count` numbers of the kind of `like`, in page-locked memory of the host.
int tw_page_locked(const at::Tensor* like, int64_t count, at::Tensor** line) {
  return shim::guarded([&] {
    const auto options = at::TensorOptions().dtype(like->scalar_type()).device(at::kCPU).pinned_memory(true);
    *line = new at::Tensor(at::empty({count}, options));
  });
}

// Queues the copies of `count` tensors into others of the same shapes. Between tensors of the host they are made at once.
int tw_copy_all(size_t count, at::Tensor* const* to, at::Tensor* const* from) {
  return shim::guarded([&] {
    at::NoGradGuard no_grad;
    for (size_t i = 0; i < count; i++) to[i]->copy_(*from[i], /*non_blocking=*/true);
  });
}

// Returns when `device` has done all that was queued.
int tw_cuda_wait(int device) {
  return shim::guarded([&] {
    c10::impl::VirtualGuardImpl(at::kCUDA).synchronizeDevice(static_cast<c10::DeviceIndex>(device));
  });
}

}  // extern "C"
