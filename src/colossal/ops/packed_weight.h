// Frozen weights of products in few bits, as one tensor of bytes that travels and rests like any
// weight. int8: a number is code * scale. nf4: a number is level[code] * scale, with 16 levels that
// are quantiles of a normal distribution; the scales are in 8 bits themselves, as "double
// quantization" has them (T. Dettmers et al. 2023, "QLoRA: Efficient Finetuning of Quantized LLMs";
// the numbers are those of bitsandbytes).
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <vector>

#include "colossal/base/range.h"

namespace colossal::ops {

enum class PackedType { int8, nf4 };

// How the part of a weight [outputs, inputs] that a rank has is packed. Blocks are those of the
// whole weight, so that a number is the same wherever the weight is cut: 64 inputs of an output
// share a scale; of nf4, 256 scales in a row, output by output, share one of their own.
class PackedLayout {
 public:
  static constexpr int64_t kBlock = 64;
  static constexpr int64_t kScaleBlock = 256;

  // rows, columns: which outputs and inputs are here, in ascending runs that lie one after the
  // other.
  PackedLayout(PackedType type, int64_t outputs, int64_t inputs, const std::vector<Range>& rows,
               const std::vector<Range>& columns);
  static PackedLayout whole(PackedType type, int64_t outputs, int64_t inputs) {
    return {type, outputs, inputs, {{0, outputs}}, {{0, inputs}}};
  }

  PackedType type() const { return type_; }
  int64_t outputs() const { return outputs_; }
  int64_t inputs() const { return inputs_; }
  int64_t blocks() const { return (inputs_ + kBlock - 1) / kBlock; }  // of an output
  int64_t rows() const { return rows_; }
  int64_t columns() const { return columns_; }
  int64_t bytes() const;

  // Columns here that share a scale.
  struct Part {
    int64_t block = 0;  // of the output
    Range columns;
  };
  const std::vector<Part>& parts() const { return parts_; }

  // Rows here that lie side by side in the weight too, and the groups of nf4's scales that are kept
  // for them: all from that of the first row's first part to that of the last row's last.
  struct RowRun {
    int64_t output = 0, row = 0, count = 0;  // the first one in the weight, and here
    Range groups;                            // in the weight
    int64_t first_group = 0;                 // here
  };
  const std::vector<RowRun>& row_runs() const { return row_runs_; }
  int64_t num_groups() const;  // here
  // The group of the weight that has the scale of a block.
  int64_t group_of(int64_t output, int64_t block) const {
    return (output * blocks() + block) / kScaleBlock;
  }

  // Where the bytes lie: scales of groups (nf4: the mean of all scales first), scales, codes.
  int64_t group_bytes() const;
  int64_t scale_bytes() const;
  int64_t row_bytes() const;  // codes of a row

 private:
  PackedType type_;
  int64_t outputs_, inputs_;
  int64_t rows_ = 0, columns_ = 0;
  std::vector<Part> parts_;
  std::vector<RowRun> row_runs_;
};

// The largest magnitude in each block of the whole weight, [outputs, blocks] fp32, from the numbers
// here [rows, columns], any type and strides: 0 for blocks of which nothing is here.
at::Tensor block_maxima(const at::Tensor& numbers, const PackedLayout& layout);

// Rounds each number here to the nearest that its block can hold: [bytes] of uint8. The numbers
// must be finite. maxima: block_maxima(), the largest over the ranks that share the weight.
at::Tensor pack(const at::Tensor& numbers, const at::Tensor& maxima, const PackedLayout& layout);

// Rows [begin, end) of those here as numbers, [end - begin, columns], rounded to `type` where that
// cannot hold them.
at::Tensor unpacked_rows(const at::Tensor& bytes, const PackedLayout& layout, int64_t begin,
                         int64_t end, at::ScalarType type);
inline at::Tensor unpack(const at::Tensor& bytes, const PackedLayout& layout, at::ScalarType type) {
  return unpacked_rows(bytes, layout, 0, layout.rows(), type);
}
// The same by LibTorch's operators, on any device.
at::Tensor unpacked_rows_composite(const at::Tensor& bytes, const PackedLayout& layout,
                                   int64_t begin, int64_t end, at::ScalarType type);

// The 16 levels of nf4.
const std::array<float, 16>& nf4_levels();

}  // namespace colossal::ops
