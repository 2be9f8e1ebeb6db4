// Which memory a tensor lies in.
#include "shim.h"

extern "C" {

// Two tensors with the same `storage` share their memory, which has `bytes` bytes. `first` is the offset of
// the tensor in it, in its own numbers.
int tw_storage(const at::Tensor* tensor, const void** storage, int64_t* bytes, int64_t* first) {
  return shim::guarded([&] {
    *storage = tensor->storage().unsafeGetStorageImpl();
    *bytes = static_cast<int64_t>(tensor->storage().nbytes());
    *first = tensor->storage_offset();
  });
}

}  // extern "C"
