// Tensors of a folder as a model reads them. Most lie in their file number by number. Published
// models also hold some in few bits, with scales beside them, which are decoded:
//
//   NAME with NAME_scale_inv    F8_E4M3 [out, in] and F32 [out / 128, in / 128], rounded up, or
//                               other blocks: a number is multiplied by its block's scale
//                               (DeepSeek-V3). Decoded to bf16
//   NAME with NAME_scale        F8_E4M3 or I8 [out, in], and scales of the whole, of rows, of
//                               groups of a row or of blocks (compressed-tensors). Decoded to fp32
//   NAME_blocks, NAME_scales    U8 [.., out, in / 32, 16] and U8 [.., out, in / 32]: MXFP4 (Open
//                               Compute Project, "OCP Microscaling Formats", 2023), two numbers a
//                               byte, the lower bits first, times 2^(scale - 127). The tensor NAME
//                               is their transpose, [.., in, out] (GPT-OSS). Decoded to bf16
//   qweight, qzeros, scales     in place of "weight": gptq and awq; and
//   NAME_packed, NAME_scale     compressed-tensors' pack-quantized (packed_integers.h). Decoded to
//                               fp32
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

// A folder of weights, and how they are stored.
class WeightFolder : public io::TensorDirectory {
 public:
  using TensorDirectory::TensorDirectory;

  // Read when it is asked for first. Throws ConfigError for a form that is not read. Not
  // thread-safe.
  const models::StoredForm& form() const;
  // Throws ConfigError where weights are in few bits: `what` ("merge an adapter into") needs
  // numbers.
  void require_numbers(const std::string& what) const;

 private:
  mutable std::optional<models::StoredForm> form_;
};

class StoredTensor {
 public:
  virtual ~StoredTensor() = default;
  StoredTensor(const StoredTensor&) = delete;
  StoredTensor& operator=(const StoredTensor&) = delete;

  const std::string& name() const { return name_; }
  const std::filesystem::path& file() const { return file_; }  // the one that is named in errors
  const std::vector<int64_t>& shape() const { return shape_; }
  at::ScalarType type() const { return type_; }

  // Numbers of the flattened tensor from `first` on, as many as the destination has bytes for.
  // Throws IoError. Not thread-safe.
  virtual void read(int64_t first, std::span<std::byte> destination) const = 0;

  // Of a matrix in few bits that products can use as it is: how, with the group of its scales.
  virtual std::optional<ops::Quantization> quantization() const { return std::nullopt; }
  // Of such a one, tensors as its own in fp32 with a number for each group in place of its inputs:
  // its scale, and its zero; null where zeros are those of quantization().
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

// A tensor of a file that outlives it, number by number. Throws ConfigError for a type that is not
// read.
std::unique_ptr<StoredTensor> stored_tensor(const io::SafetensorsReader& file,
                                            const io::TensorEntry& entry);

// The tensor `name` of a folder that outlives it; null where there is none. Throws ConfigError
// where it or its scales have another type or shape than above.
std::unique_ptr<StoredTensor> find_stored_tensor(const WeightFolder& folder,
                                                 const std::string& name);

// The names of what the folder holds for this tensor: nothing, itself, or what stands for it.
std::vector<std::string> names_of_stored(const WeightFolder& folder, const std::string& name);

}  // namespace colossal::checkpoint
