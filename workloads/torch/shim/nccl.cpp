// NCCL's process group, in a shared library of its own.
//
// The class is in libtorch_cuda, which the program is not linked to. So this one is opened at run time, after
// libtorch_cuda, and finds there what it needs. It exists where NCCL's and CUDA's headers did when it was built.
#define USE_C10D_NCCL

#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>

// Meets the other ranks through `store`. Throws what PyTorch throws: the caller catches.
extern "C" void tw_nccl_backend(const c10::intrusive_ptr<c10d::Store>& store, int rank, int size,
                                std::chrono::milliseconds timeout, c10::intrusive_ptr<c10d::Backend>& backend) {
  auto options = c10d::ProcessGroupNCCL::Options::create();
  options->timeout = timeout;
  backend = c10::make_intrusive<c10d::ProcessGroupNCCL>(store, rank, size, options);
}
