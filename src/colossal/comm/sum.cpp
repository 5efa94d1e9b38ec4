#include "colossal/comm/sum.h"

#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <type_traits>

#include "colossal/base/error.h"

namespace colossal::comm {
namespace {

// A block of this many sums stays in the first-level cache while all sources are added. So each
// source is read from memory once, and the result is written once.
constexpr int64_t kBlock = 2048;

template <typename T>
using Accumulator =
    std::conditional_t<std::is_same_v<T, double> || std::is_same_v<T, int64_t>, T, float>;

// bf16 is the upper half of fp32. Computes with integers, without branches, because the conversions
// of c10::BFloat16 keep the compiler from using vector instructions.
template <typename T>
[[gnu::always_inline]] inline Accumulator<T> widen(T value) {
  if constexpr (std::is_same_v<T, c10::BFloat16>) {
    return std::bit_cast<float>(static_cast<uint32_t>(value.x) << 16);
  } else {
    return static_cast<Accumulator<T>>(value);
  }
}

// Rounds to nearest, ties to even. NaN becomes the quiet NaN, as with c10::BFloat16.
template <typename T>
[[gnu::always_inline]] inline T narrow(Accumulator<T> value) {
  if constexpr (std::is_same_v<T, c10::BFloat16>) {
    const auto bits = std::bit_cast<uint32_t>(value);
    const uint32_t rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
    const bool is_nan = (bits & 0x7fffffff) > 0x7f800000;
    return c10::BFloat16(static_cast<uint16_t>(is_nan ? 0x7fc0 : rounded),
                         c10::BFloat16::from_bits());
  } else {
    return static_cast<T>(value);
  }
}

template <typename T>
[[gnu::always_inline]] inline void load(const T* source, Accumulator<T>* sum, int64_t count) {
  for (int64_t i = 0; i < count; ++i) sum[i] = widen(source[i]);
}

template <typename T>
[[gnu::always_inline]] inline void add(const T* source, Accumulator<T>* sum, int64_t count) {
  for (int64_t i = 0; i < count; ++i) sum[i] += widen(source[i]);
}

template <typename Out>
[[gnu::always_inline]] inline void store(const Accumulator<Out>* sum, Out* out, int64_t count) {
  for (int64_t i = 0; i < count; ++i) out[i] = narrow<Out>(sum[i]);
}

template <typename In, typename Out>
[[gnu::always_inline]] inline void sum_typed(std::span<const void* const> sources, int64_t count,
                                             void* out) {
  alignas(64) Accumulator<In> sum[kBlock];
  for (int64_t begin = 0; begin < count; begin += kBlock) {
    const int64_t block = std::min(kBlock, count - begin);
    load(static_cast<const In*>(sources[0]) + begin, sum, block);
    for (const void* source : sources.subspan(1)) {
      add(static_cast<const In*>(source) + begin, sum, block);
    }
    store(sum, static_cast<Out*>(out) + begin, block);
  }
}

using SumFunction = void (*)(std::span<const void* const>, int64_t, void*);

#if defined(__x86_64__)

template <typename In, typename Out>
[[gnu::target("avx2")]] void sum_avx2(std::span<const void* const> sources, int64_t count,
                                      void* out) {
  sum_typed<In, Out>(sources, count, out);
}

template <typename In, typename Out>
[[gnu::target("avx512f,avx512bw,avx512dq,avx512vl,prefer-vector-width=512")]] void sum_avx512(
    std::span<const void* const> sources, int64_t count, void* out) {
  sum_typed<In, Out>(sources, count, out);
}

#endif

// All instruction sets give the same bits: additions alone cannot be fused.
template <typename In, typename Out>
SumFunction compiled_for(InstructionSet set) {
#if defined(__x86_64__)
  if (set == InstructionSet::avx512) return sum_avx512<In, Out>;
  if (set == InstructionSet::avx2) return sum_avx2<In, Out>;
#endif
  return sum_typed<In, Out>;
}

SumFunction sum_function(at::ScalarType type, at::ScalarType out_type, InstructionSet set) {
  using at::ScalarType;
  const bool same = type == out_type;
  if (type == ScalarType::Float && out_type == ScalarType::BFloat16) {
    return compiled_for<float, c10::BFloat16>(set);
  }
  if (type == ScalarType::Float && out_type == ScalarType::Half) {
    return compiled_for<float, c10::Half>(set);
  }
  if (!same && out_type != ScalarType::Float) return nullptr;
  switch (type) {
    case ScalarType::Float:
      return compiled_for<float, float>(set);
    case ScalarType::BFloat16:
      return same ? compiled_for<c10::BFloat16, c10::BFloat16>(set)
                  : compiled_for<c10::BFloat16, float>(set);
    case ScalarType::Half:
      return same ? compiled_for<c10::Half, c10::Half>(set) : compiled_for<c10::Half, float>(set);
    case ScalarType::Double:
      return same ? compiled_for<double, double>(set) : nullptr;
    case ScalarType::Long:
      return same ? compiled_for<int64_t, int64_t>(set) : nullptr;
    default:
      return nullptr;
  }
}

}  // namespace

at::ScalarType accumulation_type(at::ScalarType type) {
  const bool is_half = type == at::ScalarType::BFloat16 || type == at::ScalarType::Half;
  return is_half ? at::ScalarType::Float : type;
}

bool can_sum(at::ScalarType type, at::ScalarType out_type) {
  return sum_function(type, out_type, InstructionSet::baseline) != nullptr;
}

void sum_in_rank_order(std::span<const void* const> sources, int64_t count, at::ScalarType type,
                       void* out, at::ScalarType out_type, InstructionSet set) {
  const SumFunction sum = sum_function(type, out_type, set);
  COLOSSAL_CHECK(sum, "no sum of {} into {}", c10::toString(type), c10::toString(out_type));
  sum(sources, count, out);
}

}  // namespace colossal::comm
