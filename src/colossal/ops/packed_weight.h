// Frozen weights of linear layers in few bits, packed into one byte tensor that is stored and
// communicated like any weight. int8: weight = code * scale. nf4: weight = level[code] * scale,
// with 16 levels that are quantiles of the normal distribution; the scales are quantized to 8 bits
// themselves ("double quantization"; T. Dettmers et al. 2023, "QLoRA: Efficient Finetuning of
// Quantized LLMs"; results equal those of bitsandbytes).
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <vector>

#include "colossal/base/range.h"

namespace colossal::ops {

enum class PackedType { int8, nf4 };

// Layout of the packed shard of a weight [outputs, inputs] that a rank holds. Blocks are those of
// the whole weight, so that a number's value does not depend on how the weight is sharded: 64
// inputs of an output share a scale; in nf4, 256 consecutive scales (output by output) share a
// second-level scale and form a group.
class PackedLayout {
 public:
  static constexpr int64_t kBlock = 64;
  static constexpr int64_t kScaleBlock = 256;

  // rows, columns: the outputs and inputs of the weight that this rank holds, as ascending runs,
  // stored one after the other.
  PackedLayout(PackedType type, int64_t outputs, int64_t inputs, const std::vector<Range>& rows,
               const std::vector<Range>& columns);
  static PackedLayout whole(PackedType type, int64_t outputs, int64_t inputs) {
    return {type, outputs, inputs, {{0, outputs}}, {{0, inputs}}};
  }

  PackedType type() const { return type_; }
  int64_t outputs() const { return outputs_; }
  int64_t inputs() const { return inputs_; }
  int64_t blocks() const { return (inputs_ + kBlock - 1) / kBlock; }  // per output
  int64_t rows() const { return rows_; }
  int64_t columns() const { return columns_; }
  int64_t bytes() const;

  // Columns of the shard that share a scale.
  struct Part {
    int64_t block = 0;  // index of the scale's block within the output
    Range columns;
  };
  const std::vector<Part>& parts() const { return parts_; }

  // Rows of the shard that are consecutive in the whole weight too, and the groups of nf4 scales
  // that the shard keeps for them: from the group of the first row's first part to that of the last
  // row's last part.
  struct RowRun {
    int64_t output = 0, row = 0, count = 0;  // first row: index in the weight, index in the shard
    Range groups;                            // indices in the weight
    int64_t first_group = 0;                 // index of groups.begin in the shard
  };
  const std::vector<RowRun>& row_runs() const { return row_runs_; }
  int64_t num_groups() const;  // kept in the shard
  // Returns the weight's group that contains the scale of a block.
  int64_t group_of(int64_t output, int64_t block) const {
    return (output * blocks() + block) / kScaleBlock;
  }

  // Sizes of the sections of the byte tensor, in this order: scales of groups (nf4; preceded by the
  // mean of all scales), scales of blocks, codes.
  int64_t group_bytes() const;
  int64_t scale_bytes() const;
  int64_t row_bytes() const;  // codes of one row

 private:
  PackedType type_;
  int64_t outputs_, inputs_;
  int64_t rows_ = 0, columns_ = 0;
  std::vector<Part> parts_;
  std::vector<RowRun> row_runs_;
};

// Returns the largest magnitude in each block of the whole weight, [outputs, blocks] fp32, from
// this shard's numbers [rows, columns] of any type and strides; 0 for blocks of which the shard
// holds nothing.
at::Tensor block_maxima(const at::Tensor& numbers, const PackedLayout& layout);

// Rounds each number of the shard to the nearest that its block can represent. Returns [bytes]
// uint8. The numbers must be finite. maxima: the maximum of block_maxima() over the ranks that
// share the weight.
at::Tensor pack(const at::Tensor& numbers, const at::Tensor& maxima, const PackedLayout& layout);

// Returns rows [begin, end) of the shard unpacked, [end - begin, columns], in `type` (rounded if
// necessary).
at::Tensor unpacked_rows(const at::Tensor& bytes, const PackedLayout& layout, int64_t begin,
                         int64_t end, at::ScalarType type);
inline at::Tensor unpack(const at::Tensor& bytes, const PackedLayout& layout, at::ScalarType type) {
  return unpacked_rows(bytes, layout, 0, layout.rows(), type);
}
// unpacked_rows() composed of LibTorch's operators, for any device.
at::Tensor unpacked_rows_composite(const at::Tensor& bytes, const PackedLayout& layout,
                                   int64_t begin, int64_t end, at::ScalarType type);

// The 16 levels of nf4.
const std::array<float, 16>& nf4_levels();

}  // namespace colossal::ops
