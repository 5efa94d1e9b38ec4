// Writes the weights of a folder, some of them quantized, in a published format (packed_format.h).
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
#include "colossal/ops/product/quantized_matrix.h"

namespace colossal::checkpoint {

// Writes the weight files of a folder, and their index if one is needed. The caller passes each row
// of each quantized tensor to write() once, in any order, and then calls finish(). Without
// finish(), the folder is incomplete. Not thread-safe. Functions throw IoError if a file cannot be
// read or written, and InternalError if the caller breaks these rules.
class QuantizedFolder {
 public:
  // Creates `folder` with one weight file of its final size for each file of `source`, and an index
  // unless model.safetensors is the only weight file. `source` and `format` must outlive this
  // object. quantized: the name, sizes and quantization of each tensor to be quantized. If the
  // quantization has groups (group above 0), the tensor's number of inputs must be a multiple of
  // the group size. All other tensors are copied from `source` unless change() changes them. Throws
  // ConfigError if the format cannot hold these weights.
  QuantizedFolder(const WeightFolder& source, std::filesystem::path folder,
                  const PackedFormat& format, QuantizedTensors quantized);
  ~QuantizedFolder();

  // Adds quantized rows of a tensor of `quantized`, one row for each output. matrix.how must be the
  // tensor's quantization. rows: which outputs of the tensor the rows of `matrix` are, in order;
  // empty: all outputs. When all rows of the tensor were added, writes the tensor to its file.
  void write(const std::string& tensor, const std::vector<Range>& rows,
             const ops::QuantizedMatrix& matrix);
  // Replaces rows of a tensor that is not quantized. values: the new rows, in any floating-point
  // dtype; they are rounded to the tensor's dtype. rows: which rows of the tensor they are, in
  // order; empty: all rows. Rows that no call replaces keep their values in `source`. The tensor
  // stays in memory until finish().
  void change(const std::string& tensor, const std::vector<Range>& rows, const at::Tensor& values);
  // Writes the changed tensors, copies all tensors that were neither quantized nor changed from
  // `source`, and waits until everything is on disk.
  void finish();

 private:
  struct Shard;    // a file that is being written
  struct Pending;  // a quantized tensor of which rows are missing

  // Creates the file for a file of the source folder.
  void add_shard(const io::SafetensorsReader& file);
  // Writes all bytes of a tensor to its file. tensor: its name in the new folder.
  void write_bytes(const std::string& tensor, std::span<const std::byte> bytes);
  // Writes the codes, scales and zero points of a quantized tensor.
  void write_whole_matrix(const std::string& tensor, const UnpackedMatrix& matrix);
  // Writes the index if `several` is true: the folder has several weight files, or one of another
  // name than model.safetensors.
  void write_index(bool several) const;

  const WeightFolder& source_;
  std::filesystem::path folder_;
  const PackedFormat& format_;
  QuantizedTensors quantized_;
  std::vector<std::unique_ptr<Shard>> shards_;
  std::map<std::string, std::unique_ptr<Pending>> pending_;  // by the tensor's name
  std::map<std::string, at::Tensor> changed_;                // by the tensor's name
};

}  // namespace colossal::checkpoint
