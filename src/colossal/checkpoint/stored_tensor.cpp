#include "colossal/checkpoint/stored_tensor.h"

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <c10/util/BFloat16.h>
#include <c10/util/Float8_e4m3fn.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "colossal/base/error.h"
#include "colossal/checkpoint/held_tensor.h"
#include "colossal/checkpoint/packed_integers.h"
#include "colossal/checkpoint/tensor_bytes.h"
#include "colossal/checkpoint/tensor_values.h"
#include "colossal/models/families.h"

namespace colossal::checkpoint {
namespace {

constexpr int64_t kGroup = 32;  // elements of MXFP4 that share a scale
constexpr std::string_view kInverseEnd = "_scale_inv", kScaleEnd = "_scale";
constexpr std::string_view kBlocksEnd = "_blocks", kScalesEnd = "_scales";

int64_t numel(const std::vector<int64_t>& shape) {
  int64_t count = 1;
  for (const int64_t size : shape) count *= size;
  return count;
}

class PlainTensor : public StoredTensor {
 public:
  explicit PlainTensor(const FileTensor& tensor)
      : StoredTensor(tensor.entry->name, tensor.file->path(), tensor.entry->shape,
                     tensor_type(*tensor.entry, tensor.file->path())),
        tensor_(tensor) {}

  // Reads by several threads: one copies from the page cache slower than the memory can.
  void read(int64_t first, std::span<std::byte> destination) const override {
    constexpr int64_t kLeastPerThread = int64_t{256} << 10;
    const int64_t offset = first * static_cast<int64_t>(c10::elementSize(type()));
    at::parallel_for(0, std::ssize(destination), kLeastPerThread, [&](int64_t begin, int64_t end) {
      tensor_.file->read(
          *tensor_.entry, offset + begin,
          destination.subspan(static_cast<size_t>(begin), static_cast<size_t>(end - begin)));
    });
  }

 private:
  FileTensor tensor_;
};

// How many rows and columns share a scale.
struct ScaledBlock {
  int64_t rows = 1, columns = 1;
};

// Returns the block that shares a scale. Scales are one number, [rows], [rows, groups of columns],
// or [blocks of rows, blocks of columns]. Throws ConfigError if they are none of these.
ScaledBlock block_of_scales(const std::vector<int64_t>& numbers, const FileTensor& scales,
                            const models::StoredForm& form) {
  const std::vector<int64_t>& given = scales.entry->shape;
  if (numel(given) == 1 && given.size() < 2) return {numbers[0], numbers[1]};
  if (given.size() == 1 && given[0] == numbers[0]) return {1, numbers[1]};
  const auto blocks = [](int64_t size, int64_t block) { return (size + block - 1) / block; };
  const std::vector<int64_t> of_blocks{blocks(numbers[0], form.block_rows),
                                       blocks(numbers[1], form.block_columns)};
  if (given == of_blocks) return {form.block_rows, form.block_columns};
  if (given.size() == 2 && given[0] == numbers[0] && given[1] > 0 && numbers[1] % given[1] == 0) {
    return {1, numbers[1] / given[1]};
  }
  require_shape(scales, of_blocks);
  return {};
}

float from_e4m3(std::byte bits) {
  return c10::Float8_e4m3fn(std::to_integer<uint8_t>(bits), c10::Float8_e4m3fn::from_bits());
}

float from_int8(std::byte bits) {
  return static_cast<float>(std::to_integer<int8_t>(bits));
}

// A matrix of F8_E4M3 or I8 with scales.
class ScaledTensor : public StoredTensor {
 public:
  ScaledTensor(const FileTensor& numbers, const FileTensor& scales, at::ScalarType type,
               const models::StoredForm& form)
      : StoredTensor(numbers.entry->name, numbers.file->path(), numbers.entry->shape, type),
        numbers_(numbers),
        columns_(shape().back()),
        block_(block_of_scales(shape(), scales, form)),
        blocks_of_row_((columns_ + block_.columns - 1) / std::max<int64_t>(1, block_.columns)),
        in_out_(form.in_out),
        scales_(read_floats(scales)) {}

  void read(int64_t first, std::span<std::byte> destination) const override {
    type() == at::kBFloat16 ? read_as<c10::BFloat16>(first, destination)
                            : read_as<float>(first, destination);
  }

  std::optional<ops::Quantization> quantization() const override {
    using Type = ops::Quantization::Type;
    const bool one_group = blocks_of_row_ == 1;
    if (in_out_ || (!one_group && block_.columns % ops::Quantization::kGroupStep != 0)) {
      return std::nullopt;
    }
    return ops::Quantization{.type = is_fp8() ? Type::fp8 : Type::int8,
                             .group = one_group ? 0 : block_.columns};
  }

  std::unique_ptr<StoredTensor> scales() const override {
    std::vector<float> of_rows;
    for (int64_t row = 0; row < shape().front(); ++row) {
      for (int64_t block = 0; block < blocks_of_row_; ++block) {
        of_rows.push_back(scales_[static_cast<size_t>(row / block_.rows * blocks_of_row_ + block)]);
      }
    }
    return std::make_unique<HeldTensor>(*this, std::vector{shape().front(), blocks_of_row_},
                                        std::move(of_rows));
  }

 private:
  bool is_fp8() const { return numbers_.entry->type == io::ScalarType::f8_e4m3; }

  template <typename Number>
  void read_as(int64_t first, std::span<std::byte> destination) const {
    const auto count = static_cast<int64_t>(destination.size() / sizeof(Number));
    const std::vector<std::byte> bytes = read_bytes(numbers_, first, count);
    std::vector<Number> decoded(static_cast<size_t>(count));
    const auto decode = is_fp8() ? from_e4m3 : from_int8;
    for (int64_t i = 0; i < count; ++i) {
      const int64_t row = (first + i) / columns_, column = (first + i) % columns_;
      decoded[static_cast<size_t>(i)] =
          decode(bytes[static_cast<size_t>(i)]) *
          scales_[static_cast<size_t>(row / block_.rows * blocks_of_row_ +
                                      column / block_.columns)];
    }
    std::memcpy(destination.data(), decoded.data(), destination.size());
  }

  FileTensor numbers_;
  int64_t columns_;
  ScaledBlock block_;
  int64_t blocks_of_row_;
  bool in_out_;
  std::vector<float> scales_;
};

std::vector<int64_t> shape_of_microscaled(const std::vector<int64_t>& blocks) {
  std::vector<int64_t> shape(blocks.begin(), blocks.end() - 3);
  shape.push_back(blocks[blocks.size() - 2] * kGroup);
  shape.push_back(blocks[blocks.size() - 3]);
  return shape;
}

// MXFP4. Decodes one matrix at a time and keeps it, because elements are read in order.
class MicroscaledTensor : public StoredTensor {
 public:
  MicroscaledTensor(std::string name, const FileTensor& blocks, const FileTensor& scales)
      : StoredTensor(std::move(name), blocks.file->path(),
                     shape_of_microscaled(blocks.entry->shape), at::kBFloat16),
        blocks_(blocks),
        scales_(scales),
        in_(shape()[shape().size() - 2]),
        out_(shape().back()) {
    std::vector<int64_t> of_scales = blocks.entry->shape;
    of_scales.pop_back();
    require_tensor(scales, io::ScalarType::u8, of_scales);
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

  FileTensor blocks_, scales_;
  int64_t in_, out_;
  mutable std::vector<c10::BFloat16> decoded_;
  mutable int64_t matrix_ = -1;  // the one in decoded_
};

std::string with_end(const std::string& name, std::string_view end) {
  return fmt::format("{}{}", name, end);
}

// Returns the scales of a quantized matrix, or nothing if the tensor is not such a matrix.
std::optional<FileTensor> scales_of(const WeightFolder& folder, const FileTensor& tensor) {
  const io::ScalarType type = tensor.entry->type;
  if (tensor.entry->shape.size() != 2) return std::nullopt;
  if (type != io::ScalarType::f8_e4m3 && type != io::ScalarType::i8) return std::nullopt;
  for (const std::string_view end : {kInverseEnd, kScaleEnd}) {
    const std::string name = with_end(tensor.entry->name, end);
    if (folder.contains(name)) return folder.find(name);
  }
  return std::nullopt;
}

bool is_microscaled(const WeightFolder& folder, const std::string& name) {
  const std::string blocks = with_end(name, kBlocksEnd);
  if (!folder.contains(blocks) || !folder.contains(with_end(name, kScalesEnd))) return false;
  const io::TensorEntry& entry = *folder.find(blocks).entry;
  return entry.type == io::ScalarType::u8 && entry.shape.size() >= 3 &&
         entry.shape.back() == kGroup / 2 && numel(entry.shape) > 0;
}

}  // namespace

const models::StoredForm& WeightFolder::form() const {
  if (!form_) form_ = models::stored_form_of(path());
  return *form_;
}

void WeightFolder::require_unquantized(const std::string& what) const {
  if (form().method.empty()) return;
  throw ConfigError(
      fmt::format("{}: its weights are quantized (quant_method = \"{}\"), so there are no "
                  "full-precision weights to {}: quantizing twice would lose accuracy twice; use "
                  "the model's folder with F32, BF16 or F16 weights",
                  path().string(), form().method, what));
}

std::unique_ptr<StoredTensor> stored_tensor(const io::SafetensorsReader& file,
                                            const io::TensorEntry& entry) {
  return std::make_unique<PlainTensor>(FileTensor{&file, &entry});
}

std::unique_ptr<StoredTensor> find_stored_tensor(const WeightFolder& folder,
                                                 const std::string& name) {
  if (folder.contains(name)) {
    const FileTensor tensor = folder.find(name);
    const auto scales = scales_of(folder, tensor);
    if (!scales) return std::make_unique<PlainTensor>(tensor);
    const bool inverse = scales->entry->name.ends_with(kInverseEnd);
    return std::make_unique<ScaledTensor>(tensor, *scales, inverse ? at::kBFloat16 : at::kFloat,
                                          folder.form());
  }
  if (auto packed = find_packed_integers(folder, name)) return packed;
  if (!is_microscaled(folder, name)) return nullptr;
  return std::make_unique<MicroscaledTensor>(name, folder.find(with_end(name, kBlocksEnd)),
                                             folder.find(with_end(name, kScalesEnd)));
}

std::vector<std::string> names_of_stored(const WeightFolder& folder, const std::string& name) {
  if (folder.contains(name)) {
    const auto scales = scales_of(folder, folder.find(name));
    if (!scales) return {name};
    std::vector<std::string> names{name, scales->entry->name};
    // The scale for rounding inputs belongs to the weight, but is not used: inputs are not rounded
    // with it.
    const std::string of_inputs = name.substr(0, name.rfind('.') + 1) + "input_scale";
    if (folder.contains(of_inputs)) names.push_back(of_inputs);
    return names;
  }
  std::vector<std::string> packed = names_of_packed_integers(folder, name);
  if (!packed.empty() || !is_microscaled(folder, name)) return packed;
  return {with_end(name, kBlocksEnd), with_end(name, kScalesEnd)};
}

}  // namespace colossal::checkpoint
