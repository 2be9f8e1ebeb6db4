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

// Gives the memory of `tensor` back. Its views keep their shapes and must not be read until it is allocated again.
int tw_storage_free(const at::Tensor* tensor) {
  return shim::guarded([&] {
    auto* storage = tensor->storage().unsafeGetStorageImpl();
    storage->set_data_ptr_noswap(at::DataPtr(nullptr, storage->device()));
    storage->set_nbytes(0);
  });
}

// New memory of `bytes` bytes for a tensor whose memory was given back, and for its views.
int tw_storage_allocate(const at::Tensor* tensor, int64_t bytes) {
  return shim::guarded([&] {
    auto* storage = tensor->storage().unsafeGetStorageImpl();
    TORCH_CHECK(storage->allocator() != nullptr, "the memory of a tensor is not the allocator's");
    storage->set_data_ptr_noswap(storage->allocator()->allocate(bytes));
    storage->set_nbytes(bytes);
  });
}

}  // extern "C"
