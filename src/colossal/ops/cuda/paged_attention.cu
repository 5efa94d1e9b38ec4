#include "colossal/ops/cuda/elements.cuh"
#include "colossal/ops/cuda/kernels.h"

namespace colossal::ops::cuda {
namespace {

constexpr int kTile = 128;  // keys at once, one for each thread of a block

template <typename Real, typename Combine>
__device__ Real over_block(Real value, Real* of_warps, const Combine& combine) {
  for (int distance = kWarp / 2; distance > 0; distance /= 2) {
    value = combine(value, __shfl_xor_sync(~0u, value, distance));
  }
  __syncthreads();  // of_warps may still be read
  if (threadIdx.x % kWarp == 0) of_warps[threadIdx.x / kWarp] = value;
  __syncthreads();
  value = of_warps[0];
  for (int warp = 1; warp < kTile / kWarp; ++warp) value = combine(value, of_warps[warp]);
  return value;
}

// What threads of a block share. Queries, [kHeads, head_size], follow it in memory.
template <typename Real, int kHeads>
struct Shared {
  Real probabilities[kHeads][kTile];
  Real sums[kTile];
  int64_t places[kTile];  // of a key's value: in rows of `values`
  Real value_scales[kTile];
};

// One block for each token, up to kHeads of the heads that share a key head, and split.
template <typename Query, typename Stored, int kHeads>
__global__ void attend(PagedAttention problem, Compute<Query>* outputs,
                       Compute<Query>* logsumexps) {
  using Real = Compute<Query>;
  extern __shared__ double memory[];
  auto& shared = *reinterpret_cast<Shared<Real, kHeads>*>(memory);
  Real* const queries = reinterpret_cast<Real*>(&shared + 1);
  const int thread = threadIdx.x;
  const int64_t group = problem.heads / problem.kv_heads;
  const int64_t blocks_of_group = (group + kHeads - 1) / kHeads;
  const int64_t token = blockIdx.x, split = blockIdx.z;
  const int64_t kv_head = blockIdx.y / blocks_of_group;
  const int64_t first_in_group = blockIdx.y % blocks_of_group * kHeads;
  const int64_t first_head = kv_head * group + first_in_group;
  const int num_heads = static_cast<int>(min(int64_t{kHeads}, group - first_in_group));

  const auto* query = static_cast<const Query*>(problem.query) +
                      (token * problem.heads + first_head) * problem.head_size;
  for (int i = thread; i < num_heads * problem.head_size; i += kTile) {
    queries[i] = widen<Real>(query[i]);
  }
  __syncthreads();

  const int64_t own = problem.positions[token], end_of_all = own + 1;
  const int64_t begin_of_all =
      problem.window > 0 && end_of_all > problem.window ? end_of_all - problem.window : 0;
  const int64_t tiles = (end_of_all - begin_of_all + kTile - 1) / kTile;
  const int64_t keys_of_split = (tiles + problem.splits - 1) / problem.splits * kTile;
  const int64_t begin = begin_of_all + split * keys_of_split;
  const int64_t end = min(end_of_all, begin + keys_of_split);
  const int64_t* const table =
      problem.tables + problem.sequences[token] * problem.pages_per_sequence;
  const auto* keys = static_cast<const Stored*>(problem.keys);
  const auto* values = static_cast<const Stored*>(problem.values);

  // Thread t sums channels t % lanes, t % lanes + lanes ... over every parts-th key of a tile.
  const int lanes = problem.value_size >= kTile ? kTile : static_cast<int>(problem.value_size);
  const int parts = kTile / lanes, part = thread / lanes, lane = thread % lanes;
  constexpr int kChannels = static_cast<int>(kLargestValue) / kTile;
  Real sums[kHeads][kChannels] = {};
  Real maxima[kHeads], totals[kHeads] = {};
#pragma unroll
  for (int head = 0; head < kHeads; ++head) maxima[head] = minus_infinity<Real>();

  for (int64_t tile = begin; tile < end; tile += kTile) {
    const int64_t position = tile + thread;
    const bool is_key = position < end;
    Real scores[kHeads] = {};
    if (is_key) {
      const int64_t page = table[position / problem.page_size] * problem.kv_heads + kv_head;
      const int64_t place = position % problem.page_size;
      const int64_t row = page * problem.page_size + place;
      const Stored* const key = keys + page * problem.head_size * problem.page_size + place;
      for (int64_t channel = 0; channel < problem.head_size; ++channel) {
        const Real number = widen<Real>(key[channel * problem.page_size]);
#pragma unroll
        for (int head = 0; head < kHeads; ++head) {
          if (head < num_heads)
            scores[head] += queries[head * problem.head_size + channel] * number;
        }
      }
      const Real key_scale =
          problem.key_scales ? static_cast<Real>(problem.key_scales[row]) : Real{1};
#pragma unroll
      for (int head = 0; head < kHeads; ++head) {
        if (head >= num_heads) break;
        Real score = scores[head] * key_scale * static_cast<Real>(problem.scale);
        if (problem.soft_cap != 0) {
          const Real cap = static_cast<Real>(problem.soft_cap);
          score = tanh(score / cap) * cap;
        }
        if (problem.alibi_slopes) {
          score += static_cast<Real>(problem.alibi_slopes[first_head + head]) *
                   static_cast<Real>(position - own);
        }
        scores[head] = score;
      }
      shared.places[thread] = row;
      shared.value_scales[thread] =
          problem.value_scales ? static_cast<Real>(problem.value_scales[row]) : Real{1};
    }
#pragma unroll
    for (int head = 0; head < kHeads; ++head) {
      if (head >= num_heads) break;
      const Real score = is_key ? scores[head] : minus_infinity<Real>();
      const Real largest =
          over_block(score, shared.sums, [](Real a, Real b) { return a > b || isnan(a) ? a : b; });
      const Real maximum = largest > maxima[head] || isnan(largest) ? largest : maxima[head];
      const Real factor =
          maxima[head] == minus_infinity<Real>() ? Real{0} : exp(maxima[head] - maximum);
      const Real probability = is_key ? exp(score - maximum) : Real{0};
      totals[head] = totals[head] * factor + probability;
#pragma unroll
      for (int i = 0; i < kChannels; ++i) sums[head][i] *= factor;
      maxima[head] = maximum;
      shared.probabilities[head][thread] = probability;
    }
    __syncthreads();
    const int count = static_cast<int>(min(int64_t{kTile}, end - tile));
    if (part < parts) {
      for (int key = part; key < count; key += parts) {
        const Stored* const value = values + shared.places[key] * problem.value_size;
#pragma unroll
        for (int i = 0; i < kChannels; ++i) {
          const int channel = lane + i * lanes;
          if (channel >= problem.value_size) break;
          const Real number = widen<Real>(value[channel]) * shared.value_scales[key];
#pragma unroll
          for (int head = 0; head < kHeads; ++head) {
            if (head < num_heads) sums[head][i] += shared.probabilities[head][key] * number;
          }
        }
      }
    }
    __syncthreads();
  }

#pragma unroll
  for (int head = 0; head < kHeads; ++head) {
    if (head >= num_heads) break;
    const Real total = over_block(totals[head], shared.sums, [](Real a, Real b) { return a + b; });
    const int64_t row = (split * problem.tokens + token) * problem.heads + first_head + head;
    if (thread == 0)
      logsumexps[row] = end > begin ? maxima[head] + log(total) : minus_infinity<Real>();
#pragma unroll
    for (int i = 0; i < kChannels; ++i) {
      __syncthreads();
      shared.sums[thread] = part < parts ? sums[head][i] : Real{0};
      __syncthreads();
      const int channel = lane + i * lanes;
      if (part == 0 && channel < problem.value_size) {
        Real sum = 0;
        for (int other = 0; other < parts; ++other) sum += shared.sums[other * lanes + lane];
        outputs[row * problem.value_size + channel] = end > begin ? sum / total : Real{0};
      }
    }
  }
}

template <typename Query, typename Stored, int kHeads>
void launch_for(const PagedAttention& problem, void* outputs, void* logsumexps,
                cudaStream_t stream) {
  using Real = Compute<Query>;
  const int64_t group = problem.heads / problem.kv_heads;
  const dim3 blocks(static_cast<unsigned>(problem.tokens),
                    static_cast<unsigned>(problem.kv_heads * ((group + kHeads - 1) / kHeads)),
                    static_cast<unsigned>(problem.splits));
  const size_t bytes = sizeof(Shared<Real, kHeads>) + kHeads * problem.head_size * sizeof(Real);
  attend<Query, Stored, kHeads><<<blocks, kTile, bytes, stream>>>(
      problem, static_cast<Real*>(outputs), static_cast<Real*>(logsumexps));
}

template <typename Query, typename Stored>
void launch(const PagedAttention& problem, void* outputs, void* logsumexps, cudaStream_t stream) {
  const int64_t group = problem.heads / problem.kv_heads;
  const auto run = group == 1   ? launch_for<Query, Stored, 1>
                   : group <= 4 ? launch_for<Query, Stored, 4>
                                : launch_for<Query, Stored, 8>;
  run(problem, outputs, logsumexps, stream);
}

}  // namespace

void paged_attention(const PagedAttention& problem, void* outputs, void* logsumexps,
                     cudaStream_t stream) {
  if (problem.tokens == 0) return;
  with_type(problem.type, [&](auto element) {
    using Element = decltype(element);
    problem.key_scales ? launch<Element, int8_t>(problem, outputs, logsumexps, stream)
                       : launch<Element, Element>(problem, outputs, logsumexps, stream);
  });
}

}  // namespace colossal::ops::cuda
