// Reads the tensors of a model's folder as the values with which the model computes. Most tensors
// are stored as plain values. Published models also have quantized tensors, with scales in separate
// tensors. These formats are decoded ("value" is a decoded value, [out, in] the shape of a linear
// layer's weight):
//
//   NAME with NAME_scale_inv    F8_E4M3 [out, in] and F32 [out / 128, in / 128], rounded up: value
//                               = stored number * scale of its block of 128 x 128 numbers.
//                               config.json may give another block size. Decoded to bf16
//                               (DeepSeek-V3)
//   NAME with NAME_scale        F8_E4M3 or I8 [out, in]: value = stored number * its scale. Scales
//                               are F64, F32, BF16 or F16, one per tensor ([] or [1]), row ([out]
//                               or [out, 1]), group of a row ([out, groups]), or block, as above.
//                               Decoded to fp32 (compressed-tensors)
//   NAME_blocks, NAME_scales    U8 [.., out, in / 32, 16] and U8 [.., out, in / 32]: MXFP4 (Open
//                               Compute Project, "OCP Microscaling Formats", 2023). A byte has two
//                               E2M1 numbers, the first in the low bits. 32 numbers share a scale:
//                               value = number * 2^(scale - 127). The decoded tensor NAME is
//                               transposed to [.., in, out]. Decoded to bf16 (GPT-OSS)
//   qweight, qzeros, scales     in place of "weight" in the name: gptq and awq (packed_integers.h).
//                               Decoded to fp32
//   NAME_packed, NAME_scale     pack-quantized of compressed-tensors (packed_integers.h). Decoded
//                               to fp32
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "colossal/io/tensor_directory.h"
#include "colossal/models/stored_form.h"
#include "colossal/ops/product/quantized_matrix.h"

namespace colossal::checkpoint {

// A folder of weights that knows how the weights are quantized.
class WeightFolder : public io::TensorDirectory {
 public:
  using TensorDirectory::TensorDirectory;

  // Returns how the weights are quantized. Reads config.json at the first call. Throws ConfigError
  // if the quantization is not supported. Not thread-safe.
  const models::StoredForm& form() const;
  // Throws ConfigError if the folder has quantized weights. what: the operation that needs plain
  // values, as a verb: "convert", "merge an adapter into".
  void require_unquantized(const std::string& what) const;

 private:
  mutable std::optional<models::StoredForm> form_;
};

// A tensor of a folder, whose values are read and decoded on demand.
class StoredTensor {
 public:
  virtual ~StoredTensor() = default;
  StoredTensor(const StoredTensor&) = delete;
  StoredTensor& operator=(const StoredTensor&) = delete;

  const std::string& name() const { return name_; }
  const std::filesystem::path& file() const { return file_; }   // the file that errors name
  const std::vector<int64_t>& shape() const { return shape_; }  // after decoding
  at::ScalarType type() const { return type_; }                 // dtype after decoding

  // Fills `destination` with decoded elements of the flattened tensor, from element `first` on, in
  // dtype type(). The tensor must have enough elements from `first` on to fill `destination`.
  // Throws IoError if the file cannot be read. Not thread-safe.
  virtual void read(int64_t first, std::span<std::byte> destination) const = 0;

  // Returns how this tensor is quantized, if it is a matrix of int8, int4 or fp8 numbers that
  // linear layers can use without decoding. Returns nullopt for all other tensors, such as MXFP4 or
  // plain values. No function returns the codes: they follow from value = (code - zero point) *
  // scale, with the values of read(), scales() and zeros().
  virtual std::optional<ops::Quantization> quantization() const { return std::nullopt; }
  // Returns the scales of a matrix with a quantization(): an fp32 tensor of the shape of this
  // tensor, with groups in place of inputs (one group if ops::Quantization::group is 0). Call it
  // only if quantization() is not nullopt.
  virtual std::unique_ptr<StoredTensor> scales() const { return nullptr; }
  // Returns the zero points, in a tensor like that of scales(); null if
  // ops::Quantization::zero_point is false. Call it only if quantization() is not nullopt.
  virtual std::unique_ptr<StoredTensor> zeros() const { return nullptr; }

 protected:
  StoredTensor(std::string name, std::filesystem::path file, std::vector<int64_t> shape,
               at::ScalarType type)
      : name_(std::move(name)), file_(std::move(file)), shape_(std::move(shape)), type_(type) {}

 private:
  std::string name_;
  std::filesystem::path file_;
  std::vector<int64_t> shape_;
  at::ScalarType type_;
};

// Returns a StoredTensor for the tensor `entry` of `file`, which is stored as plain values. `file`
// must outlive the result. Throws ConfigError unless the dtype is F64, F32, BF16 or F16.
std::unique_ptr<StoredTensor> stored_tensor(const io::SafetensorsReader& file,
                                            const io::TensorEntry& entry);

// Returns the tensor `name` of a folder, which may be stored as plain values or in one of the
// formats above; null if there is none. `folder` must outlive the result. Throws ConfigError if the
// tensor or its scales have a dtype or shape that is not listed above, and IoError if a file cannot
// be read or scales are not finite.
std::unique_ptr<StoredTensor> find_stored_tensor(const WeightFolder& folder,
                                                 const std::string& name);

// Returns the names of all tensors of the folder that store the tensor `name`: `name` itself if it
// is plain, otherwise the tensors of its format. These may include a scale for the layer's inputs,
// which find_stored_tensor() does not use. Empty if the folder does not have the tensor.
std::vector<std::string> names_of_stored(const WeightFolder& folder, const std::string& name);

}  // namespace colossal::checkpoint
