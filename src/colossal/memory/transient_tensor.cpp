#include "colossal/memory/transient_tensor.h"

#include <ATen/ops/empty.h>
#include <c10/core/Allocator.h>
#include <c10/core/DeviceGuard.h>
#include <fmt/format.h>

#include <utility>

namespace colossal::memory {

TransientTensor::TransientTensor(int64_t numel, at::ScalarType type, at::Device device,
                                 MemoryKind kind)
    : kind_(kind), bytes_(numel * static_cast<int64_t>(c10::elementSize(type))) {
  const MemoryKindScope scope(kind);
  tensor_ = at::empty({numel}, at::TensorOptions().dtype(type).device(device));
  give();
}

void TransientTensor::take() {
  if (here_) return;
  const MemoryKindScope scope(kind_);
  const c10::DeviceGuard device(tensor_.device());
  hold(c10::GetAllocator(tensor_.device().type())->allocate(bytes_));
}

bool TransientTensor::take_from(const c10::Storage& storage) {
  if (here_ || storage.nbytes() != static_cast<size_t>(bytes_)) return false;
  c10::StorageImpl* const from = storage.unsafeGetStorageImpl();
  hold(from->set_data_ptr(c10::DataPtr(nullptr, tensor_.device())));
  from->set_nbytes(0);
  count_as(tensor_.storage().data_ptr(), kind_);
  return true;
}

void TransientTensor::hold(c10::DataPtr memory) {
  c10::StorageImpl* const storage = tensor_.storage().unsafeGetStorageImpl();
  storage->clear_data_ptr_access_error_msg_();
  storage->set_data_ptr_noswap(std::move(memory));
  storage->set_nbytes(static_cast<size_t>(bytes_));
  here_ = true;
}

void TransientTensor::give() {
  if (!here_) return;
  c10::StorageImpl* const storage = tensor_.storage().unsafeGetStorageImpl();
  // Its size stays, so that views can be made. What reads it next would read from address 0.
  storage->set_data_ptr_noswap(c10::DataPtr(nullptr, tensor_.device()));
  storage->release_data_and_set_meta_custom_data_ptr_error_msg_(fmt::format(
      "{} of {} elements are not on this device now: they are sharded or offloaded, and "
      "here only while a layer of their pass uses them",
      memory_kind_name(kind_), tensor_.numel()));
  here_ = false;
}

}  // namespace colossal::memory
