#include "colossal/ops/bf16_product.h"

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/mm.h>
#include <torch/library.h>

#include <algorithm>

#include "colossal/ops/bf16_block.h"
#include "colossal/ops/dispatch.h"
#include "colossal/ops/kernels/vector_kernels.h"
#include "colossal/ops/optimizer_kernels.h"

namespace colossal::ops {
namespace {

// The kernel multiplies a row-major [m, k] by [k/2, n, 2] ("VNNI": pairs of rows interleaved), so
// both operands are repacked, in blocks that stay in the cache: b once, a's columns as rows.
constexpr int64_t kBlock = 64;    // rows and columns of a block of the sum
constexpr int64_t kPadding = 32;  // of a's packed rows, or a power of two would thrash the cache
constexpr int64_t kSlice = 4096;  // columns of a that the fp32 form widens at a time

int64_t blocks_of(int64_t size) {
  return (size + kBlock - 1) / kBlock;
}

int64_t packed_row_stride(int64_t depth) {
  return (depth + 1) / 2 * 2 + kPadding;
}

at::Tensor empty_packed_b(const at::Tensor& b) {
  return at::empty({blocks_of(b.size(1)), (b.size(0) + 1) / 2, kBlock},
                   b.options().dtype(at::kInt));
}

// A block of a's columns for each thread.
at::Tensor empty_packed_a(const at::Tensor& a) {
  return at::empty({at::get_num_threads(), kBlock * packed_row_stride(a.size(0)) / 2},
                   a.options().dtype(at::kInt));
}

class PackedProduct {
 public:
  PackedProduct(const at::Tensor& a, const at::Tensor& b)
      : a_(static_cast<const uint16_t*>(a.const_data_ptr())),
        b_(static_cast<const uint16_t*>(b.const_data_ptr())),
        depth_(a.size(0)),
        pairs_((depth_ + 1) / 2),
        rows_(a.size(1)),
        columns_(b.size(1)),
        row_stride_(packed_row_stride(depth_)),
        packed_a_(empty_packed_a(a)),
        packed_b_(empty_packed_b(b)) {
    pack_b();
  }

  // By blocks of rows: target(begin) is where that from row `begin` on lies, its rows one after the
  // other; done(begin, rows) is called when it is there.
  template <typename Target, typename Done>
  void compute(Bf16Product product, bool add, const Target& target, const Done& done) const;

 private:
  void pack_b() {
    auto* packed = static_cast<uint32_t*>(packed_b_.mutable_data_ptr());
    for (int64_t pair = 0; pair < pairs_; ++pair) {
      const uint16_t* first = b_ + 2 * pair * columns_;
      const uint16_t* second = 2 * pair + 1 < depth_ ? first + columns_ : nullptr;
      for (int64_t column = 0; column < columns_; ++column) {
        const uint32_t high = second ? second[column] : 0;
        packed[(column / kBlock * pairs_ + pair) * kBlock + column % kBlock] =
            first[column] | high << 16;
      }
    }
  }

  const uint16_t* a_;
  const uint16_t* b_;
  int64_t depth_, pairs_, rows_, columns_;
  int64_t row_stride_;
  at::Tensor packed_a_, packed_b_;
};

template <typename Target, typename Done>
void PackedProduct::compute(Bf16Product product, bool add, const Target& target,
                            const Done& done) const {
  const auto* packed_b = static_cast<const at::BFloat16*>(packed_b_.const_data_ptr());
  at::parallel_for(0, blocks_of(rows_), 1, [&](int64_t first, int64_t last) {
    auto* packed_a = static_cast<uint32_t*>(packed_a_.mutable_data_ptr()) +
                     at::get_thread_num() * packed_a_.size(1);
    for (int64_t begin = first * kBlock; begin < std::min(rows_, last * kBlock); begin += kBlock) {
      const int64_t rows = std::min(kBlock, rows_ - begin);
      kernels::vector_kernels().transpose_pairs(a_ + begin, rows_, depth_, rows, packed_a,
                                                row_stride_ / 2);
      float* const block = target(begin);
      for (int64_t column = 0; column < columns_; column += kBlock) {
        product(rows, std::min(kBlock, columns_ - column), 2 * pairs_, row_stride_, kBlock,
                columns_, add, reinterpret_cast<const at::BFloat16*>(packed_a),
                packed_b + column / kBlock * pairs_ * kBlock * 2, block + column);
      }
      done(begin, rows);
    }
    release_bf16_block_product();
  });
}

void wide_product(const at::Tensor& a, const at::Tensor& b, const at::Tensor& sum, bool add) {
  const at::Tensor wide_b = b.to(at::kFloat);
  for (int64_t begin = 0; begin < a.size(1); begin += kSlice) {
    const int64_t size = std::min(kSlice, a.size(1) - begin);
    at::Tensor slice = sum.narrow(0, begin, size);
    const at::Tensor wide_a = a.narrow(1, begin, size).to(at::kFloat);
    add ? slice.addmm_(wide_a.t(), wide_b) : at::mm_out(slice, wide_a.t(), wide_b);
  }
}

void transposed_product_cpu(const at::Tensor& a, const at::Tensor& b, const at::Tensor& sum,
                            bool add) {
  if (const Bf16Product product = bf16_block_product()) {
    float* const data = sum.mutable_data_ptr<float>();
    PackedProduct(a, b).compute(
        product, add, [&](int64_t begin) { return data + begin * b.size(1); },
        [](int64_t, int64_t) {});
  } else {
    wide_product(a, b, sum, add);
  }
}

// On meta, what the CPU allocates.
void transposed_product_meta(const at::Tensor& a, const at::Tensor& b, const at::Tensor& sum,
                             bool add) {
  if (bf16_block_product()) {
    const at::Tensor packed_a = empty_packed_a(a), packed_b = empty_packed_b(b);
  } else {
    wide_product(a, b, sum, add);
  }
}

// A block of rows of the product for each thread, in fp32.
at::Tensor empty_row_blocks(const at::Tensor& b) {
  return at::empty({at::get_num_threads(), kBlock, b.size(1)}, b.options().dtype(at::kFloat));
}

void rounded_packed_product(Bf16Product product, const at::Tensor& a, const at::Tensor& b,
                            double factor, const at::Tensor& result) {
  const at::Tensor blocks = empty_row_blocks(b);
  const int64_t columns = b.size(1);
  auto* const to = result.mutable_data_ptr<at::BFloat16>();
  const auto block_here = [&] {
    return blocks.mutable_data_ptr<float>() + at::get_thread_num() * kBlock * columns;
  };
  PackedProduct(a, b).compute(
      product, /*add=*/false, [&](int64_t) { return block_here(); },
      [&](int64_t begin, int64_t rows) {
        kernels::vector_kernels().convert(block_here(), kernels::ElementType::float32,
                                          to + begin * columns, kernels::ElementType::bfloat16,
                                          rows * columns, factor);
      });
}

// visit(result's rows, their product in fp32), slice after slice.
template <typename Visit>
void for_wide_slices(const at::Tensor& a, const at::Tensor& b, const at::Tensor& result,
                     const Visit& visit) {
  const int64_t rows = a.size(1);
  const at::Tensor product =
      at::empty({std::min(kSlice, rows), b.size(1)}, b.options().dtype(at::kFloat));
  for (int64_t begin = 0; begin < rows; begin += kSlice) {
    const int64_t size = std::min(kSlice, rows - begin);
    const at::Tensor slice = product.narrow(0, 0, size);
    wide_product(a.narrow(1, begin, size), b, slice, /*add=*/false);
    visit(result.narrow(0, begin, size), slice);
  }
}

at::Tensor empty_rounded(const at::Tensor& a, const at::Tensor& b) {
  return at::empty({a.size(1), b.size(1)}, b.options());
}

at::Tensor rounded_transposed_product_cpu(const at::Tensor& a, const at::Tensor& b,
                                          const at::Tensor& factor) {
  const auto scale = factor.item<double>();
  const at::Tensor result = empty_rounded(a, b);
  if (const Bf16Product product = bf16_block_product()) {
    rounded_packed_product(product, a, b, scale, result);
  } else {
    for_wide_slices(a, b, result, [&](const at::Tensor& to, const at::Tensor& from) {
      convert_copy(to.view(-1), from.view(-1), scale);
    });
  }
  return result;
}

at::Tensor rounded_transposed_product_meta(const at::Tensor& a, const at::Tensor& b,
                                           const at::Tensor&) {
  const at::Tensor result = empty_rounded(a, b);
  if (bf16_block_product()) {
    const at::Tensor blocks = empty_row_blocks(b);
    const at::Tensor packed_a = empty_packed_a(a), packed_b = empty_packed_b(b);
  } else {
    for_wide_slices(a, b, result, [](const at::Tensor&, const at::Tensor&) {});
  }
  return result;
}

TORCH_LIBRARY_FRAGMENT(colossal, m) {
  m.def("transposed_product(Tensor a, Tensor b, Tensor(a!) sum, bool add) -> ()");
  m.def("rounded_transposed_product(Tensor a, Tensor b, Tensor factor) -> Tensor");
}
TORCH_LIBRARY_IMPL(colossal, CPU, m) {
  m.impl("transposed_product", transposed_product_cpu);
  m.impl("rounded_transposed_product", rounded_transposed_product_cpu);
}
TORCH_LIBRARY_IMPL(colossal, Meta, m) {
  m.impl("transposed_product", transposed_product_meta);
  m.impl("rounded_transposed_product", rounded_transposed_product_meta);
}

}  // namespace

void transposed_product(const at::Tensor& a, const at::Tensor& b, const at::Tensor& sum, bool add) {
  static const auto op =
      find_operator<decltype(transposed_product_cpu)>("colossal::transposed_product");
  op.call(a, b, sum, add);
}

at::Tensor rounded_transposed_product(const at::Tensor& a, const at::Tensor& b,
                                      const at::Tensor& factor) {
  static const auto op = find_operator<decltype(rounded_transposed_product_cpu)>(
      "colossal::rounded_transposed_product");
  return op.call(a, b, factor);
}

}  // namespace colossal::ops
