// Exact tensor memory: on the CPU through an allocator of our own, on CUDA from PyTorch's caching allocator.
#include "memory_trace.h"
#include "shim.h"

#include <ATen/core/CachingHostAllocator.h>
#include <c10/core/CPUAllocator.h>
#include <c10/core/CachingDeviceAllocator.h>

#include <malloc.h>

#include <atomic>
#include <cstdlib>
#include <limits>
#include <new>

namespace {

std::atomic<int64_t> allocated_bytes{0};
std::atomic<int64_t> peak_bytes{0};
std::atomic<int64_t> limit_bytes{std::numeric_limits<int64_t>::max()};

// The size lies in front of the data. `Allocator::raw_allocate`, which oneDNN's kernels use, insists that a block's
// context is the data pointer itself, so a separate context object could not carry it. One cache line keeps the data
// on the 64-byte boundary that PyTorch's own allocator gives, which its vectorised kernels are tuned for.
struct alignas(64) Header {
  int64_t bytes;
};
static_assert(sizeof(Header) == 64);

void release(void* data) {
  if (data == nullptr) return;
  Header* header = static_cast<Header*>(data) - 1;
  allocated_bytes.fetch_sub(header->bytes, std::memory_order_relaxed);
  shim::note_cpu_memory(-header->bytes);
  std::free(header);
}

void raise_peak_to(int64_t bytes) {
  int64_t peak = peak_bytes.load(std::memory_order_relaxed);
  while (bytes > peak && !peak_bytes.compare_exchange_weak(peak, bytes, std::memory_order_relaxed)) {
  }
}

// Does per tensor what PyTorch's default does, one aligned allocation and nothing else, plus four relaxed atomics.
struct CountingAllocator final : at::Allocator {
  at::DataPtr allocate(size_t size) override {
    const at::Device cpu(at::kCPU);
    if (size == 0) return {nullptr, nullptr, &release, cpu};
    const auto bytes = static_cast<int64_t>(size);
    const int64_t after = allocated_bytes.fetch_add(bytes, std::memory_order_relaxed) + bytes;
    const int64_t limit = limit_bytes.load(std::memory_order_relaxed);
    void* base = nullptr;
    if (after > limit || posix_memalign(&base, alignof(Header), sizeof(Header) + size) != 0) {
      allocated_bytes.fetch_sub(bytes, std::memory_order_relaxed);
      const std::string of_limit = after > limit ? c10::str(" of the ", limit, " that are allowed") : "";
      TORCH_CHECK_WITH(OutOfMemoryError, false, "CPU out of memory: tried to allocate ", bytes, " bytes with ",
                       after - bytes, " bytes of tensors allocated", of_limit);
    }
    raise_peak_to(after);
    shim::note_cpu_memory(bytes);
    void* data = new (base) Header{bytes} + 1;
    return {data, data, &release, cpu};
  }
  at::DeleterFnPtr raw_deleter() const override { return &release; }
  void copy_data(void* to, const void* from, size_t count) const override { default_copy_data(to, from, count); }
};

at::DeviceAllocator* cuda_allocator() { return at::getDeviceAllocator(at::kCUDA); }

}  // namespace

extern "C" {

// Tensors made earlier keep their own deleter and are not counted: call before the first one.
void tw_cpu_counting_install() {
  static CountingAllocator allocator;
  // Above the priority 0 of every allocator that PyTorch sets itself.
  c10::SetCPUAllocator(&allocator, 200);
}

// Every step frees its activations and takes as much again. By default glibc gives large blocks back to the kernel when
// they are freed, and each page is then cleared and mapped anew: up to a fifth of a step on a CPU. PyTorch's tuning guide
// advises allocators that do not; glibc itself can be told.
int tw_keep_freed_memory() {
  return shim::guarded([] {
    constexpr int never = -1;
    // Larger blocks always come from the kernel; glibc refuses a larger number.
    constexpr int largest_kept_bytes = 32 << 20;
    TORCH_CHECK(mallopt(M_TRIM_THRESHOLD, never) == 1 && mallopt(M_MMAP_THRESHOLD, largest_kept_bytes) == 1,
                "mallopt refuses to keep freed memory");
  });
}

// What is allocated already stays, whatever the limit.
void tw_cpu_limit(int64_t bytes) { limit_bytes.store(bytes, std::memory_order_relaxed); }

void tw_cpu_memory(int64_t* allocated, int64_t* peak) {
  *allocated = allocated_bytes.load(std::memory_order_relaxed);
  *peak = peak_bytes.load(std::memory_order_relaxed);
}

// Exact only while no other thread allocates, as between two steps.
void tw_cpu_reset_peak() { peak_bytes.store(allocated_bytes.load(std::memory_order_relaxed), std::memory_order_relaxed); }

int tw_cuda_memory(int device, int64_t* allocated, int64_t* reserved, int64_t* peak, int64_t* retries) {
  return shim::guarded([&] {
    constexpr auto all_pools = static_cast<size_t>(c10::CachingAllocator::StatType::AGGREGATE);
    const auto statistics = cuda_allocator()->getDeviceStats(static_cast<c10::DeviceIndex>(device));
    *allocated = statistics.allocated_bytes[all_pools].current;
    *reserved = statistics.reserved_bytes[all_pools].current;
    *peak = statistics.allocated_bytes[all_pools].peak;
    *retries = statistics.num_alloc_retries;
  });
}

// Memory of the host that is page-locked for CUDA and in use; what the allocator keeps for later is left out.
int tw_page_locked_bytes(int64_t* bytes) {
  return shim::guarded([&] {
    at::HostAllocator* const allocator = at::getHostAllocator(at::kCUDA);
    TORCH_CHECK(allocator != nullptr, "libtorch has no allocator of page-locked memory for CUDA");
    *bytes = allocator->get_stats().active_bytes.current;
  });
}

// Gives back to the kernel what the C library keeps of freed memory.
void tw_cpu_give_back() { malloc_trim(0); }

// Gives back to CUDA what the caching allocator keeps of freed memory, on all devices.
int tw_cuda_give_back() {
  return shim::guarded([] { cuda_allocator()->emptyCache(); });
}

int tw_cuda_reset_peak(int device) {
  return shim::guarded([&] { cuda_allocator()->resetPeakStats(static_cast<c10::DeviceIndex>(device)); });
}

}  // extern "C"
