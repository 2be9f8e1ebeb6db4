// Where the allocator of the CPU reports to; see memory_trace.cpp.
#pragma once

#include <cstdint>

namespace shim {

// Notes that CPU tensors took so many bytes, or gave them back where negative. Costs one load while nobody records.
void note_cpu_memory(int64_t bytes) noexcept;

}  // namespace shim
