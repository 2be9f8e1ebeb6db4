// Where the allocator of the CPU reports to; see memory_trace.cpp.
#pragma once

#include <cstdint>

namespace shim {

// Notes that CPU tensors allocated this number of bytes, or released them if negative. Costs one load without
// a recording.
void note_cpu_memory(int64_t bytes) noexcept;

}  // namespace shim
