#include "colossal/ops/cuda/elements.cuh"
#include "colossal/ops/cuda/kernels.h"

namespace colossal::ops::cuda {
namespace {

// Words of a row that lie 16 apart come from one block (base/random.h), so each thread computes
// four elements, 16 apart.
constexpr int64_t kWordsApart = 16, kWordsOfBlock = 4;

template <typename Element>
__global__ void drop(DropoutRows rows, int64_t first_group, int64_t groups, const Element* from,
                     Element* to) {
  using Real = Compute<Element>;
  const Real scale = static_cast<Real>(rows.rule.scale);
  const int64_t threads_of_row = groups * kRandomGroupBlocks;
  const int64_t count = rows.rows * threads_of_row, stride = int64_t{gridDim.x} * blockDim.x;
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += stride) {
    const int64_t row = i / threads_of_row,
                  block = first_group * kRandomGroupBlocks + i % threads_of_row;
    const auto sample = static_cast<uint64_t>(rows.sample_ids[row / rows.sequence]);
    const auto position = static_cast<uint32_t>(rows.positions[row % rows.num_positions]);
    const RandomBlock words =
        philox(rows.key, {{static_cast<uint32_t>(sample), static_cast<uint32_t>(sample >> 32),
                           position, static_cast<uint32_t>(block)}});
    const int64_t first_word =
        block / kRandomGroupBlocks * kRandomGroup + block % kRandomGroupBlocks;
    for (int64_t j = 0; j < kWordsOfBlock; ++j) {
      const int64_t channel = first_word + j * kWordsApart - rows.channel_begin;
      if (channel < 0 || channel >= rows.channels) continue;
      const int64_t at = row * rows.channels + channel;
      const Real factor = words.word[j] >= rows.rule.threshold ? scale : Real{0};
      to[at] = narrow<Element>(widen<Real>(from[at]) * factor);
    }
  }
}

}  // namespace

void dropout(const DropoutRows& rows, const void* from, void* to, ElementType type,
             cudaStream_t stream) {
  if (rows.rows == 0 || rows.channels == 0) return;
  const int64_t first_group = rows.channel_begin / kRandomGroup;
  const int64_t last_group = (rows.channel_begin + rows.channels - 1) / kRandomGroup;
  const int64_t groups = last_group - first_group + 1;
  with_type(type, [&](auto element) {
    using Element = decltype(element);
    drop<<<blocks_for(rows.rows * groups * kRandomGroupBlocks), kThreads, 0, stream>>>(
        rows, first_group, groups, static_cast<const Element*>(from), static_cast<Element*>(to));
  });
}

}  // namespace colossal::ops::cuda
