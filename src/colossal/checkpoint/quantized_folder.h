// Writes folders with quantized weights in a published format.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "colossal/base/range.h"
#include "colossal/checkpoint/packed_format.h"
#include "colossal/checkpoint/stored_tensor.h"
#include "colossal/io/file.h"
#include "colossal/io/safetensors.h"
#include "colossal/ops/quantized_matrix.h"

namespace colossal::checkpoint {

class QuantizedFolder {
 public:
  // Creates `folder` with one weight file, of its final size, for each file of `source`. The number
  // of inputs of each quantized weight must be a multiple of its group size. `source` and `format`
  // must outlive this. Not thread-safe. All functions throw IoError. Throws ConfigError if the
  // format cannot hold these weights.
  QuantizedFolder(const WeightFolder& source, std::filesystem::path folder,
                  const PackedFormat& format, QuantizedTensors quantized);
  ~QuantizedFolder();

  // Adds quantized rows of a weight, one for each output. `quantized` must have the weight with
  // this quantization. rows: ranges of the weight's outputs, for the rows of `matrix` in their
  // order; empty: all outputs. The weight is written to its file once all its rows have been added.
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
  void write_whole_matrix(const std::string& tensor, const UnpackedMatrix& matrix);
  void write_index(bool several) const;  // several: the folder needs an index file

  const WeightFolder& source_;
  std::filesystem::path folder_;
  const PackedFormat& format_;
  QuantizedTensors quantized_;
  std::vector<std::unique_ptr<Shard>> shards_;
  std::map<std::string, std::unique_ptr<Pending>> pending_;
  std::map<std::string, at::Tensor> changed_;
};

}  // namespace colossal::checkpoint
