#include "colossal/checkpoint/stored_tensor.h"

#include <ATen/ops/empty.h>
#include <c10/util/BFloat16.h>
#include <c10/util/Float8_e4m3fn.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "colossal/base/error.h"
#include "colossal/checkpoint/tensor_bytes.h"

namespace colossal::checkpoint {
namespace {

using Tensor = io::TensorDirectory::Tensor;

constexpr int64_t kScaledBlock = 128;  // rows and columns
constexpr int64_t kGroup = 32;         // numbers of MXFP4 that share a scale
constexpr std::string_view kScaleEnd = "_scale_inv", kBlocksEnd = "_blocks", kScalesEnd = "_scales";

int64_t numel(const std::vector<int64_t>& shape) {
  int64_t count = 1;
  for (const int64_t size : shape) count *= size;
  return count;
}

std::vector<std::byte> read_bytes(const Tensor& tensor, int64_t offset, int64_t count) {
  std::vector<std::byte> bytes(static_cast<size_t>(count));
  tensor.file->read(*tensor.entry, offset, bytes);
  return bytes;
}

void require(const Tensor& tensor, io::ScalarType type, const std::vector<int64_t>& shape) {
  if (tensor.entry->type == type && tensor.entry->shape == shape) return;
  throw ConfigError(fmt::format(
      "{}: tensor \"{}\" is {} [{}]; scales of the weights beside it are {} [{}]",
      tensor.file->path().string(), tensor.entry->name, io::scalar_type_name(tensor.entry->type),
      fmt::join(tensor.entry->shape, ", "), io::scalar_type_name(type), fmt::join(shape, ", ")));
}

class PlainTensor : public StoredTensor {
 public:
  explicit PlainTensor(const Tensor& tensor)
      : StoredTensor(tensor.entry->name, tensor.file->path(), tensor.entry->shape,
                     tensor_type(*tensor.entry, tensor.file->path())),
        tensor_(tensor) {}

  void read(int64_t first, std::span<std::byte> destination) const override {
    tensor_.file->read(*tensor_.entry, first * static_cast<int64_t>(c10::elementSize(type())),
                       destination);
  }

 private:
  Tensor tensor_;
};

// F8_E4M3 with a scale for each block of rows and columns.
class ScaledTensor : public StoredTensor {
 public:
  ScaledTensor(const Tensor& numbers, const Tensor& scales)
      : StoredTensor(numbers.entry->name, numbers.file->path(), numbers.entry->shape,
                     at::kBFloat16),
        numbers_(numbers),
        columns_(shape().back()),
        blocks_of_row_(blocks(columns_)) {
    require(scales, io::ScalarType::f32, {blocks(shape().front()), blocks_of_row_});
    const std::vector<std::byte> bytes = read_bytes(scales, 0, scales.entry->bytes());
    scales_.resize(bytes.size() / sizeof(float));
    std::memcpy(scales_.data(), bytes.data(), bytes.size());
  }

  void read(int64_t first, std::span<std::byte> destination) const override {
    const auto count = static_cast<int64_t>(destination.size() / sizeof(c10::BFloat16));
    const std::vector<std::byte> bytes = read_bytes(numbers_, first, count);
    std::vector<c10::BFloat16> decoded(static_cast<size_t>(count));
    for (int64_t i = 0; i < count; ++i) {
      const int64_t row = (first + i) / columns_, column = (first + i) % columns_;
      const c10::Float8_e4m3fn number(std::to_integer<uint8_t>(bytes[static_cast<size_t>(i)]),
                                      c10::Float8_e4m3fn::from_bits());
      decoded[static_cast<size_t>(i)] =
          static_cast<float>(number) *
          scales_[static_cast<size_t>(row / kScaledBlock * blocks_of_row_ + column / kScaledBlock)];
    }
    std::memcpy(destination.data(), decoded.data(), destination.size());
  }

 private:
  static int64_t blocks(int64_t size) { return (size + kScaledBlock - 1) / kScaledBlock; }

  Tensor numbers_;
  int64_t columns_, blocks_of_row_;
  std::vector<float> scales_;
};

std::vector<int64_t> shape_of_microscaled(const std::vector<int64_t>& blocks) {
  std::vector<int64_t> shape(blocks.begin(), blocks.end() - 3);
  shape.push_back(blocks[blocks.size() - 2] * kGroup);
  shape.push_back(blocks[blocks.size() - 3]);
  return shape;
}

// Matrices are decoded one at a time, and the last is kept: what reads them goes on in order.
class MicroscaledTensor : public StoredTensor {
 public:
  MicroscaledTensor(std::string name, const Tensor& blocks, const Tensor& scales)
      : StoredTensor(std::move(name), blocks.file->path(),
                     shape_of_microscaled(blocks.entry->shape), at::kBFloat16),
        blocks_(blocks),
        scales_(scales),
        in_(shape()[shape().size() - 2]),
        out_(shape().back()) {
    std::vector<int64_t> of_scales = blocks.entry->shape;
    of_scales.pop_back();
    require(scales, io::ScalarType::u8, of_scales);
  }

  void read(int64_t first, std::span<std::byte> destination) const override {
    const int64_t of_matrix = in_ * out_;
    auto left = static_cast<int64_t>(destination.size() / sizeof(c10::BFloat16));
    auto* to = destination.data();
    while (left > 0) {
      const int64_t matrix = first / of_matrix, begin = first % of_matrix;
      const int64_t count = std::min(left, of_matrix - begin);
      decode(matrix);
      const auto bytes = static_cast<size_t>(count) * sizeof(c10::BFloat16);
      std::memcpy(to, decoded_.data() + begin, bytes);
      to += bytes;
      first += count;
      left -= count;
    }
  }

 private:
  void decode(int64_t matrix) const {
    if (matrix == matrix_) return;
    constexpr std::array<float, 16> kNumbers{0.F,  0.5F,  1.F,  1.5F,  2.F,  3.F,  4.F,  6.F,
                                             -0.F, -0.5F, -1.F, -1.5F, -2.F, -3.F, -4.F, -6.F};
    const int64_t groups = in_ / kGroup, of_group = kGroup / 2;
    const std::vector<std::byte> bytes =
        read_bytes(blocks_, matrix * out_ * groups * of_group, out_ * groups * of_group);
    const std::vector<std::byte> scales =
        read_bytes(scales_, matrix * out_ * groups, out_ * groups);
    decoded_.resize(static_cast<size_t>(in_ * out_));
    for (int64_t row = 0; row < out_; ++row) {
      for (int64_t group = 0; group < groups; ++group) {
        const auto index = static_cast<size_t>(row * groups + group);
        const float scale = std::ldexp(1.F, std::to_integer<int>(scales[index]) - 127);
        for (int64_t i = 0; i < kGroup; ++i) {
          const auto pair = std::to_integer<uint32_t>(
              bytes[index * static_cast<size_t>(of_group) + static_cast<size_t>(i / 2)]);
          const float number = kNumbers[i % 2 == 0 ? pair & 15U : pair >> 4U];
          decoded_[static_cast<size_t>((group * kGroup + i) * out_ + row)] = number * scale;
        }
      }
    }
    matrix_ = matrix;
  }

  Tensor blocks_, scales_;
  int64_t in_, out_;
  mutable std::vector<c10::BFloat16> decoded_;
  mutable int64_t matrix_ = -1;  // that is decoded
};

std::string with_end(const std::string& name, std::string_view end) {
  return fmt::format("{}{}", name, end);
}

bool is_scaled(const io::TensorDirectory& directory, const Tensor& tensor) {
  return tensor.entry->type == io::ScalarType::f8_e4m3 && tensor.entry->shape.size() == 2 &&
         directory.contains(with_end(tensor.entry->name, kScaleEnd));
}

bool is_microscaled(const io::TensorDirectory& directory, const std::string& name) {
  const std::string blocks = with_end(name, kBlocksEnd);
  if (!directory.contains(blocks) || !directory.contains(with_end(name, kScalesEnd))) return false;
  const io::TensorEntry& entry = *directory.find(blocks).entry;
  return entry.type == io::ScalarType::u8 && entry.shape.size() >= 3 &&
         entry.shape.back() == kGroup / 2 && numel(entry.shape) > 0;
}

}  // namespace

std::unique_ptr<StoredTensor> stored_tensor(const io::SafetensorsReader& file,
                                            const io::TensorEntry& entry) {
  return std::make_unique<PlainTensor>(Tensor{&file, &entry});
}

std::unique_ptr<StoredTensor> find_stored_tensor(const io::TensorDirectory& directory,
                                                 const std::string& name) {
  if (directory.contains(name)) {
    const Tensor tensor = directory.find(name);
    if (!is_scaled(directory, tensor)) return std::make_unique<PlainTensor>(tensor);
    return std::make_unique<ScaledTensor>(tensor, directory.find(with_end(name, kScaleEnd)));
  }
  if (!is_microscaled(directory, name)) return nullptr;
  return std::make_unique<MicroscaledTensor>(name, directory.find(with_end(name, kBlocksEnd)),
                                             directory.find(with_end(name, kScalesEnd)));
}

std::vector<std::string> names_of_stored(const io::TensorDirectory& directory,
                                         const std::string& name) {
  if (directory.contains(name)) {
    if (!is_scaled(directory, directory.find(name))) return {name};
    return {name, with_end(name, kScaleEnd)};
  }
  if (!is_microscaled(directory, name)) return {};
  return {with_end(name, kBlocksEnd), with_end(name, kScalesEnd)};
}

}  // namespace colossal::checkpoint
