// What tch lacks of libtorch, as C functions over `at::Tensor *`, which is what tch calls `C_tensor *`.
//
// Linked against libtorch_cpu and libc10 alone: CUDA is reached through PyTorch's device-generic interfaces, whose
// implementations register themselves when libtorch_cuda.so is opened at run time. So one binary serves machines
// with and without CUDA.
//
// Every function that can fail returns 0 for success and 1 for failure, and leaves its message for `tw_last_error`.
// No C++ exception crosses into Rust.
#pragma once

#include <ATen/core/Tensor.h>

#include <exception>
#include <string_view>
#include <vector>

// The message of this thread's last failure, valid until its next one.
extern "C" const char* tw_last_error();

namespace shim {

void remember_error(std::string_view message) noexcept;

template <typename Body>
int guarded(Body body) noexcept {
  try {
    body();
    return 0;
  } catch (const c10::Error& error) {
    // `what` would append a C++ backtrace of many lines.
    remember_error(error.what_without_backtrace());
  } catch (const std::exception& error) {
    remember_error(error.what());
  } catch (...) {
    remember_error("unknown C++ exception");
  }
  return 1;
}

// Handles on the same tensors: no data is copied.
inline std::vector<at::Tensor> tensor_list(at::Tensor* const* tensors, size_t count) {
  std::vector<at::Tensor> list;
  list.reserve(count);
  for (size_t i = 0; i < count; i++) list.push_back(*tensors[i]);
  return list;
}

}  // namespace shim
