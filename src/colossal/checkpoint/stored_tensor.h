// Reads the tensors of a folder as the values that a model computes with. Most tensors are stored
// as plain values. Published models also have quantized tensors, with scales in separate tensors.
// These formats are decoded:
//
//   NAME with NAME_scale_inv    F8_E4M3 [out, in] and F32 [out / 128, in / 128], rounded up, or
//                               other block sizes: value = stored value * scale of its block
//                               (DeepSeek-V3). Decoded to bf16
//   NAME with NAME_scale        F8_E4M3 or I8 [out, in], with scales per tensor, per row, per
//                               group of a row, or per block (compressed-tensors). Decoded to fp32
//   NAME_blocks, NAME_scales    U8 [.., out, in / 32, 16] and U8 [.., out, in / 32]: MXFP4 (Open
//                               Compute Project, "OCP Microscaling Formats", 2023). A byte has two
//                               E2M1 numbers, the first in the low bits. 32 of them share a scale:
//                               value = number * 2^(scale - 127). The decoded tensor NAME is the
//                               transpose, [.., in, out] (GPT-OSS). Decoded to bf16
//   qweight, qzeros, scales     in place of "weight": gptq and awq (packed_integers.h). Decoded to
//                               fp32
//   NAME_packed, NAME_scale     pack-quantized of compressed-tensors (packed_integers.h).
//                               Decoded to fp32
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
#include "colossal/ops/quantized_matrix.h"

namespace colossal::checkpoint {

// A folder of weights, and how they are quantized.
class WeightFolder : public io::TensorDirectory {
 public:
  using TensorDirectory::TensorDirectory;

  // Returns how the weights are quantized; read from config.json at the first call. Throws
  // ConfigError for an unsupported quantization. Not thread-safe.
  const models::StoredForm& form() const;
  // Throws ConfigError if the folder has quantized weights. what: the operation that needs plain
  // values; the message says "there are no full-precision weights to WHAT" ("merge an adapter
  // into").
  void require_unquantized(const std::string& what) const;

 private:
  mutable std::optional<models::StoredForm> form_;
};

// A tensor of values, read on demand.
class StoredTensor {
 public:
  virtual ~StoredTensor() = default;
  StoredTensor(const StoredTensor&) = delete;
  StoredTensor& operator=(const StoredTensor&) = delete;

  const std::string& name() const { return name_; }
  const std::filesystem::path& file() const { return file_; }  // the file named in errors
  const std::vector<int64_t>& shape() const { return shape_; }
  at::ScalarType type() const { return type_; }  // dtype of the values, after decoding

  // Reads elements of the flattened tensor, from element `first` on, until `destination` is full.
  // Throws IoError. Not thread-safe.
  virtual void read(int64_t first, std::span<std::byte> destination) const = 0;

  // Returns the quantization, with its group size, of a matrix that linear layers can use without
  // decoding; else nullopt.
  virtual std::optional<ops::Quantization> quantization() const { return std::nullopt; }
  // scales() and zeros() return the scales and the zero points of the groups if quantization() is
  // set: fp32 tensors of the shape of this tensor, with groups in place of inputs. Else they return
  // null. zeros() also returns null if zero points are not stored
  // (ops::Quantization::zero_point = false).
  virtual std::unique_ptr<StoredTensor> scales() const { return nullptr; }
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

// Returns a tensor of `file` that is stored as plain values. `file` must outlive the result. Throws
// ConfigError for an unsupported dtype.
std::unique_ptr<StoredTensor> stored_tensor(const io::SafetensorsReader& file,
                                            const io::TensorEntry& entry);

// Returns the tensor `name` of a folder, decoded if it is quantized; null if there is none.
// `folder` must outlive the result. Throws ConfigError if the tensor or its scales have another
// dtype or shape than listed above.
std::unique_ptr<StoredTensor> find_stored_tensor(const WeightFolder& folder,
                                                 const std::string& name);

// Returns the names of the folder's tensors that store the tensor `name`: `name` itself if it is
// plain, or all tensors of its quantized form. Returns an empty list if there are none.
std::vector<std::string> names_of_stored(const WeightFolder& folder, const std::string& name);

}  // namespace colossal::checkpoint
