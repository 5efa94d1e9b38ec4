// Memory formats of the operands of flash attention's matrix products, in each thread's scratch
// memory.
#pragma once

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <type_traits>
#include <vector>

#include "colossal/ops/flash_attention.h"
#include "colossal/ops/flat_tensor.h"
#include "colossal/ops/kernels/attention_passes.h"
#include "colossal/ops/kernels/block_product.h"

namespace colossal::ops::flash {

using kernels::ElementType;
using kernels::Matrix;

inline constexpr int64_t kLanes = kernels::kAttentionLanes;
inline constexpr int64_t kAlignment = 64;  // bytes

// Keys per block. On the causal diagonal a format may use smaller blocks, of kDiagonalKeys keys, so
// that fewer masked scores are computed. Both are multiples of 32, since a word of dropout bits
// covers 32 keys.
inline constexpr int64_t kKeys = 64;

// A block of keys: `count` rows of a tensor, from `row` on.
struct KeyRows {
  int64_t row, count;
};

template <typename Real>
inline constexpr ElementType kType = sizeof(Real) == 8 ? ElementType::float64
                                                       : ElementType::float32;

inline int64_t round_up(int64_t size, int64_t multiple) {
  return (size + multiple - 1) / multiple * multiple;
}

// Returns a row stride for this many columns, in elements: an odd number of cache lines. With a
// power of two, the elements of a column would compete for a few cache sets.
template <typename Element>
int64_t stride_for(int64_t columns) {
  constexpr int64_t kLine = kAlignment / sizeof(Element);
  return (round_up(round_up(columns, kLanes), kLine) / kLine | 1) * kLine;
}

// Cuts buffers out of one thread's part of an allocation. If `memory` is null, take() returns null
// and only the bytes are counted.
class Scratch {
 public:
  explicit Scratch(char* memory) : memory_(memory) {}

  template <typename Number>
  Number* take(int64_t count) {
    const int64_t begin = used_;
    used_ += round_up(count * static_cast<int64_t>(sizeof(Number)), kAlignment);
    return memory_ ? reinterpret_cast<Number*>(memory_ + begin) : nullptr;
  }

  int64_t used() const { return used_; }

 private:
  char* memory_;
  int64_t used_ = 0;
};

// One head of one sample, [sequence, columns], in a tensor [batch, heads, sequence, columns]. Byte:
// const char for a tensor that is read, char for a tensor that is written.
template <typename Byte>
class RowsOfHead {
 public:
  RowsOfHead(const at::Tensor& tensor, int64_t sample, int64_t head)
      : row_stride_(tensor.stride(2)),
        row_bytes_(row_stride_ * tensor.element_size()),
        type_(element_type(tensor.scalar_type())),
        rows_(tensor.size(2)),
        columns_(tensor.size(3)) {
    if constexpr (std::is_const_v<Byte>) {
      first_ = static_cast<Byte*>(tensor.const_data_ptr());
    } else {
      first_ = static_cast<Byte*>(tensor.mutable_data_ptr());
    }
    first_ += (sample * tensor.stride(0) + head * tensor.stride(1)) * tensor.element_size();
  }

  auto* at(int64_t row) const { return first_ + row * row_bytes_; }
  int64_t row_stride() const { return row_stride_; }  // elements
  ElementType type() const { return type_; }
  int64_t rows() const { return rows_; }
  int64_t columns() const { return columns_; }

 private:
  Byte* first_;
  int64_t row_stride_, row_bytes_;
  ElementType type_;
  int64_t rows_, columns_;
};

using HeadRows = RowsOfHead<const char>;
using WrittenHeadRows = RowsOfHead<char>;

// to <- rows [begin, begin + count) of `from`. to: [count, columns rounded up to a multiple of
// kLanes], of to_type, with this row stride; padded with zeros.
template <typename Element>
void load_rows(const HeadRows& from, int64_t begin, int64_t count, ElementType to_type, Element* to,
               int64_t stride) {
  const int64_t columns = from.columns();
  for (int64_t row = 0; row < count; ++row, to += stride) {
    if (from.type() == to_type) {
      std::memcpy(to, from.at(begin + row), columns * sizeof(Element));
    } else {
      kernels::vector_kernels().convert(from.at(begin + row), from.type(), to, to_type, columns, 1);
    }
    std::fill(to + columns, to + round_up(columns, kLanes), Element{});
  }
}

// Rows [begin, begin + count) of `to` <- scale * from, rounded to the type of `to`.
template <typename Real>
void store_rows(const Real* from, int64_t from_stride, const WrittenHeadRows& to, int64_t begin,
                int64_t count, double scale) {
  const kernels::VectorKernels& kernels = kernels::vector_kernels();
  if constexpr (sizeof(Real) == 4) {
    if (to.type() == ElementType::bfloat16) {
      kernels.round_block(from, from_stride, count, to.columns(), nullptr,
                          static_cast<float>(scale), reinterpret_cast<uint16_t*>(to.at(begin)),
                          to.row_stride());
      return;
    }
  }
  for (int64_t row = 0; row < count; ++row) {
    kernels.convert(from + row * from_stride, kType<Real>, to.at(begin + row), to.type(),
                    to.columns(), scale);
  }
}

// Row `row` of `to` += scale * from. Multiplies `from` by scale in place.
template <typename Real>
void add_row(Real* from, const WrittenHeadRows& to, int64_t row, double scale) {
  for (int64_t column = 0; column < to.columns(); ++column) {
    from[column] *= static_cast<Real>(scale);
  }
  kernels::vector_kernels().accumulate(from, kType<Real>, to.at(row), to.type(), to.columns());
}

template <typename Real>
void transpose(const Real* from, int64_t from_stride, int64_t rows, int64_t columns, Real* to,
               int64_t to_stride) {
  const kernels::VectorKernels& kernels = kernels::vector_kernels();
  if constexpr (sizeof(Real) == 8) {
    kernels.transpose64(reinterpret_cast<const uint64_t*>(from), from_stride, rows, columns,
                        reinterpret_cast<uint64_t*>(to), to_stride);
  } else {
    kernels.transpose32(reinterpret_cast<const uint32_t*>(from), from_stride, rows, columns,
                        reinterpret_cast<uint32_t*>(to), to_stride);
  }
}

// Memory formats of the operands of matrix products. A format has
//   Element, Sum  the types of operands and of results
//   kPair         how many rows of a right operand are interleaved: it is [depth / kPair, n, kPair]
//   kDiagonalKeys see kKeys
//   Keys          a head's keys or values, as left operands. left(): the rows from a given key on;
//                 left_transposed(): the transpose of a block, given by its first key and index
//   Queries       a block of queries, or of output gradients, as right operands, with columns
//                 padded with zeros to a multiple of kLanes
//   passes        kernels that are applied to a block of scores between two products
//   multiply      c [m, n] <- (add ? c : 0) + a [m, k] b [k, n]

// fp32 and fp64 operands; bf16 tensors are converted to fp32.
template <typename Real>
struct WideFormat {
  using Element = Real;
  using Sum = Real;
  static constexpr int64_t kPair = 1;
  static constexpr int64_t kDiagonalKeys = 32;

  kernels::BlockProduct<Real> block_product;
  kernels::AttentionPasses passes{kernels::vector_kernels().attention_probabilities,
                                  kernels::vector_kernels().attention_gradients,
                                  kernels::vector_kernels().soft_cap};

  explicit WideFormat(const FlashAttention&) {
    if constexpr (sizeof(Real) == 8) {
      block_product = kernels::block_product_kernels().float64;
    } else {
      block_product = kernels::block_product_kernels().float32;
    }
  }

  // The keys are copied, with a stride that suits the cache: a product that reads the rows in
  // place, in a tensor of fused queries, keys and values, takes a third longer.
  struct Keys {
    int64_t stride;
    Real* rows;

    Keys(Scratch& scratch, const at::Tensor& tensor, const std::vector<KeyRows>&, bool, bool)
        : stride(stride_for<Real>(tensor.size(3))),
          rows(scratch.take<Real>(tensor.size(2) * stride)) {}

    void load(const HeadRows& from) { load_rows(from, 0, from.rows(), kType<Real>, rows, stride); }
    Matrix<Real> left(int64_t key) const { return {rows + key * stride, stride, 1}; }
    Matrix<Real> left_transposed(int64_t key, int64_t) const {
      return {rows + key * stride, 1, stride};
    }
  };

  struct Queries {
    int64_t columns, right_stride, transposed_stride;
    Real* right;
    Real* right_transposed;

    Queries(Scratch& scratch, int64_t rows, int64_t columns_, int64_t stride, bool)
        : columns(columns_),
          right_stride(stride_for<Real>(columns)),
          transposed_stride(stride),
          right(scratch.take<Real>(rows * right_stride)),
          right_transposed(scratch.take<Real>(columns * stride)) {}

    void load(const HeadRows& from, int64_t begin, int64_t count) {
      load_rows(from, begin, count, kType<Real>, right, right_stride);
      const int64_t lanes = round_up(count, kLanes);
      std::fill(right + count * right_stride, right + lanes * right_stride, Real{0});
      transpose(right, right_stride, lanes, columns, right_transposed, transposed_stride);
    }
  };

  void multiply(int64_t m, int64_t n, int64_t k, const Matrix<Real>& a, const Real* b,
                int64_t b_stride, Real* c, int64_t c_stride, bool add) const {
    block_product(m, n, k, a, b, b_stride, c, c_stride, add);
  }
  void release() const {}
};

// bf16 operands of products that accumulate in fp32.
struct Bf16Format {
  using Element = uint16_t;
  using Sum = float;
  static constexpr int64_t kPair = 2;
  static constexpr int64_t kDiagonalKeys = 64;

  Bf16Product block_product;
  kernels::AttentionPasses passes = kernels::bf16_attention_passes();

  explicit Bf16Format(const FlashAttention& problem) : block_product(problem.bf16_product) {}

  // The keys are transposed block by block, and each block is contiguous. In a transpose of all
  // keys, each row would be as long as the sequence, and so lie in another memory page.
  struct Keys {
    const std::vector<KeyRows>& blocks;
    int64_t stride, block_size;
    uint16_t* rows;
    uint16_t* transposed;

    Keys(Scratch& scratch, const at::Tensor& tensor, const std::vector<KeyRows>& blocks_,
         bool needs_rows, bool needs_transposed)
        : blocks(blocks_),
          stride(stride_for<uint16_t>(tensor.size(3))),
          block_size(tensor.size(3) * kKeys),
          rows(needs_rows ? scratch.take<uint16_t>(tensor.size(2) * stride) : nullptr),
          transposed(needs_transposed ? scratch.take<uint16_t>(std::ssize(blocks) * block_size)
                                      : nullptr) {}

    void load(const HeadRows& from) {
      if (rows) load_rows(from, 0, from.rows(), ElementType::bfloat16, rows, stride);
      if (!transposed) return;
      uint16_t* to = transposed;
      for (const KeyRows& block : blocks) {
        kernels::vector_kernels().transpose_pairs(
            reinterpret_cast<const uint16_t*>(from.at(block.row)), from.row_stride(), block.count,
            from.columns(), reinterpret_cast<uint32_t*>(to), kKeys / 2);
        // A block with an odd number of keys is multiplied as if it had one more, whose elements
        // are zeros.
        for (int64_t i = block.count; block.count % 2 == 1 && i < block_size; i += kKeys) to[i] = 0;
        to += block_size;
      }
    }
    Matrix<uint16_t> left(int64_t key) const { return {rows + key * stride, stride, 1}; }
    Matrix<uint16_t> left_transposed(int64_t, int64_t block) const {
      return {transposed + block * block_size, kKeys, 1};
    }
  };

  struct Queries {
    int64_t columns, right_stride, transposed_stride;
    uint16_t* dense;
    uint16_t* right;
    uint16_t* right_transposed;

    Queries(Scratch& scratch, int64_t rows, int64_t columns_, int64_t stride, bool needs_right)
        : columns(columns_),
          right_stride(round_up(columns, kLanes)),
          transposed_stride(stride),
          dense(scratch.take<uint16_t>(rows * right_stride)),
          right(needs_right ? scratch.take<uint16_t>(rows * right_stride) : nullptr),
          right_transposed(scratch.take<uint16_t>(round_up(columns, 2) * stride)) {}

    void load(const HeadRows& from, int64_t begin, int64_t count) {
      const kernels::VectorKernels& kernels = kernels::vector_kernels();
      load_rows(from, begin, count, ElementType::bfloat16, dense, right_stride);
      const int64_t lanes = round_up(count, kLanes);
      std::fill(dense + count * right_stride, dense + lanes * right_stride, uint16_t{0});
      kernels.transpose32(reinterpret_cast<const uint32_t*>(dense), right_stride / 2, lanes,
                          (columns + 1) / 2, reinterpret_cast<uint32_t*>(right_transposed),
                          transposed_stride);
      if (right) {
        kernels.interleave_pairs(dense, right_stride, lanes, right_stride,
                                 reinterpret_cast<uint32_t*>(right), right_stride);
      }
    }
  };

  void multiply(int64_t m, int64_t n, int64_t k, const Matrix<uint16_t>& a, const uint16_t* b,
                int64_t b_stride, float* c, int64_t c_stride, bool add) const {
    block_product(m, n, round_up(k, 2), a.row_stride, b_stride, c_stride, add,
                  reinterpret_cast<const at::BFloat16*>(a.data),
                  reinterpret_cast<const at::BFloat16*>(b), c);
  }
  void release() const {
    if (block_product == bf16_block_product()) release_bf16_block_product();
  }
};

}  // namespace colossal::ops::flash
