// Whole weights, and gradients, that come and go with every chunk.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "colossal/memory/memory_ledger.h"

namespace colossal::memory {

// A tensor that has memory only between take() and give(); views of its storage follow it. That the
// system need not make new pages each time is the allocators' to see to (install_allocators).
class TransientTensor {
 public:
  // Without memory, but views can be made of it.
  TransientTensor(int64_t numel, at::ScalarType type, at::Device device, MemoryKind kind);

  const at::Tensor& tensor() const { return tensor_; }
  bool here() const { return here_; }
  void take();  // contents are arbitrary; does nothing where it is here
  // Takes the memory of `storage`, with what is in it, and leaves that empty: for an owner who is
  // about to let it go. False, and nothing is done, where it is here or of another size.
  bool take_from(const c10::Storage& storage);
  void give();

 private:
  void hold(c10::DataPtr memory);

  MemoryKind kind_;
  at::Tensor tensor_;  // [numel]
  int64_t bytes_;
  bool here_ = true;
};

}  // namespace colossal::memory
