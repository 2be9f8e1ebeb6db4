// What c10d's ProcessGroupGloo.hpp says of Gloo, in place of Gloo's own headers, which PyTorch does not ship.
//
// The class is compiled into libtorch_cpu with the real ones. Here it is only made and called: what it holds of Gloo
// it holds by pointer, so these types can stay without a body, and no object of them is ever made, laid out or looked
// into on this side. Its inline functions name the members below, and the compiler has to have heard of them. The
// files are those that its header includes. A version of PyTorch that uses more of Gloo does not compile, which is when
// to look here again.
#pragma once

#include <chrono>

namespace gloo {

class Context {
 public:
  void setTimeout(std::chrono::milliseconds timeout);
};

}  // namespace gloo
