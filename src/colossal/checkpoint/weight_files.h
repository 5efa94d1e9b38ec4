// Which weights a checkpoint has, and where its files store them.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "colossal/layout/tensor_slice.h"

namespace colossal::checkpoint {

// Returns where files store the weights of the parameter of this name.
using SliceOf = std::function<TensorSlice(const std::string& parameter)>;

// Which weights a checkpoint has, and the names of their files.
struct WeightFiles {
  std::string config = "config.json";  // name of the file that describes the model or adapter
  // NAME in the names of the files of weights, NAME-00001-of-0000N.safetensors, and of their index,
  // NAME.safetensors.index.json.
  std::string name = "model";
  // True: the checkpoint has only the adapter's weights, in the one file NAME.safetensors.
  bool only_adapter = false;
  // Maximum bytes of tensors in one file. A larger tensor has a file of its own.
  int64_t max_file_bytes = int64_t{4} << 30;
};

}  // namespace colossal::checkpoint
