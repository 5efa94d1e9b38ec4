#include "colossal/ops/cuda/elements.cuh"
#include "colossal/ops/cuda/kernels.h"

namespace colossal::ops::cuda {
namespace {

// One block of threads for each row. Thread i of a head turns pair i; the threads after the pairs
// copy the channels that do not turn.
template <typename Element>
__global__ void turn(const Element* x, const Compute<Element>* cosines,
                     const Compute<Element>* sines, Element* to, kernels::RotatedHeads heads,
                     int all_heads, int64_t rows_with_turns) {
  using Real = Compute<Element>;
  const int64_t row = blockIdx.x, turns = row % rows_with_turns * heads.half;
  const int half = static_cast<int>(heads.half), size = static_cast<int>(heads.size);
  const int threads_of_head = size - half;
  const Element* const from_row = x + row * all_heads * size;
  Element* const to_row = to + row * all_heads * size;
  for (int i = threadIdx.x; i < all_heads * threads_of_head; i += kThreads) {
    const int head = i / threads_of_head, pair = i % threads_of_head;
    const Element* const from = from_row + head * size;
    Element* const into = to_row + head * size;
    if (pair >= half) {
      into[pair + half] = from[pair + half];
      continue;
    }
    const int first = heads.interleaved ? 2 * pair : pair;
    const int second = heads.interleaved ? first + 1 : pair + half;
    if (head >= heads.count) {
      into[first] = from[first];
      into[second] = from[second];
      continue;
    }
    const Real cosine = cosines[turns + pair], sine = sines[turns + pair];
    const Real a = widen<Real>(from[first]), b = widen<Real>(from[second]);
    into[first] = narrow<Element>(a * cosine - b * sine);
    into[second] = narrow<Element>(b * cosine + a * sine);
  }
}

}  // namespace

void rotate(const void* x, const void* cosines, const void* sines, void* to, ElementType type,
            const kernels::RotatedHeads& heads, int64_t rows, int64_t all_heads,
            int64_t rows_with_turns, cudaStream_t stream) {
  if (rows * all_heads * heads.size == 0) return;
  with_type(type, [&](auto element) {
    using Element = decltype(element);
    using Real = Compute<Element>;
    turn<<<static_cast<unsigned>(rows), kThreads, 0, stream>>>(
        static_cast<const Element*>(x), static_cast<const Real*>(cosines),
        static_cast<const Real*>(sines), static_cast<Element*>(to), heads,
        static_cast<int>(all_heads), rows_with_turns);
  });
}

}  // namespace colossal::ops::cuda
