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

// Quantization of each tensor [outputs, inputs] that is to be quantized, by its name in the folder.
// The number of inputs is a multiple of the group size.
using QuantizedTensors = std::map<std::string, ops::Quantization>;

class CompressedFolder {
 public:
  // Creates `folder` with files of their final size, one for each file of `source`. `source` must
  // outlive this. Throws IoError.
  CompressedFolder(const WeightFolder& source, std::filesystem::path folder,
                   QuantizedTensors quantized);
  ~CompressedFolder();

  // Adds rows of a tensor. They must be quantized as `quantized` declares. rows: row ranges, in
  // order; empty: all rows. Writes the tensor once all its rows are added.
  void write(const std::string& tensor, const std::vector<Range>& rows,
             const ops::QuantizedMatrix& matrix);
  // Replaces rows of a tensor that is not quantized.
  void change(const std::string& tensor, const std::vector<Range>& rows, const at::Tensor& values);
  // Copies all other tensors from `source`, and waits until everything is on disk.
  void finish();

 private:
  struct Shard;
  struct Pending;

  void add_shard(const io::SafetensorsReader& file);
  void write_bytes(const std::string& tensor, std::span<const std::byte> bytes);
  void write_whole_matrix(const std::string& tensor, const Pending& pending);
  void write_index(bool several) const;

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
