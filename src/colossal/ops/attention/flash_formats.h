// Implementation detail of flash_attention.cpp: the memory formats in which it stores blocks of
// queries, keys and values in scratch memory, for its matrix products. There are two formats:
// WideFormat<Real> for fp32 and fp64, and Bf16Format.
//
// Terms. Scores are stored transposed: one row per key and one column per query. A column is a
// "lane", and blocks of queries are padded to a multiple of kLanes lanes. A product is c = a b; a
// is the "left" operand and b the "right" operand.
#pragma once

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <type_traits>
#include <vector>

#include "colossal/ops/attention/flash_attention.h"
#include "colossal/ops/flat_tensor.h"
#include "colossal/ops/kernels/attention_passes.h"
#include "colossal/ops/kernels/block_product.h"

namespace colossal::ops::flash {

using kernels::ElementType;
using kernels::Matrix;

inline constexpr int64_t kLanes = kernels::kAttentionLanes;
inline constexpr int64_t kAlignment = 64;  // bytes: the size of a cache line

// Maximum number of keys per block. A block that a causal mask or a window cuts has at most
// kDiagonalKeys keys, a constant of the format, so that fewer masked scores are computed. Both
// constants are multiples of 32, since a word of dropout bits covers 32 keys.
inline constexpr int64_t kKeys = 64;

// A block of keys: rows [row, row + count) of the tensor of keys.
struct KeyRows {
  int64_t row, count;
};

// The ElementType of float or double.
template <typename Real>
inline constexpr ElementType kType = sizeof(Real) == 8 ? ElementType::float64
                                                       : ElementType::float32;

// Returns `size` rounded up to a multiple of `multiple`.
inline int64_t round_up(int64_t size, int64_t multiple) {
  return (size + multiple - 1) / multiple * multiple;
}

// Returns a row stride for a matrix with `columns` columns, in elements. The stride is an odd
// number of cache lines: with a power of two, the elements of a column would compete for a few
// cache sets. The row has room for `columns` rounded up to a multiple of kLanes.
template <typename Element>
int64_t stride_for(int64_t columns) {
  constexpr int64_t kLine = kAlignment / sizeof(Element);
  return (round_up(round_up(columns, kLanes), kLine) / kLine | 1) * kLine;
}

// Divides one thread's scratch memory into buffers.
class Scratch {
 public:
  // memory: aligned to kAlignment bytes. Null: take() returns null, and used() tells how many bytes
  // the buffers need.
  explicit Scratch(char* memory) : memory_(memory) {}

  // Returns a buffer of `count` numbers, aligned to kAlignment bytes and not initialized.
  template <typename Number>
  Number* take(int64_t count) {
    const int64_t begin = used_;
    used_ += round_up(count * static_cast<int64_t>(sizeof(Number)), kAlignment);
    return memory_ ? reinterpret_cast<Number*>(memory_ + begin) : nullptr;
  }

  int64_t used() const { return used_; }  // bytes of all buffers so far

 private:
  char* memory_;
  int64_t used_ = 0;
};

// View of one head of one sample: the rows [sequence, columns] in a tensor [batch, heads, sequence,
// columns]. Byte: const char for a tensor that is read, char for a tensor that is written.
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

  auto* at(int64_t row) const { return first_ + row * row_bytes_; }  // first byte of a row
  int64_t row_stride() const { return row_stride_; }                 // elements
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

// Copies rows [begin, begin + count) of `from` to `to`, and converts them to to_type, the type of
// Element. to: [count, columns rounded up to a multiple of kLanes], with row stride `stride` in
// elements; columns after those of `from` become zeros.
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

// Writes scale * from to rows [begin, begin + count) of `to`, rounded to the type of `to`. from:
// [count, to.columns()], with row stride from_stride in elements.
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

// Multiplies from [to.columns()] by scale in place, and adds the product to row `row` of `to`.
template <typename Real>
void add_row(Real* from, const WrittenHeadRows& to, int64_t row, double scale) {
  for (int64_t column = 0; column < to.columns(); ++column) {
    from[column] *= static_cast<Real>(scale);
  }
  kernels::vector_kernels().accumulate(from, kType<Real>, to.at(row), to.type(), to.columns());
}

// Writes the transpose of from [rows, columns] to to [columns, rows]. Row strides are in elements.
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

// A format is a class with these members:
//   Element, Sum   the types of the elements of operands and of results
//   kPair          number of rows of a right operand [k, n] that are interleaved: its memory is
//                  [k / kPair, n, kPair]
//   kDiagonalKeys  maximum number of keys in a block that a causal mask or a window cuts
//   Keys           all keys, or all values, of one head, as left operands. left(key): the rows from
//                  row `key` on. left_transposed(key, block): the transpose of the block of keys
//                  that starts at row `key` and has index `block`
//   Queries        one block of queries, or of output gradients [rows, columns], as right operands:
//                  `right` is the block itself, [rows, columns], right_transposed its transpose,
//                  [columns, rows]. `rows` in both, and `columns` in `right`, are padded with
//                  zeros to a multiple of kLanes
//   passes         kernels that turn a block of scores into probabilities or gradients
//   multiply       computes c <- a b, or c <- c + a b if `add`, with a [m, k], b [k, n], c [m, n].
//                  Strides are distances between rows, in elements. b_stride is the distance before
//                  interleaving: groups of kPair rows are kPair * b_stride elements apart
//   release        releases state of the calling thread after its last product
// The constructors of Keys and Queries take buffers from `scratch`; load() then copies rows of one
// head into them, in the format:
//   Keys(scratch, tensor, blocks, needs_rows, needs_transposed)  tensor: the keys or values of all
//                  heads, of which only the sizes are used; blocks: the blocks of keys; the flags
//                  say whether left() and left_transposed() will be used
//   Keys::load(from)  copies all rows of `from`
//   Queries(scratch, rows, columns, stride, needs_right)  rows: maximum per block, a multiple of
//                  kLanes; stride: distance between rows of right_transposed before
//                  interleaving, in elements, at least `rows`; needs_right: whether `right` is used
//   Queries::load(from, begin, count)  copies rows [begin, begin + count) of `from`

// Format with fp32 or fp64 operands. Tensors in bf16 are converted to fp32.
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

  // Copies the keys, with a row stride that suits the cache. A product that reads the rows in place
  // in a tensor of fused queries, keys and values takes a third longer. left_transposed() is the
  // same memory with exchanged strides.
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
    Real* right;             // [rows, right_stride]
    Real* right_transposed;  // [columns, transposed_stride]

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

// Format with bf16 operands; products accumulate in fp32.
struct Bf16Format {
  using Element = uint16_t;
  using Sum = float;
  static constexpr int64_t kPair = 2;
  static constexpr int64_t kDiagonalKeys = 64;

  Bf16Product block_product;
  kernels::AttentionPasses passes = kernels::bf16_attention_passes();

  explicit Bf16Format(const FlashAttention& problem) : block_product(problem.bf16_product) {}

  // `rows`: the keys, [keys, stride]. `transposed`: the transpose of each block of keys, [blocks,
  // columns, kKeys]. One transpose of all keys would be slower to read: each of its rows would be
  // as long as the sequence and lie in another memory page. Each pointer is null if not needed.
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
    uint16_t* dense;             // [rows, right_stride], not interleaved
    uint16_t* right;             // [rows / 2, right_stride, 2]; null if not needed
    uint16_t* right_transposed;  // [columns / 2, transposed_stride, 2], columns rounded up to even

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
