// TransientTensor: a tensor whose memory is released and allocated again many times, while views of
// the tensor remain valid objects. Chunks use this for whole weights and whole gradients that are
// on the device only temporarily.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "colossal/memory/memory_ledger.h"

namespace colossal::memory {

// A tensor that has memory only between take() and give(), like all views of its storage. Whoever
// reads or writes it without memory gets a c10::Error that says so. On the
// CPU, the memory of a large tensor that give() releases is kept for the next allocation of the
// same size (own_pages.h).
class TransientTensor {
 public:
  // Constructs the tensor, [numel], without memory. Views of it can be made only while it has
  // memory; they stay valid objects afterwards. kind: the kind under which the memory is counted.
  TransientTensor(int64_t numel, at::ScalarType type, at::Device device, MemoryKind kind);

  const at::Tensor& tensor() const { return tensor_; }
  bool here() const { return here_; }  // whether the tensor has memory
  // Allocates the memory, with arbitrary contents. Does nothing if the tensor has memory.
  void take();
  // Moves the memory of `storage`, with its contents, into this tensor, and returns true. `storage`
  // then has no memory, so nothing may use it afterwards. Returns false and does nothing if this
  // tensor has memory already, or if the sizes in bytes differ.
  bool take_from(const c10::Storage& storage);
  // Releases the memory. Does nothing if the tensor has none.
  void give();

 private:
  void hold(c10::DataPtr memory);  // makes `memory` the memory of the tensor

  MemoryKind kind_;
  at::Tensor tensor_;  // [numel]
  int64_t bytes_;
  bool here_ = true;  // the constructor allocates memory, then calls give()
};

}  // namespace colossal::memory
