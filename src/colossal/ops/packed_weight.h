// Frozen weights of linear layers in few bits, packed into one tensor of bytes that is stored and
// communicated like any weight. int8: weight = code * scale. nf4: weight = level[code] * scale,
// with 16 levels that are quantiles of the normal distribution; the scales are themselves quantized
// to 8 bits ("double quantization"; T. Dettmers et al. 2023, "QLoRA: Efficient Finetuning of
// Quantized LLMs"). nf4 weights equal those of bitsandbytes.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <vector>

#include "colossal/base/range.h"

namespace colossal::ops {

enum class PackedType { int8, nf4 };

// Layout of one rank's packed shard of a weight [outputs, inputs]. A block is 64 consecutive inputs
// of an output; it has one scale. In nf4, a group is 256 consecutive blocks of the weight, output
// by output; their scales share a second-level scale. Blocks and groups are those of the whole
// weight, so that an unpacked value does not depend on how the weight is sharded.
class PackedLayout {
 public:
  static constexpr int64_t kBlock = 64;            // inputs per block
  static constexpr int64_t kBlocksPerGroup = 256;  // blocks per group

  // outputs, inputs: of the whole weight. rows, columns: the outputs and the inputs that this rank
  // holds, as ascending runs.
  PackedLayout(PackedType type, int64_t outputs, int64_t inputs, const std::vector<Range>& rows,
               const std::vector<Range>& columns);
  // Returns the layout of a weight that is not sharded.
  static PackedLayout whole(PackedType type, int64_t outputs, int64_t inputs) {
    return {type, outputs, inputs, {{0, outputs}}, {{0, inputs}}};
  }

  PackedType type() const { return type_; }
  int64_t outputs() const { return outputs_; }
  int64_t inputs() const { return inputs_; }
  // Blocks per output of the whole weight.
  int64_t blocks() const { return (inputs_ + kBlock - 1) / kBlock; }
  int64_t rows() const { return rows_; }        // outputs in the shard
  int64_t columns() const { return columns_; }  // inputs in the shard
  int64_t bytes() const;                        // of the packed shard

  // The part of a block that is in the shard: columns that share a scale.
  struct Part {
    int64_t block = 0;  // index of the block within its output
    Range columns;      // of the shard
  };
  const std::vector<Part>& parts() const { return parts_; }

  // Rows of the shard that are consecutive in the whole weight, too, and the groups whose
  // second-level scales the shard keeps for them: from the group of the first row's first part to
  // the group of the last row's last part.
  struct RowRun {
    // output: index of the first row in the weight. row: its index in the shard. count: rows.
    int64_t output = 0, row = 0, count = 0;
    Range groups;             // indices in the weight
    int64_t first_group = 0;  // index of groups.begin in the shard
  };
  const std::vector<RowRun>& row_runs() const { return row_runs_; }
  int64_t num_groups() const;  // kept in the shard
  // Returns the index, in the weight, of the group of a block.
  int64_t group_of(int64_t output, int64_t block) const {
    return (output * blocks() + block) / kBlocksPerGroup;
  }

  // Sizes, in bytes, of the sections of the packed tensor. In order, these are: for nf4, the mean
  // of the weight's scales and the scales of the shard's groups; the scales of its blocks; the
  // codes, row by row. Sections are padded to multiples of 16 bytes.
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

// Returns the largest magnitude in each block of the weight, [outputs, blocks] fp32, as far as it
// is in this shard; 0 for blocks of which the shard holds nothing. numbers: the shard, [rows,
// columns] of any type and strides.
at::Tensor block_maxima(const at::Tensor& numbers, const PackedLayout& layout);

// Packs the shard `numbers`: rounds each number to the nearest that its block can represent.
// Returns [bytes] uint8. The numbers must be finite. maxima: block_maxima() of the whole weight,
// that is the elementwise maximum over the ranks that hold a shard.
at::Tensor pack(const at::Tensor& numbers, const at::Tensor& maxima, const PackedLayout& layout);

// Returns rows [begin, end) of the shard as numbers, [end - begin, columns], rounded to `type`.
at::Tensor unpacked_rows(const at::Tensor& bytes, const PackedLayout& layout, int64_t begin,
                         int64_t end, at::ScalarType type);
inline at::Tensor unpack(const at::Tensor& bytes, const PackedLayout& layout, at::ScalarType type) {
  return unpacked_rows(bytes, layout, 0, layout.rows(), type);
}
// unpacked_rows() composed of LibTorch's operators, for any device.
at::Tensor unpacked_rows_fallback(const at::Tensor& bytes, const PackedLayout& layout,
                                  int64_t begin, int64_t end, at::ScalarType type);

// The 16 levels of nf4.
const std::array<float, 16>& nf4_levels();

}  // namespace colossal::ops
