#include <cuda_fp8.h>

#include "colossal/ops/cuda/elements.cuh"
#include "colossal/ops/cuda/kernels.h"

namespace colossal::ops::cuda {
namespace {

constexpr int kWarps = 8;
constexpr int kRows = 4;    // rows of x at once
constexpr int kBytes = 16;  // of codes that a thread reads at once
constexpr int kInt4Middle = 8;

enum : int { kInt8, kInt4, kFp8 };

// Calls visit(i, number) for the codes in `bytes`, with i counted from the first of their inputs:
// of 16 bytes in int8 and fp8, of one block of 32 inputs in int4. zero: the zero point.
template <int kType, typename Visit>
__device__ void for_codes(const Pack<uint8_t, kBytes>& bytes, float zero, const Visit& visit) {
#pragma unroll
  for (int i = 0; i < kBytes; ++i) {
    const uint8_t byte = bytes.element[i];
    if constexpr (kType == kInt8) {
      visit(i, static_cast<float>(static_cast<int8_t>(byte)));
    } else if constexpr (kType == kFp8) {
      __nv_fp8_e4m3 number;
      number.__x = byte;
      visit(i, static_cast<float>(number));
    } else {
      visit(i, static_cast<float>(byte & 15) - zero);
      visit(i + kBytes, static_cast<float>(byte >> 4) - zero);
    }
  }
}

// One warp for each output.
template <typename Element, int kType>
__global__ void multiply(CodeProduct product) {
  using Real = Compute<Element>;
  constexpr int kInputs = kType == kInt4 ? 2 * kBytes : kBytes;  // of a thread at once
  const int lane = threadIdx.x % kWarp;
  const int64_t output = int64_t{blockIdx.x} * kWarps + threadIdx.x / kWarp;
  if (output >= product.outputs) return;
  const int64_t first_row = int64_t{blockIdx.y} * kRows;
  const int rows = static_cast<int>(min(int64_t{kRows}, product.rows - first_row));
  const auto* x = static_cast<const Element*>(product.x) + first_row * product.inputs;
  const auto* codes =
      reinterpret_cast<const Pack<uint8_t, kBytes>*>(product.codes + output * product.row_bytes);
  Real sums[kRows] = {};
  for (int64_t pack = lane; pack * kBytes < product.row_bytes; pack += kWarp) {
    const int64_t input = pack * kInputs, group = output * product.groups + input / product.group;
    const float zero = product.zeros ? product.zeros[group] : kInt4Middle;
    const int64_t left = product.inputs - input;
    Real partial[kRows] = {};
    for_codes<kType>(codes[pack], zero, [&](int i, float number) {
      if (i >= left) return;
#pragma unroll
      for (int row = 0; row < kRows; ++row) {
        if (row < rows) partial[row] += widen<Real>(x[row * product.inputs + input + i]) * number;
      }
    });
#pragma unroll
    for (int row = 0; row < kRows; ++row) sums[row] += partial[row] * product.scales[group];
  }
#pragma unroll
  for (int row = 0; row < kRows; ++row) {
    if (row >= rows) break;
    for (int distance = kWarp / 2; distance > 0; distance /= 2) {
      sums[row] += __shfl_xor_sync(~0u, sums[row], distance);
    }
    if (lane == 0) {
      static_cast<Element*>(product.y)[(first_row + row) * product.y_stride + output] =
          narrow<Element>(sums[row]);
    }
  }
}

}  // namespace

void code_product(const CodeProduct& product, cudaStream_t stream) {
  if (product.rows == 0 || product.outputs == 0) return;
  const dim3 blocks(static_cast<unsigned>((product.outputs + kWarps - 1) / kWarps),
                    static_cast<unsigned>((product.rows + kRows - 1) / kRows));
  with_type(product.type, [&](auto element) {
    using Element = decltype(element);
    const auto run = product.code_type == kInt8   ? multiply<Element, kInt8>
                     : product.code_type == kInt4 ? multiply<Element, kInt4>
                                                  : multiply<Element, kFp8>;
    run<<<blocks, kWarps * kWarp, 0, stream>>>(product);
  });
}

}  // namespace colossal::ops::cuda
