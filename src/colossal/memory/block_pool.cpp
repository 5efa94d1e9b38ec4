#include "colossal/memory/block_pool.h"

#include <ATen/ops/empty.h>
#include <c10/core/Allocator.h>

#include <algorithm>
#include <utility>

namespace colossal::memory {

BlockPool::Block BlockPool::take(int64_t bytes, MemoryKind kind) {
  auto best = free_.end();
  for (auto block = free_.begin(); block != free_.end(); ++block) {
    const bool fits = block->bytes >= bytes && block->bytes <= bytes + bytes / 4;
    if (fits && (best == free_.end() || block->bytes < best->bytes)) best = block;
  }
  if (best != free_.end()) {
    Block found = std::move(*best);
    free_.erase(best);
    count_as(found.data, kind);
    return found;
  }
  // What is free makes way, so that blocks that wait add nothing to the largest that come.
  for (int64_t left = bytes; left > 0 && !free_.empty(); free_.erase(free_.begin())) {
    left -= free_.front().bytes;
  }
  const MemoryKindScope scope(kind);
  return {c10::GetAllocator(device_.type())->allocate(bytes), bytes};
}

void BlockPool::give(Block block) {
  free_.push_back(std::move(block));
  // The oldest goes: what was used last fits what comes next best.
  if (free_.size() > max_free_) free_.erase(free_.begin());
}

LentTensor::LentTensor(int64_t numel, at::ScalarType type, at::Device device, MemoryKind kind,
                       BlockPool& pool)
    : pool_(pool),
      kind_(kind),
      bytes_(numel * static_cast<int64_t>(c10::elementSize(type))),
      block_bytes_(bytes_) {
  const MemoryKindScope scope(kind);
  tensor_ = at::empty({numel}, at::TensorOptions().dtype(type).device(device));
}

void LentTensor::take() {
  if (here_) return;
  BlockPool::Block block = pool_.take(bytes_, kind_);
  block_bytes_ = block.bytes;
  c10::StorageImpl* const storage = tensor_.storage().unsafeGetStorageImpl();
  storage->set_data_ptr_noswap(std::move(block.data));
  storage->set_nbytes(static_cast<size_t>(bytes_));
  here_ = true;
}

void LentTensor::give() {
  if (!here_) return;
  c10::StorageImpl* const storage = tensor_.storage().unsafeGetStorageImpl();
  pool_.give({storage->set_data_ptr(c10::DataPtr(nullptr, tensor_.device())), block_bytes_});
  storage->set_nbytes(0);
  here_ = false;
}

}  // namespace colossal::memory
