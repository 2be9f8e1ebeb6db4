#include "shim.h"

#include <string>

namespace {
thread_local std::string last_error;
}

void shim::remember_error(std::string_view message) noexcept {
  try {
    last_error.assign(message);
  } catch (...) {
    last_error.clear();
  }
}

extern "C" {

const char* tw_last_error() { return last_error.c_str(); }

// Stores a message of `length` bytes from Rust, after C++ called Rust and it failed.
void tw_remember_error(const char* message, size_t length) { shim::remember_error({message, length}); }

}  // extern "C"
