#include "colossal/ops/product/bf16_product.h"

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/zeros.h>
#include <torch/library.h>

#include <algorithm>
#include <optional>

#include "colossal/base/error.h"
#include "colossal/base/range.h"
#include "colossal/ops/fallback/dispatch.h"
#include "colossal/ops/flat_tensor.h"
#include "colossal/ops/kernels/vector_kernels.h"
#include "colossal/ops/product/bf16_block.h"

namespace colossal::ops {
namespace {

// The kernel multiplies a block of rows of a by a panel of 64 columns of b. The layout of a panel
// is "VNNI", [k/2, 64, 2]: pairs of rows are interleaved. So b is packed, one group of panels at a
// time. A block of a is packed, too, if a is transposed or k is odd. A block of a and a panel of b
// fit into the second-level cache together.
constexpr int64_t kPanel = 64;  // columns of b
constexpr int64_t kGroup = 4;   // panels; more of them would leave the cache before they are used
constexpr int64_t kMostPacked = 1 << 23;  // elements of b that are packed at a time
constexpr int64_t kMostRows = 256;        // maximum rows of a block of a
// Elements after each packed row of a: rows at distances of a power of two would compete for a few
// cache sets.
constexpr int64_t kPadding = 32;
// If k is above kWholeDepth and the whole product is in memory in fp32, k is cut into parts of
// kDepth.
constexpr int64_t kWholeDepth = 8192;
constexpr int64_t kDepth = 2048;
constexpr int64_t kWideRows = 4096;  // rows of a that are converted to fp32 at a time
constexpr int64_t kLine = 64;        // bytes of a cache line

int64_t rounded_up(int64_t size, int64_t multiple) {
  return (size + multiple - 1) / multiple * multiple;
}

// A matrix with contiguous rows or, if `transposed`, with contiguous columns.
struct Operand {
  const uint16_t* data;  // null on meta
  int64_t rows, columns;
  int64_t stride;  // from row to row (if transposed, from column to column), in elements
  bool transposed;

  const uint16_t* at(int64_t row, int64_t column) const {
    return data + (transposed ? column * stride + row : row * stride + column);
  }
};

bool has_dense_rows(const at::Tensor& x) {
  return x.stride(1) == 1 && (x.stride(0) >= x.size(1) || x.size(0) == 1);
}

at::Tensor dense_along_one(const at::Tensor& x) {
  return has_dense_rows(x) || has_dense_rows(x.t()) ? x : x.contiguous();
}

Operand operand(const at::Tensor& x) {
  const bool transposed = !has_dense_rows(x);
  const auto* data = x.is_meta() ? nullptr : static_cast<const uint16_t*>(x.const_data_ptr());
  return {data, x.size(0), x.size(1), x.stride(transposed ? 1 : 0), transposed};
}

// Prefetches rows that will be read soon. They are too far apart for the CPU's own prefetching.
void prefetch_rows(const uint16_t* rows, int64_t stride, int64_t count, int64_t width) {
  for (int64_t row = 0; row < count; ++row) {
    const auto* bytes = reinterpret_cast<const char*>(rows + row * stride);
    for (int64_t i = 0; i < 2 * width; i += kLine) __builtin_prefetch(bytes + i, 0, 2);
  }
}

// Calls visit(first, size) for each strip of at most `strip` rows, and prefetches the next strip
// before.
template <typename Visit>
void for_strips(const uint16_t* rows, int64_t stride, int64_t count, int64_t width, int64_t strip,
                const Visit& visit) {
  for (int64_t first = 0; first < count; first += strip) {
    const int64_t next = first + strip;
    if (next < count) {
      prefetch_rows(rows + next * stride, stride, std::min(strip, count - next), width);
    }
    visit(first, std::min(strip, count - first));
  }
}

// Packs columns of b (at most kPanel) element by element, for depths and columns that the vector
// kernels do not support.
void pack_pairs(const Operand& b, Range depth, int64_t first_column, int64_t columns,
                uint32_t* to) {
  for (int64_t k = depth.begin; k < depth.end; k += 2) {
    for (int64_t column = 0; column < columns; ++column) {
      const uint32_t low = *b.at(k, first_column + column);
      const uint32_t high = k + 1 < depth.end ? *b.at(k + 1, first_column + column) : 0;
      to[(k - depth.begin) / 2 * kPanel + column] = low | high << 16;
    }
  }
}

// Packs columns of b if b's rows are contiguous. Packs a strip of rows for all panels before the
// next strip, in the order of memory.
void pack_rows(const Operand& b, Range depth, Range columns, uint32_t* to) {
  constexpr int64_t kStrip = 16;
  const int64_t pairs = (depth.size() + 1) / 2, even = depth.size() / 2 * 2;
  for_strips(b.at(depth.begin, columns.begin), b.stride, even, columns.size(), kStrip,
             [&](int64_t first, int64_t rows) {
               for (int64_t column = 0; column < columns.size(); column += kPanel) {
                 kernels::vector_kernels().interleave_pairs(
                     b.at(depth.begin + first, columns.begin + column), b.stride, rows,
                     std::min(kPanel, columns.size() - column),
                     to + (column * pairs + first / 2 * kPanel), kPanel);
               }
             });
  if (even == depth.size()) return;
  for (int64_t column = 0; column < columns.size(); column += kPanel) {
    pack_pairs(b, {depth.begin + even, depth.end}, columns.begin + column,
               std::min(kPanel, columns.size() - column),
               to + (column * pairs + even / 2 * kPanel));
  }
}

// Packs columns of b if b's columns are contiguous, so that the elements of a pair are adjacent.
void pack_columns(const Operand& b, Range depth, Range columns, uint32_t* to) {
  constexpr int64_t kStrip = 16;
  const int64_t pairs = (depth.size() + 1) / 2, even = depth.size() / 2 * 2;
  const uint16_t* data = b.at(depth.begin, columns.begin);
  const bool pairs_are_words = b.stride % 2 == 0 && reinterpret_cast<uintptr_t>(data) % 4 == 0;
  for_strips(data, b.stride, columns.size(), depth.size(), kStrip,
             [&](int64_t first, int64_t size) {
               uint32_t* const panel = to + first / kPanel * kPanel * pairs + first % kPanel;
               int64_t packed = 0;
               if (pairs_are_words) {
                 kernels::vector_kernels().transpose32(
                     reinterpret_cast<const uint32_t*>(data + first * b.stride), b.stride / 2, size,
                     even / 2, panel, kPanel);
                 packed = even;
               }
               pack_pairs(b, {depth.begin + packed, depth.end}, columns.begin + first, size,
                          panel + packed / 2 * kPanel);
             });
}

// Packs columns of b into panels [k/2, kPanel] of pairs, one panel after the other.
void pack_right(const Operand& b, Range depth, Range columns, uint32_t* to) {
  (b.transposed ? pack_columns : pack_rows)(b, depth, columns, to);
}

// Copies a block of a to contiguous rows. If the depth is odd, the element after each row is 0.
// to_stride: in elements of 16 bits.
void pack_left(const Operand& a, Range rows, Range depth, uint32_t* to, int64_t to_stride) {
  if (a.transposed) {
    constexpr int64_t kStrip = 32;
    for_strips(a.at(rows.begin, depth.begin), a.stride, depth.size(), rows.size(), kStrip,
               [&](int64_t first, int64_t size) {
                 kernels::vector_kernels().transpose_pairs(a.at(rows.begin, depth.begin + first),
                                                           a.stride, size, rows.size(),
                                                           to + first / 2, to_stride / 2);
               });
    return;
  }
  for (int64_t row = 0; row < rows.size(); ++row) {
    auto* const packed = reinterpret_cast<uint16_t*>(to) + row * to_stride;
    std::copy_n(a.at(rows.begin + row, depth.begin), depth.size(), packed);
    packed[depth.size()] = 0;
  }
}

// Memory for a block of the product, in fp32.
struct Block {
  float* data;
  int64_t stride;
  Range rows, columns;  // of the whole product
};

class BlockProduct {
 public:
  // whole_sums: the whole product is in memory in fp32, so k may be cut into parts.
  BlockProduct(const at::Tensor& a, const at::Tensor& b, bool whole_sums)
      : a_(operand(a)),
        b_(operand(b)),
        depth_(whole_sums && a_.columns > kWholeDepth ? kDepth : a_.columns),
        row_block_(
            std::clamp(rounded_up(a_.rows / at::get_num_threads(), kPanel), kPanel, kMostRows)),
        group_(columns_of_group()),
        packed_stride_(rounded_up(depth_, 2) + kPadding),
        packed_a_(at::empty({at::get_num_threads(), packed_rows() * packed_stride_ / 2},
                            a.options().dtype(at::kInt))),
        packed_b_(
            at::empty({group_ / kPanel, (depth_ + 1) / 2, kPanel}, b.options().dtype(at::kInt))) {}

  int64_t row_block() const { return row_block_; }

  // Computes the product in blocks of at most row_block() rows and kPanel columns. target(rows,
  // columns) returns the Block to which the kernel writes. done(block) is called when a block is
  // complete. Several threads call both functions.
  template <typename Target, typename Done>
  void compute(Bf16Product product, bool add, const Target& target, const Done& done) const {
    for (int64_t k = 0; k < a_.columns; k += depth_) {
      const Range depth{k, std::min(a_.columns, k + depth_)};
      for (int64_t column = 0; column < b_.columns; column += group_) {
        const Range columns{column, std::min(b_.columns, column + group_)};
        pack(depth, columns);
        multiply(product, depth, columns, add || k > 0, target, [&](const Block& block) {
          if (depth.end == a_.columns) done(block);
        });
      }
    }
  }

 private:
  bool packs_a(int64_t depth) const { return a_.transposed || depth % 2 != 0; }
  int64_t packed_rows() const { return packs_a(a_.columns) ? row_block_ : 0; }

  // Returns the number of columns of b in a group. If a is packed or k is cut, each group packs or
  // reads a again, so groups are as large as kMostPacked allows.
  int64_t columns_of_group() const {
    const bool few = depth_ == a_.columns && !packs_a(depth_);
    const int64_t most = few ? 0 : kMostPacked / depth_ / kPanel;
    return std::min(rounded_up(b_.columns, kPanel), std::max(kGroup, most) * kPanel);
  }

  void pack(Range depth, Range columns) const {
    auto* const packed = static_cast<uint32_t*>(packed_b_.mutable_data_ptr());
    const int64_t panels = (columns.size() + kPanel - 1) / kPanel;
    const int64_t panel_size = (depth.size() + 1) / 2 * kPanel;
    at::parallel_for(0, panels, 1, [&](int64_t first, int64_t last) {
      pack_right(
          b_, depth,
          {columns.begin + first * kPanel, std::min(columns.end, columns.begin + last * kPanel)},
          packed + first * panel_size);
    });
  }

  template <typename Target, typename Done>
  void multiply(Bf16Product product, Range depth, Range columns, bool add, const Target& target,
                const Done& done) const {
    const auto* packed_b = static_cast<const at::BFloat16*>(packed_b_.const_data_ptr());
    const int64_t even_depth = rounded_up(depth.size(), 2);
    const int64_t blocks = (a_.rows + row_block_ - 1) / row_block_;
    at::parallel_for(0, blocks, 1, [&](int64_t first, int64_t last) {
      for (int64_t i = first; i < last; ++i) {
        const Range rows{i * row_block_, std::min(a_.rows, (i + 1) * row_block_)};
        const uint16_t* left = a_.at(rows.begin, depth.begin);
        int64_t stride = a_.stride;
        if (packs_a(depth.size())) {
          auto* const packed = static_cast<uint32_t*>(packed_a_.mutable_data_ptr()) +
                               at::get_thread_num() * packed_a_.size(1);
          pack_left(a_, rows, depth, packed, packed_stride_);
          left = reinterpret_cast<const uint16_t*>(packed);
          stride = packed_stride_;
        }
        for (int64_t column = columns.begin; column < columns.end; column += kPanel) {
          const Block block = target(rows, Range{column, std::min(columns.end, column + kPanel)});
          product(rows.size(), block.columns.size(), even_depth, stride, kPanel, block.stride, add,
                  reinterpret_cast<const at::BFloat16*>(left),
                  packed_b + (column - columns.begin) * even_depth, block.data);
          done(block);
        }
      }
      release_bf16_block_product();
    });
  }

  Operand a_, b_;
  int64_t depth_;  // part of k that is packed at a time
  int64_t row_block_, group_;
  int64_t packed_stride_;
  at::Tensor packed_a_, packed_b_;
};

void wide_product(const at::Tensor& a, const at::Tensor& b, const at::Tensor& sum, bool add) {
  const at::Tensor wide_b = b.to(at::kFloat);
  for (int64_t begin = 0; begin < a.size(0); begin += kWideRows) {
    const int64_t size = std::min(kWideRows, a.size(0) - begin);
    at::Tensor slice = sum.narrow(0, begin, size);
    const at::Tensor wide_a = a.narrow(0, begin, size).to(at::kFloat);
    add ? slice.addmm_(wide_a, wide_b) : at::mm_out(slice, wide_a, wide_b);
  }
}

// Computes the product in `sum`, contiguous fp32. Calls done(block) when a block is complete.
template <typename Done>
void product_into(const at::Tensor& sum, Bf16Product product, const BlockProduct& blocks, bool add,
                  const Done& done) {
  auto* const data = sum.mutable_data_ptr<float>();
  const int64_t stride = sum.size(1);
  blocks.compute(
      product, add,
      [&](Range rows, Range columns) {
        return Block{data + rows.begin * stride + columns.begin, stride, rows, columns};
      },
      done);
}

bool is_empty(const at::Tensor& a, const at::Tensor& sum) {
  return sum.numel() == 0 || a.size(1) == 0;
}

void summed_product_cpu(const at::Tensor& a, const at::Tensor& b, const at::Tensor& sum, bool add) {
  if (is_empty(a, sum)) {
    if (!add) sum.zero_();
  } else if (const Bf16Product product = bf16_block_product()) {
    const at::Tensor left = dense_along_one(a), right = dense_along_one(b);
    product_into(sum, product, BlockProduct(left, right, /*whole_sums=*/true), add,
                 [](const Block&) {});
  } else {
    wide_product(a, b, sum, add);
  }
}

// Allocates what summed_product_cpu() allocates.
void summed_product_meta(const at::Tensor& a, const at::Tensor& b, const at::Tensor& sum,
                         bool add) {
  if (is_empty(a, sum)) return;
  if (bf16_block_product()) {
    const at::Tensor left = dense_along_one(a), right = dense_along_one(b);
    const BlockProduct blocks(left, right, /*whole_sums=*/true);
  } else {
    wide_product(a, b, sum, add);
  }
}

// Writes blocks of the product to the result: to <- factor * block + bias, rounded to bf16.
struct Rounding {
  const uint16_t* bias;  // null: none
  float factor;
  uint16_t* to;
  int64_t to_stride;

  void write(const Block& block) const {
    const int64_t column = block.columns.begin;
    kernels::vector_kernels().round_block(block.data, block.stride, block.rows.size(),
                                          block.columns.size(), bias ? bias + column : nullptr,
                                          factor, to + block.rows.begin * to_stride + column,
                                          to_stride);
  }

  // Prefetches a block's part of `to` for writing, before the kernel computes the block.
  void expect(Range rows, Range columns) const {
    for (int64_t row = rows.begin; row < rows.end; ++row) {
      const auto* bytes = reinterpret_cast<const char*>(to + row * to_stride + columns.begin);
      for (int64_t i = 0; i < 2 * columns.size(); i += kLine) __builtin_prefetch(bytes + i, 1, 2);
    }
  }
};

Rounding rounding(const at::Tensor& to, const std::optional<at::Tensor>& bias,
                  const std::optional<at::Tensor>& factor) {
  return {bias ? static_cast<const uint16_t*>(bias->const_data_ptr()) : nullptr,
          factor ? factor->item<float>() : 1.0F, static_cast<uint16_t*>(to.mutable_data_ptr()),
          to.stride(0)};
}

// Allocates a block in fp32 for each thread.
at::Tensor empty_blocks(const at::Tensor& a, int64_t row_block) {
  return at::empty({at::get_num_threads(), row_block, kPanel}, a.options().dtype(at::kFloat));
}

at::Tensor empty_sum(const at::Tensor& a, const at::Tensor& b) {
  return at::empty({a.size(0), b.size(1)}, a.options().dtype(at::kFloat));
}

void rounded_block_product(Bf16Product product, const at::Tensor& a, const at::Tensor& b,
                           const Rounding& rounding) {
  const auto write = [&](const Block& block) { rounding.write(block); };
  if (a.size(1) > kWholeDepth) {
    const at::Tensor sum = empty_sum(a, b);
    product_into(sum, product, BlockProduct(a, b, /*whole_sums=*/true), /*add=*/false, write);
    return;
  }
  const BlockProduct blocks(a, b, /*whole_sums=*/false);
  const at::Tensor memory = empty_blocks(a, blocks.row_block());
  const auto target = [&](Range rows, Range columns) {
    rounding.expect(rows, columns);
    return Block{memory.mutable_data_ptr<float>() + at::get_thread_num() * memory.stride(0), kPanel,
                 rows, columns};
  };
  blocks.compute(product, /*add=*/false, target, write);
}

// Computes the product in fp32, in slices of at most kWideRows rows, and calls visit(rows, slice)
// for each.
template <typename Visit>
void for_wide_slices(const at::Tensor& a, const at::Tensor& b, const Visit& visit) {
  const at::Tensor sum = empty_sum(a.narrow(0, 0, std::min(kWideRows, a.size(0))), b);
  for (int64_t begin = 0; begin < a.size(0); begin += kWideRows) {
    const int64_t size = std::min(kWideRows, a.size(0) - begin);
    const at::Tensor slice = sum.narrow(0, 0, size);
    wide_product(a.narrow(0, begin, size), b, slice, /*add=*/false);
    visit(Range{begin, begin + size}, slice);
  }
}

void rounded_product_cpu(const at::Tensor& a, const at::Tensor& b, const at::Tensor& to,
                         const std::optional<at::Tensor>& bias,
                         const std::optional<at::Tensor>& factor) {
  COLOSSAL_CHECK(to.stride(1) == 1 || to.size(1) <= 1, "the result's rows are not dense");
  const Rounding given = rounding(to, bias, factor);
  const Bf16Product product = bf16_block_product();
  if (is_empty(a, to)) {
    const at::Tensor zeros = at::zeros({1, to.size(1)}, a.options().dtype(at::kFloat));
    for (int64_t row = 0; row < to.size(0); ++row) {
      given.write({zeros.mutable_data_ptr<float>(), to.size(1), {row, row + 1}, {0, to.size(1)}});
    }
  } else if (product) {
    rounded_block_product(product, dense_along_one(a), dense_along_one(b), given);
  } else {
    for_wide_slices(a, b, [&](Range rows, const at::Tensor& slice) {
      given.write({slice.mutable_data_ptr<float>(), to.size(1), rows, {0, to.size(1)}});
    });
  }
}

void rounded_product_meta(const at::Tensor& a, const at::Tensor& b, const at::Tensor& to,
                          const std::optional<at::Tensor>&, const std::optional<at::Tensor>&) {
  if (is_empty(a, to)) return;
  if (!bf16_block_product()) {
    for_wide_slices(a, b, [](Range, const at::Tensor&) {});
    return;
  }
  const at::Tensor left = dense_along_one(a), right = dense_along_one(b);
  const bool deep = a.size(1) > kWholeDepth;
  const BlockProduct blocks(left, right, deep);
  const at::Tensor memory = deep ? empty_sum(a, b) : empty_blocks(a, blocks.row_block());
}

TORCH_LIBRARY_FRAGMENT(colossal, m) {
  m.def("summed_product(Tensor a, Tensor b, Tensor(a!) sum, bool add) -> ()");
  m.def("rounded_product(Tensor a, Tensor b, Tensor(a!) to, Tensor? bias, Tensor? factor) -> ()");
}
TORCH_LIBRARY_IMPL(colossal, CPU, m) {
  m.impl("summed_product", summed_product_cpu);
  m.impl("rounded_product", rounded_product_cpu);
}
TORCH_LIBRARY_IMPL(colossal, Meta, m) {
  m.impl("summed_product", summed_product_meta);
  m.impl("rounded_product", rounded_product_meta);
}

std::optional<at::Tensor> if_defined(const at::Tensor& x) {
  return x.defined() ? std::optional(x) : std::nullopt;
}

}  // namespace

void summed_product(const at::Tensor& a, const at::Tensor& b, const at::Tensor& sum, bool add) {
  static const auto op = find_operator<decltype(summed_product_cpu)>("colossal::summed_product");
  op.call(a, b, sum, add);
}

void rounded_product(const at::Tensor& a, const at::Tensor& b, const at::Tensor& to,
                     const at::Tensor& bias, const at::Tensor& factor) {
  static const auto op = find_operator<decltype(rounded_product_cpu)>("colossal::rounded_product");
  op.call(a, b, to, if_defined(bias), if_defined(factor));
}

}  // namespace colossal::ops
