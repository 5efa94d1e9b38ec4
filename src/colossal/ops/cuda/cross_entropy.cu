#include "colossal/ops/cuda/elements.cuh"
#include "colossal/ops/cuda/kernels.h"

namespace colossal::ops::cuda {
namespace {

constexpr int kRowThreads = 512;

// The largest number of a row so far, and the sum of the exponentials of the numbers minus it.
template <typename Real>
struct Statistics {
  Real maximum = minus_infinity<Real>();
  Real sum = 0;

  __device__ void add(Real number) {
    if (number > maximum) {
      sum = sum * exp(maximum - number) + Real{1};
      maximum = number;
    } else if (number != minus_infinity<Real>()) {
      sum += exp(number - maximum);  // NaN if `number` is
    }
  }
  __device__ void add(const Statistics& other) {
    const Real larger = other.maximum > maximum ? other.maximum : maximum;
    // A part without numbers has a sum of 0 and must not add NaN.
    const Real mine = sum == Real{0} ? Real{0} : sum * exp(maximum - larger);
    const Real theirs = other.sum == Real{0} ? Real{0} : other.sum * exp(other.maximum - larger);
    maximum = larger;
    sum = mine + theirs;
  }
};

// One block of threads for each token.
template <typename Element>
__global__ void find_statistics(const Element* logits, int64_t vocabulary, int64_t row_stride,
                                const int64_t* labels, Compute<Element>* maxima,
                                Compute<Element>* sums, Compute<Element>* targets) {
  using Real = Compute<Element>;
  const int64_t token = blockIdx.x;
  const Element* row = logits + token * row_stride;
  Statistics<Real> own;
  using Elements = Pack<Element, kFullPack<Element>>;
  const int64_t packs = is_aligned(row) ? vocabulary / kFullPack<Element> : 0;
  for (int64_t i = threadIdx.x; i < packs; i += kRowThreads) {
    const Elements elements = reinterpret_cast<const Elements*>(row)[i];
    for (const Element element : elements.element) own.add(widen<Real>(element));
  }
  for (int64_t i = packs * kFullPack<Element> + threadIdx.x; i < vocabulary; i += kRowThreads) {
    own.add(widen<Real>(row[i]));
  }
  const auto reduce_warp = [&] {
    for (int distance = kWarp / 2; distance > 0; distance /= 2) {
      Statistics<Real> other;
      other.maximum = __shfl_xor_sync(~0u, own.maximum, distance);
      other.sum = __shfl_xor_sync(~0u, own.sum, distance);
      own.add(other);
    }
  };
  reduce_warp();
  __shared__ Real warp_maxima[kRowThreads / kWarp], warp_sums[kRowThreads / kWarp];
  if (threadIdx.x % kWarp == 0) {
    warp_maxima[threadIdx.x / kWarp] = own.maximum;
    warp_sums[threadIdx.x / kWarp] = own.sum;
  }
  __syncthreads();
  if (threadIdx.x >= kWarp) return;
  own = {};
  if (threadIdx.x < kRowThreads / kWarp) {
    own.maximum = warp_maxima[threadIdx.x];
    own.sum = warp_sums[threadIdx.x];
  }
  reduce_warp();
  if (threadIdx.x > 0) return;
  const int64_t label = labels[token];
  maxima[token] = own.maximum;
  sums[token] = isinf(own.maximum) ? static_cast<Real>(NAN) : own.sum;
  targets[token] = label >= 0 && label < vocabulary ? widen<Real>(row[label]) : Real{0};
}

template <typename Element>
__global__ void to_gradient(Element* logits, int64_t vocabulary, int64_t row_stride,
                            const int64_t* labels, const bool* ignored,
                            const Compute<Element>* maxima, const Compute<Element>* sums,
                            Compute<Element> per_cap) {
  using Real = Compute<Element>;
  const int64_t token = blockIdx.x;
  Element* row = logits + token * row_stride;
  const int64_t label = labels[token];
  const Real maximum = maxima[token], factor = Real{1} / sums[token];
  const bool is_ignored = ignored[token];
  const auto gradient_of = [&](Element element, int64_t i) {
    const Real capped = widen<Real>(element), share = capped * per_cap;
    const Real above = exp(capped - maximum) * factor - (i == label ? Real{1} : Real{0});
    return narrow<Element>(is_ignored ? Real{0} : above * (Real{1} - share * share));
  };
  constexpr int kPack = kFullPack<Element>;
  using Elements = Pack<Element, kPack>;
  const int64_t packs = is_aligned(row) ? vocabulary / kPack : 0;
  for (int64_t i = threadIdx.x; i < packs; i += kRowThreads) {
    Elements elements = reinterpret_cast<const Elements*>(row)[i];
    for (int j = 0; j < kPack; ++j) {
      elements.element[j] = gradient_of(elements.element[j], i * kPack + j);
    }
    reinterpret_cast<Elements*>(row)[i] = elements;
  }
  for (int64_t i = packs * kPack + threadIdx.x; i < vocabulary; i += kRowThreads) {
    row[i] = gradient_of(row[i], i);
  }
}

}  // namespace

void softmax_statistics(const Logits& logits, const int64_t* labels, void* maxima, void* sums,
                        void* targets, cudaStream_t stream) {
  if (logits.tokens == 0) return;
  with_type(logits.type, [&](auto element) {
    using Element = decltype(element);
    using Real = Compute<Element>;
    find_statistics<<<static_cast<unsigned>(logits.tokens), kRowThreads, 0, stream>>>(
        static_cast<const Element*>(logits.data), logits.vocabulary, logits.row_stride, labels,
        static_cast<Real*>(maxima), static_cast<Real*>(sums), static_cast<Real*>(targets));
  });
}

void cross_entropy_gradient(const Logits& logits, const int64_t* labels, const bool* ignored,
                            const void* maxima, const void* sums, double soft_cap,
                            cudaStream_t stream) {
  if (logits.tokens == 0) return;
  with_type(logits.type, [&](auto element) {
    using Element = decltype(element);
    using Real = Compute<Element>;
    to_gradient<<<static_cast<unsigned>(logits.tokens), kRowThreads, 0, stream>>>(
        static_cast<Element*>(logits.data), logits.vocabulary, logits.row_stride, labels, ignored,
        static_cast<const Real*>(maxima), static_cast<const Real*>(sums),
        static_cast<Real>(soft_cap == 0 ? 0 : 1 / soft_cap));
  });
}

}  // namespace colossal::ops::cuda
