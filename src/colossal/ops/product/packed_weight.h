// Frozen weights of linear layers in 8 or 4 bits, for fine-tuning with QLoRA (T. Dettmers et al.
// 2023, "QLoRA: Efficient Finetuning of Quantized LLMs"). pack() packs a weight, or a rank's shard
// of it, into one tensor of bytes, which is stored and communicated like any weight. unpack()
// returns the weight again. packed_product.h multiplies by packed weights. (Quantized weights for
// serving are in quantized_matrix.h.)
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <vector>

#include "colossal/base/range.h"

namespace colossal::ops {

enum class PackedType {
  int8,  // element = code * scale, where codes are -127 .. 127
  nf4    // element = nf4_levels()[code] * scale, where codes are 0 .. 15. Scales are themselves
         // quantized to 8 bits ("double quantization"). Elements equal those of bitsandbytes
};

// Layout of the packed bytes of one rank's shard of a weight [outputs, inputs].
//
// A block is 64 consecutive inputs of one output; its elements share a scale. For nf4, a group is
// 256 consecutive blocks, counted output by output; the scales of its blocks share a second-level
// scale. Blocks and groups are those of the whole weight, so an unpacked element does not depend on
// how the weight is sharded. Outputs that are in the shard are the shard's rows, and inputs that
// are in the shard are its columns.
class PackedLayout {
 public:
  static constexpr int64_t kBlock = 64;            // inputs per block
  static constexpr int64_t kBlocksPerGroup = 256;  // blocks per group

  // outputs, inputs: sizes of the whole weight. rows, columns: the outputs and the inputs that this
  // rank holds, as ascending ranges.
  PackedLayout(PackedType type, int64_t outputs, int64_t inputs, const std::vector<Range>& rows,
               const std::vector<Range>& columns);
  // Returns the layout of a weight that is not sharded.
  static PackedLayout whole(PackedType type, int64_t outputs, int64_t inputs) {
    return {type, outputs, inputs, {{0, outputs}}, {{0, inputs}}};
  }

  PackedType type() const { return type_; }
  int64_t outputs() const { return outputs_; }  // of the whole weight
  int64_t inputs() const { return inputs_; }    // of the whole weight
  // Returns the number of blocks per output of the whole weight.
  int64_t blocks() const { return (inputs_ + kBlock - 1) / kBlock; }
  int64_t rows() const { return rows_; }        // outputs in the shard
  int64_t columns() const { return columns_; }  // inputs in the shard
  int64_t bytes() const;                        // size of the packed shard

  // Consecutive columns of the shard. Those elements of a row that are in these columns belong to
  // the same block, and so share a scale.
  struct Part {
    int64_t block = 0;  // index of the block among those of its output, in the whole weight
    Range columns;      // indices in the shard
  };
  // Returns the parts of a row, in ascending order. They are the same for all rows.
  const std::vector<Part>& parts() const { return parts_; }

  // Rows of the shard that are consecutive outputs of the whole weight. For nf4, the shard stores
  // the second-level scales of `groups` for each run, one run after the other.
  struct RowRun {
    // output: index of the first row in the whole weight. row: index of the first row in the shard.
    // count: number of rows.
    int64_t output = 0, row = 0, count = 0;
    // From the first to the last group that has elements of these rows in the shard, as indices in
    // the whole weight.
    Range groups;
    int64_t first_group = 0;  // index of the scale of groups.begin among those the shard stores
  };
  const std::vector<RowRun>& row_runs() const { return row_runs_; }
  int64_t num_groups() const;  // second-level scales that the shard stores
  // Returns the index, in the whole weight, of the group of block `block` of output `output`.
  int64_t group_of(int64_t output, int64_t block) const {
    return (output * blocks() + block) / kBlocksPerGroup;
  }

  // The packed tensor has three sections. Each section is padded to a multiple of 16 bytes.
  //   1. nf4: the mean of all scales of the whole weight, then the second-level scales, in fp32.
  //      int8: empty
  //   2. the scales of all parts, row by row: one byte each for nf4, bf16 for int8
  //   3. the codes, row by row
  // group_bytes() and scale_bytes() return the sizes of sections 1 and 2 with their padding;
  // row_bytes() returns the size of the codes of one row, which are not padded.
  int64_t group_bytes() const;
  int64_t scale_bytes() const;
  int64_t row_bytes() const;

 private:
  PackedType type_;
  int64_t outputs_, inputs_;
  int64_t rows_ = 0, columns_ = 0;
  std::vector<Part> parts_;
  std::vector<RowRun> row_runs_;
};

// Returns the largest magnitude in each block, over the elements in this shard: [outputs of the
// whole weight, blocks] fp32. It is 0 for a block that has no element in the shard. numbers: the
// elements of the shard, [rows, columns] on the CPU, of any type and strides.
at::Tensor block_maxima(const at::Tensor& numbers, const PackedLayout& layout);

// Packs the elements of a shard, and returns [layout.bytes()] uint8. Rounds each element to the
// nearest value that its block can represent; for nf4, this means the values with the block's scale
// before the scale itself is quantized, as in bitsandbytes. numbers: as for block_maxima(); must be
// finite. maxima: block_maxima() of the whole weight. If the weight is sharded, this is the
// elementwise maximum of block_maxima() over the ranks that hold the shards.
at::Tensor pack(const at::Tensor& numbers, const at::Tensor& maxima, const PackedLayout& layout);

// Returns rows [begin, end) of the shard, unpacked and rounded to `type`: [end - begin, columns].
// bytes: from pack(), on any device; the result is on the same device.
at::Tensor unpacked_rows(const at::Tensor& bytes, const PackedLayout& layout, int64_t begin,
                         int64_t end, at::ScalarType type);
// Returns all rows of the shard.
inline at::Tensor unpack(const at::Tensor& bytes, const PackedLayout& layout, at::ScalarType type) {
  return unpacked_rows(bytes, layout, 0, layout.rows(), type);
}
// unpacked_rows() composed of LibTorch's operators. unpacked_rows() calls it for GPUs.
at::Tensor unpacked_rows_fallback(const at::Tensor& bytes, const PackedLayout& layout,
                                  int64_t begin, int64_t end, at::ScalarType type);

// Returns the 16 levels of nf4, ascending from -1 to 1: quantiles of the normal distribution.
const std::array<float, 16>& nf4_levels();

}  // namespace colossal::ops
