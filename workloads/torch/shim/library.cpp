// Which libtorch this is, and its switches.
#include "shim.h"

#include <ATen/Context.h>
#include <torch/version.h>

#include <cstdio>
#include <cstdlib>

extern "C" {

const char* tw_libtorch_version() { return TORCH_VERSION; }

// Denormal numbers count as zero from here on, on this thread and on those it starts. Returns whether the processor
// can. The decaying moments of rarely used embedding rows become denormal after some hundred steps, and arithmetic on
// those is many times slower: without this a launch would slow down as it goes.
int tw_flush_denormals() { return at::globalContext().setFlushDenormal(true); }

// Ends the process without the destructors of static objects.
[[noreturn]] void tw_leave(int code) {
  std::fflush(nullptr);
  std::_Exit(code);
}

}  // extern "C"
