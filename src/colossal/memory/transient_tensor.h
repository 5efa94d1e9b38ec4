// Whole weights, and gradients, that come and go with every chunk.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "colossal/memory/memory_ledger.h"

namespace colossal::memory {

// A tensor that has memory only between take() and give(); views of its storage follow it. The
// allocators keep its pages for the next take() (install_allocators()).
class TransientTensor {
 public:
  // Made without memory; views of it can be made already.
  TransientTensor(int64_t numel, at::ScalarType type, at::Device device, MemoryKind kind);

  const at::Tensor& tensor() const { return tensor_; }
  bool here() const { return here_; }
  void take();  // contents are arbitrary; does nothing where it is here
  // Takes the memory of `storage` with its contents and leaves `storage`, which its owner is about
  // to release, empty. Returns false and does nothing if this has memory already or the sizes
  // differ.
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
