// Tensors of a folder as a model reads them. Most lie in their file number by number. Published
// models also hold some in few bits, with scales beside them; those are decoded to bf16:
//
//   NAME with NAME_scale_inv    F8_E4M3 [out, in] and F32 [out / 128, in / 128], rounded up: a
//                               number is multiplied by its block's scale (DeepSeek-V3)
//   NAME_blocks, NAME_scales    U8 [.., out, in / 32, 16] and U8 [.., out, in / 32]: MXFP4 (Open
//                               Compute Project, "OCP Microscaling Formats", 2023), two numbers a
//                               byte, the lower bits first, times 2^(scale - 127). The tensor NAME
//                               is their transpose, [.., in, out] (GPT-OSS)
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "colossal/io/tensor_directory.h"

namespace colossal::checkpoint {

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
std::unique_ptr<StoredTensor> find_stored_tensor(const io::TensorDirectory& directory,
                                                 const std::string& name);

// The names of what the folder holds for this tensor: nothing, itself, or what stands for it.
std::vector<std::string> names_of_stored(const io::TensorDirectory& directory,
                                         const std::string& name);

}  // namespace colossal::checkpoint
