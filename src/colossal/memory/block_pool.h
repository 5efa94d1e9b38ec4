// Memory that comes and goes with every chunk: blocks that were given back are lent again, to
// weights what gradients had and the other way round, so that the system need not make new pages
// each time.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "colossal/memory/memory_ledger.h"

namespace colossal::memory {

class BlockPool {
 public:
  // At most `max_free` blocks wait to be lent again.
  BlockPool(at::Device device, size_t max_free) : device_(device), max_free_(max_free) {}

  struct Block {
    c10::DataPtr data;
    int64_t bytes = 0;
  };
  // At least `bytes`, and no more than a quarter over, counted as `kind`; contents are arbitrary.
  Block take(int64_t bytes, MemoryKind kind);
  void give(Block block);

 private:
  at::Device device_;
  size_t max_free_;
  std::vector<Block> free_;  // the one that was given first is the first
};

// A tensor that has memory only between take() and give(); views of its storage follow it.
class LentTensor {
 public:
  // Taken from the start, so that views can be made of it.
  LentTensor(int64_t numel, at::ScalarType type, at::Device device, MemoryKind kind,
             BlockPool& pool);

  const at::Tensor& tensor() const { return tensor_; }
  bool here() const { return here_; }
  void take();  // does nothing where it is here
  void give();

 private:
  BlockPool& pool_;
  MemoryKind kind_;
  at::Tensor tensor_;  // [numel]
  int64_t bytes_;
  int64_t block_bytes_;
  bool here_ = true;
};

}  // namespace colossal::memory
