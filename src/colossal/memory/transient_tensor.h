// Memory of whole weights and whole gradients, which is allocated and released chunk by chunk.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "colossal/memory/memory_ledger.h"

namespace colossal::memory {

// A tensor that has memory only between take() and give(); so have views of its storage. On the
// CPU, large blocks are kept for the next take() (own_pages.h).
class TransientTensor {
 public:
  // Constructed without memory; views can already be made.
  TransientTensor(int64_t numel, at::ScalarType type, at::Device device, MemoryKind kind);

  const at::Tensor& tensor() const { return tensor_; }
  bool here() const { return here_; }
  void take();  // allocates, with arbitrary contents; no effect if this has memory
  // Moves the memory of `storage`, with its contents, into this tensor. `storage`, whose owner is
  // about to release it, becomes empty. Returns false and does nothing if this tensor has memory
  // already or the sizes differ.
  bool take_from(const c10::Storage& storage);
  void give();  // releases the memory; no effect if this has none

 private:
  void hold(c10::DataPtr memory);

  MemoryKind kind_;
  at::Tensor tensor_;  // [numel]
  int64_t bytes_;
  bool here_ = true;
};

}  // namespace colossal::memory
