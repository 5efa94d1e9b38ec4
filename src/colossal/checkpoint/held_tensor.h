// A StoredTensor (stored_tensor.h) whose values are in memory. Quantized tensors return their
// scales and zero points as HeldTensors.
#pragma once

#include <cstring>
#include <utility>
#include <vector>

#include "colossal/checkpoint/stored_tensor.h"

namespace colossal::checkpoint {

class HeldTensor : public StoredTensor {
 public:
  // of: the tensor to which the values belong, e.g. as its scales; the HeldTensor gets its name()
  // and file(). shape: of the HeldTensor. values: its flattened values.
  HeldTensor(const StoredTensor& of, std::vector<int64_t> shape, std::vector<float> values)
      : StoredTensor(of.name(), of.file(), std::move(shape), at::kFloat),
        values_(std::move(values)) {}

  // Fills `destination` with the values from element `first` on, as float. The caller ensures that
  // there are as many values as fit into `destination`.
  void read(int64_t first, std::span<std::byte> destination) const override {
    std::memcpy(destination.data(), values_.data() + first, destination.size());
  }

 private:
  std::vector<float> values_;
};

}  // namespace colossal::checkpoint
