// Buffers of a module in checkpoints: tensors that are no parameters, such as the running mean of a
// batch norm. All ranks have the same values. The files of weights store them beside the weights,
// where transformers looks for them.
#pragma once

#include <ATen/core/Tensor.h>

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "colossal/checkpoint/file_plan.h"
#include "colossal/io/checkpoint_directory.h"
#include "colossal/io/safetensors.h"

namespace colossal::checkpoint {

// Names and values. Of any dtype that files have; throws ConfigError for others, such as complex
// numbers of 128 bits.
using Buffers = std::vector<std::pair<std::string, at::Tensor>>;

std::vector<io::TensorSpec> specs_of(const Buffers& buffers);

// Writes the values to the files of `plan`, which has planned specs_of(buffers).
void write_buffers(io::DirectoryWriter& writer, const FilePlan& plan, const Buffers& buffers);

// Fills the buffers with the values in the files of weights of a folder. Throws ConfigError if one
// is missing there or has another shape or dtype.
void read_buffers(const std::filesystem::path& folder, const Buffers& buffers);

}  // namespace colossal::checkpoint
