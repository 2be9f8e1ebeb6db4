#include "shim.h"

namespace {
thread_local std::string last_error;
}

void shim::remember_error(const std::string& message) noexcept {
  try {
    last_error = message;
  } catch (...) {
    last_error.clear();
  }
}

// The message of this thread's last failure, valid until its next one.
extern "C" const char* tw_last_error() { return last_error.c_str(); }
