// Writes folders with quantized weights in the format of compressed-tensors, which transformers and
// vLLM read: integers as "pack-quantized" (packed_integers.h), E4M3 as "float-quantized"
// (stored_tensor.h).
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "colossal/base/range.h"
#include "colossal/checkpoint/stored_tensor.h"
#include "colossal/io/file.h"
#include "colossal/io/safetensors.h"
#include "colossal/ops/quantized_matrix.h"

namespace colossal::checkpoint {

// How to quantize each tensor [outputs, inputs] that is to be quantized, by its name in `source`.
// The number of inputs must be a multiple of the group size.
using QuantizedTensors = std::map<std::string, ops::Quantization>;

class CompressedFolder {
 public:
  // Creates `folder` with one weight file, of its final size, for each file of `source`. `source`
  // must outlive this. Not thread-safe. All functions throw IoError.
  CompressedFolder(const WeightFolder& source, std::filesystem::path folder,
                   QuantizedTensors quantized);
  ~CompressedFolder();

  // Adds quantized rows of a tensor. `quantized` must have the tensor with this quantization. rows:
  // ranges of the tensor's rows, for the rows of `matrix` in their order; empty: all rows. The
  // tensor is written to its file once all its rows have been added.
  void write(const std::string& tensor, const std::vector<Range>& rows,
             const ops::QuantizedMatrix& matrix);
  // Replaces rows of a tensor that is not quantized. rows: as for write(). The changed tensor stays
  // in memory until finish() writes it.
  void change(const std::string& tensor, const std::vector<Range>& rows, const at::Tensor& values);
  // Writes the changed tensors, copies all others from `source`, and waits until everything is on
  // disk.
  void finish();

 private:
  struct Shard;    // a file that is being written
  struct Pending;  // a quantized tensor of which rows are missing

  void add_shard(const io::SafetensorsReader& file);
  void write_bytes(const std::string& tensor, std::span<const std::byte> bytes);
  void write_whole_matrix(const std::string& tensor, const Pending& pending);
  void write_index(bool several) const;  // several: the folder needs an index file

  const WeightFolder& source_;
  std::filesystem::path folder_;
  QuantizedTensors quantized_;
  std::vector<std::unique_ptr<Shard>> shards_;
  std::map<std::string, std::unique_ptr<Pending>> pending_;
  std::map<std::string, at::Tensor> changed_;
};

// Returns the quantization_config of the folder's config.json. ignored: names of modules that are
// not quantized.
nlohmann::ordered_json compressed_config(const QuantizedTensors& quantized,
                                         const std::vector<std::string>& ignored);

}  // namespace colossal::checkpoint
