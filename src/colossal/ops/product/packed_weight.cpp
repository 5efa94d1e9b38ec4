#include "colossal/ops/product/packed_weight.h"

#include <ATen/ops/bitwise_and.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cmath>
#include <span>

#include "colossal/base/error.h"
#include "colossal/ops/kernels/vector_kernels.h"
#include "colossal/ops/parallel_for.h"

namespace colossal::ops {
namespace {

constexpr int kMostCode = 127;  // largest int8 code
constexpr int64_t kPackedRowsOfThread = 16;
// Sections are padded to multiples of this, so they stay aligned if weights are concatenated.
constexpr int64_t kByteAlignment = 16;

// Appendix E of the QLoRA paper.
constexpr std::array<float, 16> kNf4Levels{-1.0F,
                                           -0.6961928009986877F,
                                           -0.5250730514526367F,
                                           -0.39491748809814453F,
                                           -0.28444138169288635F,
                                           -0.18477343022823334F,
                                           -0.09105003625154495F,
                                           0.0F,
                                           0.07958029955625534F,
                                           0.16093020141124725F,
                                           0.24611230194568634F,
                                           0.33791524171829224F,
                                           0.44070982933044434F,
                                           0.5626170039176941F,
                                           0.7229568362236023F,
                                           1.0F};

// Returns the levels of 8-bit scales: those of create_dynamic_map(signed=True) of bitsandbytes,
// after T. Dettmers 2016, "8-Bit Approximations for Parallelism in Deep Learning". There are seven
// decades; each has twice as many levels as the next smaller one.
std::array<float, 256> make_dynamic_levels() {
  std::vector<float> levels{0.0F, 1.0F};
  constexpr int kDecades = 7;
  for (int decade = 0; decade < kDecades; ++decade) {
    const int fractions = 1 << decade;
    const double power = std::pow(10.0, decade - (kDecades - 1));
    const auto border = [&](int index) { return 0.1 + 0.9 * index / fractions; };
    for (int index = 0; index < fractions; ++index) {
      const auto level = static_cast<float>(power * (border(index) + border(index + 1)) / 2);
      levels.push_back(level);
      levels.push_back(-level);
    }
  }
  std::ranges::sort(levels);
  std::array<float, 256> sorted{};
  COLOSSAL_CHECK(levels.size() == sorted.size(), "{} levels", levels.size());
  std::ranges::copy(levels, sorted.begin());
  return sorted;
}

const std::array<float, 256>& dynamic_levels() {
  static const std::array<float, 256> kLevels = make_dynamic_levels();
  return kLevels;
}

// Returns the index of the level that is nearest to `number`; of two equally near levels, the lower
// one. levels: ascending.
uint8_t nearest(std::span<const float> levels, float number) {
  const auto above = std::ranges::lower_bound(levels, number) - levels.begin();
  if (above == 0) return 0;
  if (above == std::ssize(levels)) return static_cast<uint8_t>(above - 1);
  const auto index = static_cast<size_t>(above);
  const float middle = (levels[index - 1] + levels[index]) / 2;
  return static_cast<uint8_t>(number > middle ? above : above - 1);
}

float inverse(float scale) {
  return scale == 0 ? 0 : 1 / scale;
}

// Views of the sections of packed bytes.
struct Packed {
  Packed(const at::Tensor& bytes, const PackedLayout& layout) : layout(layout) {
    COLOSSAL_CHECK(bytes.numel() == layout.bytes() && bytes.scalar_type() == at::kByte,
                   "{} bytes, the layout has {}", bytes.numel(), layout.bytes());
    const int64_t scales_begin = layout.group_bytes();
    const int64_t codes_begin = scales_begin + layout.scale_bytes();
    if (layout.type() == PackedType::nf4) {
      groups = bytes.narrow(0, 0, 4 * (1 + layout.num_groups())).view(at::kFloat);
    }
    const auto num_parts = std::ssize(layout.parts());
    const bool nf4 = layout.type() == PackedType::nf4;
    scales = bytes.narrow(0, scales_begin, layout.rows() * num_parts * (nf4 ? 1 : 2))
                 .view(nf4 ? at::kByte : at::kBFloat16)
                 .view({layout.rows(), num_parts});
    codes = bytes.narrow(0, codes_begin, layout.rows() * layout.row_bytes())
                .view({layout.rows(), layout.row_bytes()});
  }

  const PackedLayout& layout;
  at::Tensor groups;  // nf4: the mean of all scales, then the second-level scales of the shard
  at::Tensor scales;  // [rows, parts]: codes (uint8) for nf4, bf16 for int8
  at::Tensor codes;   // [rows, row_bytes]
};

const PackedLayout::RowRun& run_of(const PackedLayout& layout, int64_t row) {
  const auto& runs = layout.row_runs();
  return *std::ranges::find_if(runs, [&](const auto& run) { return row < run.row + run.count; });
}

// Calls visit(row, output, run) for each row in [begin, end), with the row's index in the whole
// weight and its RowRun.
template <typename Visit>
void for_rows(const PackedLayout& layout, int64_t begin, int64_t end, const Visit& visit) {
  while (begin < end) {
    const PackedLayout::RowRun& run = run_of(layout, begin);
    const int64_t last = std::min(end, run.row + run.count);
    for (int64_t row = begin; row < last; ++row) visit(row, run.output + row - run.row, run);
    begin = last;
  }
}

// Returns the index, among the groups that the shard stores, of the group of a block.
int64_t group_here(const PackedLayout& layout, const PackedLayout::RowRun& run, int64_t output,
                   int64_t block) {
  return run.first_group + layout.group_of(output, block) - run.groups.begin;
}

// Writes the scales of the parts of a row to `scales`.
void scales_of_row(const Packed& packed, int64_t row, int64_t output,
                   const PackedLayout::RowRun& run, std::span<float> scales) {
  const auto& parts = packed.layout.parts();
  const auto count = static_cast<int64_t>(parts.size());
  if (packed.layout.type() == PackedType::int8) {
    const auto* stored = packed.scales.const_data_ptr<at::BFloat16>() + row * count;
    for (int64_t i = 0; i < count; ++i) scales[i] = stored[i];
    return;
  }
  const auto* stored = packed.scales.const_data_ptr<uint8_t>() + row * count;
  const auto* groups = packed.groups.const_data_ptr<float>();
  for (int64_t i = 0; i < count; ++i) {
    const float group = groups[1 + group_here(packed.layout, run, output, parts[i].block)];
    scales[i] = dynamic_levels()[stored[i]] * group + groups[0];
  }
}

void unpack_rows_into(const Packed& packed, int64_t begin, int64_t end, const at::Tensor& to) {
  const PackedLayout& layout = packed.layout;
  const kernels::VectorKernels& kernels = kernels::vector_kernels();
  const auto type = to.scalar_type() == at::kBFloat16 ? kernels::ElementType::bfloat16
                                                      : kernels::ElementType::float32;
  const int64_t row_bytes = layout.row_bytes();
  parallel_for(begin, end, kPackedRowsOfThread, [&](int64_t first, int64_t last) {
    std::vector<float> levels(static_cast<size_t>(2 * row_bytes));
    std::vector<float> scales(layout.parts().size());
    for_rows(layout, first, last, [&](int64_t row, int64_t output, const auto& run) {
      scales_of_row(packed, row, output, run, scales);
      const auto* codes = packed.codes.const_data_ptr<uint8_t>() + row * row_bytes;
      if (layout.type() == PackedType::nf4) {
        kernels.levels_of_nf4(codes, row_bytes, kNf4Levels.data(), levels.data());
      } else {
        kernels.levels_of_int8(reinterpret_cast<const int8_t*>(codes), row_bytes, levels.data());
      }
      auto* const numbers = static_cast<char*>(to.mutable_data_ptr()) +
                            (row - begin) * layout.columns() * to.element_size();
      for (size_t i = 0; i < scales.size(); ++i) {
        const Range& columns = layout.parts()[i].columns;
        kernels.scale_levels(levels.data() + columns.begin, scales[i], columns.size(),
                             numbers + columns.begin * to.element_size(), type);
      }
    });
  });
}

// The double quantization of nf4's scales over the whole weight: the mean of all scales, a
// second-level scale for each group, and a code for each block. maxima: the scales themselves,
// [outputs, blocks].
struct GroupedScales {
  explicit GroupedScales(const at::Tensor& maxima)
      : mean(static_cast<float>(maxima.sum(at::kDouble).item<double>() /
                                static_cast<double>(maxima.numel()))),
        scales(static_cast<size_t>((maxima.numel() + PackedLayout::kBlocksPerGroup - 1) /
                                   PackedLayout::kBlocksPerGroup)),
        maxima_(maxima.const_data_ptr<float>()) {
    for (int64_t i = 0; i < maxima.numel(); ++i) {
      float& scale = scales[static_cast<size_t>(i / PackedLayout::kBlocksPerGroup)];
      scale = std::max(scale, std::abs(maxima_[i] - mean));
    }
  }
  uint8_t code_of(int64_t block) const {
    const float scale = scales[static_cast<size_t>(block / PackedLayout::kBlocksPerGroup)];
    return nearest(dynamic_levels(), (maxima_[block] - mean) * inverse(scale));
  }

  float mean;
  std::vector<float> scales;

 private:
  const float* maxima_;
};

void store_groups(const Packed& packed, const GroupedScales& scales) {
  auto* to = packed.groups.mutable_data_ptr<float>();
  *to++ = scales.mean;
  for (const PackedLayout::RowRun& run : packed.layout.row_runs()) {
    for (int64_t group = run.groups.begin; group < run.groups.end; ++group) {
      *to++ = scales.scales[static_cast<size_t>(group)];
    }
  }
}

void pack_nf4_row(const Packed& packed, const float* numbers, const float* maxima, int64_t row) {
  auto* codes = packed.codes.mutable_data_ptr<uint8_t>() + row * packed.layout.row_bytes();
  for (const PackedLayout::Part& part : packed.layout.parts()) {
    const float factor = inverse(maxima[part.block]);
    for (int64_t column = part.columns.begin; column < part.columns.end; ++column) {
      const uint8_t code = nearest(kNf4Levels, numbers[column] * factor);
      codes[column / 2] |= static_cast<uint8_t>(column % 2 == 0 ? code << 4 : code);
    }
  }
}

void pack_int8_row(const Packed& packed, const float* numbers, const float* maxima, int64_t row) {
  const auto& parts = packed.layout.parts();
  auto* codes = packed.codes.mutable_data_ptr<uint8_t>() + row * packed.layout.row_bytes();
  auto* scales = packed.scales.mutable_data_ptr<at::BFloat16>() + row * std::ssize(parts);
  for (const PackedLayout::Part& part : parts) {
    const at::BFloat16 scale = maxima[part.block] / kMostCode;
    *scales++ = scale;
    const auto divisor = static_cast<float>(scale);
    for (int64_t column = part.columns.begin; column < part.columns.end; ++column) {
      const float steps = divisor == 0 ? 0 : std::nearbyint(numbers[column] / divisor);
      codes[column] = static_cast<uint8_t>(
          static_cast<int8_t>(std::clamp<float>(steps, -kMostCode, kMostCode)));
    }
  }
}

int64_t aligned(int64_t bytes) {
  return (bytes + kByteAlignment - 1) / kByteAlignment * kByteAlignment;
}

}  // namespace

const std::array<float, 16>& nf4_levels() {
  return kNf4Levels;
}

PackedLayout::PackedLayout(PackedType type, int64_t outputs, int64_t inputs,
                           const std::vector<Range>& rows, const std::vector<Range>& columns)
    : type_(type), outputs_(outputs), inputs_(inputs) {
  for (const Range& run : columns) {
    for (int64_t begin = run.begin; begin < run.end;) {
      const int64_t block = begin / kBlock, end = std::min(run.end, (block + 1) * kBlock);
      if (parts_.empty() || parts_.back().block != block) {
        parts_.push_back({block, {columns_, columns_}});
      }
      columns_ += end - begin;
      parts_.back().columns.end = columns_;
      begin = end;
    }
  }
  for (const Range& run : rows) {
    if (!run.empty() && !parts_.empty()) {
      const Range groups{group_of(run.begin, parts_.front().block),
                         group_of(run.end - 1, parts_.back().block) + 1};
      row_runs_.push_back({run.begin, rows_, run.size(), groups, num_groups()});
    }
    rows_ += run.size();
  }
}

int64_t PackedLayout::num_groups() const {
  return row_runs_.empty() ? 0 : row_runs_.back().first_group + row_runs_.back().groups.size();
}

int64_t PackedLayout::group_bytes() const {
  return type_ == PackedType::nf4 ? aligned(4 * (1 + num_groups())) : 0;
}

int64_t PackedLayout::scale_bytes() const {
  return aligned(rows_ * std::ssize(parts_) * (type_ == PackedType::nf4 ? 1 : 2));
}

int64_t PackedLayout::row_bytes() const {
  return type_ == PackedType::nf4 ? (columns_ + 1) / 2 : columns_;
}

int64_t PackedLayout::bytes() const {
  if (rows_ == 0 || columns_ == 0) return 0;
  return group_bytes() + scale_bytes() + aligned(rows_ * row_bytes());
}

at::Tensor block_maxima(const at::Tensor& numbers, const PackedLayout& layout) {
  const at::Tensor maxima = at::zeros({layout.outputs(), layout.blocks()}, at::kFloat);
  if (layout.columns() == 0) return maxima;
  auto* found = maxima.mutable_data_ptr<float>();
  parallel_for(0, layout.rows(), kPackedRowsOfThread, [&](int64_t begin, int64_t end) {
    const at::Tensor rows = numbers.narrow(0, begin, end - begin).to(at::kFloat).contiguous();
    const auto* from = rows.const_data_ptr<float>();
    for_rows(layout, begin, end, [&](int64_t, int64_t output, const auto&) {
      for (const PackedLayout::Part& part : layout.parts()) {
        float& most = found[output * layout.blocks() + part.block];
        for (int64_t column = part.columns.begin; column < part.columns.end; ++column) {
          most = std::max(most, std::abs(from[column]));
        }
      }
      from += layout.columns();
    });
  });
  return maxima;
}

at::Tensor pack(const at::Tensor& numbers, const at::Tensor& maxima, const PackedLayout& layout) {
  const at::Tensor bytes = at::zeros({layout.bytes()}, at::kByte);
  if (layout.bytes() == 0) return bytes;
  COLOSSAL_CHECK(numbers.size(0) == layout.rows() && numbers.size(1) == layout.columns(),
                 "{} by {} numbers, the layout has {} by {}", numbers.size(0), numbers.size(1),
                 layout.rows(), layout.columns());
  const Packed packed(bytes, layout);
  const bool nf4 = layout.type() == PackedType::nf4;
  const int64_t blocks = layout.blocks();
  if (nf4) {
    const GroupedScales scales(maxima);
    store_groups(packed, scales);
    auto* codes = packed.scales.mutable_data_ptr<uint8_t>();
    for_rows(layout, 0, layout.rows(), [&](int64_t, int64_t output, const auto&) {
      for (const PackedLayout::Part& part : layout.parts()) {
        *codes++ = scales.code_of(output * blocks + part.block);
      }
    });
  }
  parallel_for(0, layout.rows(), kPackedRowsOfThread, [&](int64_t begin, int64_t end) {
    const at::Tensor rows = numbers.narrow(0, begin, end - begin).to(at::kFloat).contiguous();
    const auto* from = rows.const_data_ptr<float>();
    for_rows(layout, begin, end, [&](int64_t row, int64_t output, const auto&) {
      (nf4 ? pack_nf4_row : pack_int8_row)(packed, from,
                                           maxima.const_data_ptr<float>() + output * blocks, row);
      from += layout.columns();
    });
  });
  return bytes;
}

at::Tensor unpacked_rows(const at::Tensor& bytes, const PackedLayout& layout, int64_t begin,
                         int64_t end, at::ScalarType type) {
  if (bytes.is_meta() || begin == end || layout.columns() == 0) {
    return at::empty({end - begin, layout.columns()}, bytes.options().dtype(type));
  }
  if (!bytes.is_cpu()) return unpacked_rows_fallback(bytes, layout, begin, end, type);
  const at::ScalarType made = type == at::kBFloat16 ? type : at::kFloat;
  const at::Tensor numbers = at::empty({end - begin, layout.columns()}, made);
  unpack_rows_into(Packed(bytes, layout), begin, end, numbers);
  return numbers.to(type);
}

at::Tensor unpacked_rows_fallback(const at::Tensor& bytes, const PackedLayout& layout,
                                  int64_t begin, int64_t end, at::ScalarType type) {
  const Packed packed(bytes, layout);
  const auto on_device = [&](const std::vector<int64_t>& indices) {
    return at::tensor(indices, at::kLong).to(bytes.device());
  };
  const at::Tensor codes = packed.codes.narrow(0, begin, end - begin);
  at::Tensor levels, scales = packed.scales.narrow(0, begin, end - begin);
  if (layout.type() == PackedType::int8) {
    levels = codes.view(at::kChar).to(at::kFloat);
    scales = scales.to(at::kFloat);
  } else {
    const at::Tensor pairs =
        at::stack({codes.bitwise_right_shift(4), codes.bitwise_and(15)}, -1).flatten(1);
    const auto looked_up = [&](at::ArrayRef<float> table, const at::Tensor& indices) {
      return at::tensor(table, at::kFloat)
          .to(bytes.device())
          .index_select(0, indices.flatten().to(at::kLong))
          .view(indices.sizes());
    };
    levels = looked_up(kNf4Levels, pairs.narrow(1, 0, layout.columns()));
    std::vector<int64_t> groups;
    for_rows(layout, begin, end, [&](int64_t, int64_t output, const auto& run) {
      for (const PackedLayout::Part& part : layout.parts()) {
        groups.push_back(1 + group_here(layout, run, output, part.block));
      }
    });
    scales = looked_up(dynamic_levels(), scales) *
                 packed.groups.index_select(0, on_device(groups)).view(scales.sizes()) +
             packed.groups[0];
  }
  std::vector<int64_t> part_of_column;
  for (size_t i = 0; i < layout.parts().size(); ++i) {
    part_of_column.insert(part_of_column.end(),
                          static_cast<size_t>(layout.parts()[i].columns.size()),
                          static_cast<int64_t>(i));
  }
  return (levels * scales.index_select(1, on_device(part_of_column))).to(type);
}

}  // namespace colossal::ops
