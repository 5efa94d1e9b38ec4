// Writes folders whose products have weights in few bits, in the form of compressed-tensors, which
// transformers and vLLM read: integers as "pack-quantized" (packed_integers.h), E4M3 as
// "float-quantized" (stored_tensor.h).
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

// Of each tensor [outputs, inputs] that is to be in few bits, by its name in the folder: how. The
// inputs of an output are whole groups.
using QuantizedTensors = std::map<std::string, ops::Quantization>;

class CompressedFolder {
 public:
  // Creates `folder` with files as large as they will be, one for each of `source`, which outlives
  // it. Throws IoError.
  CompressedFolder(const WeightFolder& source, std::filesystem::path folder,
                   QuantizedTensors quantized);
  ~CompressedFolder();

  // Takes these rows of a tensor, in order, which must be quantized as was said. The tensor is
  // written when all its rows are here.
  void write(const std::string& tensor, const std::vector<Range>& rows,
             const ops::QuantizedMatrix& matrix);
  // Takes these rows of a tensor that stays as it is in other respects.
  void change(const std::string& tensor, const std::vector<Range>& rows, const at::Tensor& values);
  // Copies what nobody has written, and waits until the disk has all.
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

// The quantization_config of such a folder. ignored: names of modules that stay as they are.
nlohmann::ordered_json compressed_config(const QuantizedTensors& quantized,
                                         const std::vector<std::string>& ignored);

}  // namespace colossal::checkpoint
