// The attention kernels of VectorKernels. A block of attention scores (AttentionBlock,
// vector_kernels.h) has a row for each key and a lane (column) for each query. soft_cap(),
// attention_probabilities() and attention_gradients() transform a block, between the product of
// queries and keys and the product with the values. The other kernels are kept_bits(), which makes
// the dropout mask of a block, and inner_product(), which makes the deltas of the backward pass.
// Scores are in units of log2: their factor AttentionBlock::scale includes log2(e), and
// probabilities are computed as powers of 2. AttentionSums (vector_kernels.h) is the running
// softmax of each lane over the blocks so far: the maximum of the scores, the sum of 2^(score -
// maximum), and the outputs.
#pragma once

#include "colossal/ops/kernels/block.h"
#include "colossal/ops/kernels/exponential.h"
#include "colossal/ops/kernels/hyperbolic_tangent.h"
#include "colossal/ops/kernels/native_vector.h"

namespace colossal::ops::kernels {
namespace {

// The running maximum of a lane is raised only if a score exceeds it by more than kMaximumSlack. So
// outputs are rarely rescaled, and no exponential overflows.
constexpr int kMaximumSlack = 8;

// BitsOf<Real>::Type: the unsigned integer type of Real's size.
template <typename Real>
struct BitsOf;
template <>
struct BitsOf<float> {
  typedef uint32_t Type;
};
template <>
struct BitsOf<double> {
  typedef uint64_t Type;
};

// Which operations a block of scores needs besides scaling, according to the fields of
// AttentionBlock.
//   plain    none. `limits` is null: neither limits nor documents hide a key from a query
//   masked   `limits` is not null: limits and, if the block has them, documents hide keys
//   general  `positions` or `relative_bias` is not null, or there is a soft cap: as plain or
//            masked, and also the window, ALiBi and relative bias, if the block has them. A soft
//            cap is already applied, by soft_cap()
enum class BlockKind { plain, masked, general };

// The lanes [lane, lane + Native<Real>::kLanes) of a block: one vector for each key. Real is the
// block's type; kKind and kDropout are what with_block_kind() passes on. The arrays of the block
// must outlive the object. The members' `key` is an index in [0, block.keys).
template <typename Real, BlockKind kKind, bool kDropout>
class LaneBlock {
 public:
  typedef NativeVector<Real> Lanes;
  typedef typename BitsOf<Real>::Type Bits;

  LaneBlock(const AttentionBlock& block, int64_t lane)
      : scores_(static_cast<Real*>(block.scores) + lane),
        stride_(block.stride),
        scale_(static_cast<Real>(block.scale)),
        kept_(block.kept + (kDropout ? lane : 0)),
        kept_scale_(static_cast<Real>(block.kept_scale)),
        key_begin_(block.key_begin) {
    if constexpr (kKind == BlockKind::plain) return;
    limits_ = block.limits ? load_native(static_cast<const Real*>(block.limits) + lane)
                           : broadcast(kInfinity);
    key_documents_ = static_cast<const Real*>(block.key_documents);
    if (key_documents_) {
      documents_ = load_native(static_cast<const Real*>(block.query_documents) + lane);
    }
    if constexpr (kKind != BlockKind::general) return;
    if (block.positions) {
      positions_ = load_native(static_cast<const Real*>(block.positions) + lane);
    }
    window_ = static_cast<Real>(block.window);
    prefix_end_ = block.prefix_end;
    slope_ = static_cast<Real>(block.slope);
    if (block.relative_bias) {
      relative_bias_ = static_cast<const Real*>(block.relative_bias) + lane;
      relative_bias_gradients_ = static_cast<Real*>(block.relative_bias_gradients) + lane;
    }
    inverse_cap_ = block.soft_cap == 0 ? 0 : static_cast<Real>(1 / block.soft_cap);
  }

  // Returns the address of the lanes' stored scores of key `key`.
  Real* at(int64_t key) const { return scores_ + key * stride_; }

  // Returns the scores of key `key`, scaled and with ALiBi; -infinity in lanes that do not see the
  // key.
  [[gnu::always_inline]] Lanes scores(int64_t key) const {
    Lanes score = load_native(at(key)) * scale_;
    if constexpr (kKind == BlockKind::plain) return score;
    const Real position = static_cast<Real>(key_begin_ + key);
    auto seen = broadcast(position) < limits_;
    if (key_documents_) seen &= broadcast(key_documents_[key]) == documents_;
    if constexpr (kKind == BlockKind::general) {
      if (window_ > 0 && key_begin_ + key >= prefix_end_) {
        seen &= broadcast(position + window_) > positions_;
      }
      if (slope_ != 0) score += (broadcast(position) - positions_) * slope_;
      if (relative_bias_) score += load_native(relative_bias_ - key);
    }
    return seen ? score : broadcast(-kInfinity);
  }

  // Takes the gradients of the scores of key `key`: adds them to the gradients of the relative
  // bias, if the block has one, and returns the gradients of the uncapped scores, which are
  // `gradient` itself if there is no cap. The block must still hold the capped scores of the key.
  [[gnu::always_inline]] Lanes take_gradient(const Lanes& gradient, int64_t key) const {
    if constexpr (kKind != BlockKind::general) return gradient;
    if (relative_bias_) {
      Real* const sums = relative_bias_gradients_ - key;
      store_native<Real>(load_native(sums) + gradient, sums);
    }
    if (inverse_cap_ == 0) return gradient;
    const Lanes tangent = load_native(at(key)) * inverse_cap_;
    return gradient * (Real{1} - tangent * tangent);
  }

  // Applies dropout to x, a number per lane that belongs to key `key`, and returns the result.
  [[gnu::always_inline]] Lanes drop(const Lanes& x, int64_t key) const {
    if constexpr (!kDropout) return x;
    typedef NativeVector<Bits> BitLanes;
    typedef uint32_t Words __attribute__((vector_size(4 * Native<Real>::kLanes)));
    Words words;
    __builtin_memcpy(&words, kept_ + key / 32 * stride_, sizeof words);
    const BitLanes bits = __builtin_convertvector(words, BitLanes) & (Bits{1} << key % 32);
    return bits != 0 ? x * kept_scale_ : Lanes{};
  }

 private:
  static constexpr Real kInfinity = static_cast<Real>(__builtin_inf());

  Real* scores_;
  int64_t stride_;
  Real scale_;
  const uint32_t* kept_;
  Real kept_scale_;
  int64_t key_begin_;
  Lanes limits_{};
  Lanes documents_{};
  const Real* key_documents_ = nullptr;
  Lanes positions_{};
  Real window_ = 0;
  int64_t prefix_end_ = 0;
  Real slope_ = 0;
  const Real* relative_bias_ = nullptr;
  Real* relative_bias_gradients_ = nullptr;
  Real inverse_cap_ = 0;
};

template <typename Real>
inline void soft_cap_as(const AttentionBlock& block) {
  const Real scale = static_cast<Real>(block.scale / block.soft_cap);
  const Real cap = static_cast<Real>(block.soft_cap);
  for (int64_t key = 0; key < block.keys; ++key) {
    Real* scores = static_cast<Real*>(block.scores) + key * block.stride;
    for (int64_t lane = 0; lane < block.lanes; lane += Native<Real>::kLanes) {
      const NativeVector<Real> score = load_native(scores + lane) * scale;
      store_native<Real>(hyperbolic_tangent(score) * cap, scores + lane);
    }
  }
}

// Replaces each stored score s by soft_cap * tanh(scale * s / soft_cap), with the block's scale and
// soft_cap, which must not be 0. The result includes the scale. The caller must therefore set
// block.scale to 1 before it calls attention_probabilities() or attention_gradients().
inline void soft_cap(const AttentionBlock& block) {
  (block.type == ElementType::float64 ? soft_cap_as<double> : soft_cap_as<float>)(block);
}

// Returns whether a[lane] > b[lane] in at least one lane.
template <typename Real>
[[gnu::always_inline]] inline bool any_above(const NativeVector<Real>& a,
                                             const NativeVector<Real>& b) {
  const auto above = a > b;
  int64_t any = 0;
  for (int64_t lane = 0; lane < Native<Real>::kLanes; ++lane) any |= above[lane];
  return any != 0;
}

// Raises the running maximum to the lane's score in `top` in each lane where this score is larger
// by more than kMaximumSlack, and rescales the lane's sum and outputs. top: the largest score of
// each of the lanes [lane, lane + Native<Real>::kLanes) in a block. stride: AttentionBlock::stride.
// Lanes are independent of each other, so vectors of any width give the same bits.
template <typename Real>
inline void raise_maxima(const NativeVector<Real>& top, const AttentionSums& sums, int64_t lane,
                         int64_t stride) {
  typedef NativeVector<Real> Lanes;
  Real* maxima = static_cast<Real*>(sums.maxima) + lane;
  Real* totals = static_cast<Real*>(sums.sums) + lane;
  Real* outputs = static_cast<Real*>(sums.outputs) + lane;
  const Lanes before = load_native(maxima);
  const auto raised = top > before + Real{kMaximumSlack};
  const Lanes factor = raised ? power_of_two(before - top) : broadcast(Real{1});
  store_native<Real>(raised ? top : before, maxima);
  store_native<Real>(load_native(totals) * factor, totals);
  for (int64_t row = 0; row < sums.output_rows; ++row) {
    Real* output = outputs + row * stride;
    store_native<Real>(load_native(output) * factor, output);
  }
}

// The running softmax of the lanes [lane, lane + Native<Real>::kLanes). Refers to the
// AttentionSums, which must outlive the object; its members change the arrays of the AttentionSums.
template <typename Real>
class LaneSums {
 public:
  typedef NativeVector<Real> Lanes;

  LaneSums(const AttentionSums& sums, int64_t lane)
      : sums_(sums),
        lane_(lane),
        maxima_(static_cast<Real*>(sums.maxima) + lane),
        totals_(static_cast<Real*>(sums.sums) + lane) {}

  // total() returns the sums of 2^(score - maximum); set_total() replaces them.
  Lanes total() const { return load_native(totals_); }
  void set_total(const Lanes& total) const { store_native<Real>(total, totals_); }

  // Updates the maxima with the block's scores (raise_maxima()), and rescales sums and outputs if
  // needed. Returns the number to subtract from a lane's scores before 2^x is computed: the lane's
  // maximum, or 0 if the lane has seen no key yet. lanes: the LaneBlock of `block` for the lanes of
  // this object.
  template <typename Block>
  [[gnu::always_inline]] Lanes take_scores(const Block& lanes, const AttentionBlock& block) const {
    const Lanes lowest = broadcast(-static_cast<Real>(__builtin_inf()));
    Lanes top = lowest;
    for (int64_t key = 0; key < block.keys; ++key) {
      const Lanes scores = lanes.scores(key);
      top = scores > top ? scores : top;
    }
    if (any_above<Real>(top, load_native(maxima_) + Real{kMaximumSlack})) {
      raise_maxima<Real>(top, sums_, lane_, block.stride);
    }
    // The maximum of a lane that has seen no key is -infinity; -infinity - -infinity would be NaN.
    const Lanes maximum = load_native(maxima_);
    return maximum == lowest ? Lanes{} : maximum;
  }

 private:
  const AttentionSums& sums_;
  int64_t lane_;
  Real* maxima_;
  Real* totals_;
};

// attention_probabilities() for one kind of block. kPairs: whether `pairs` is not null.
template <typename Real, BlockKind kKind, bool kDropout, bool kPairs>
inline void attention_probabilities_as(const AttentionBlock& block, const AttentionSums& sums,
                                       uint32_t* pairs) {
  typedef NativeVector<Real> Lanes;
  for (int64_t lane = 0; lane < block.lanes; lane += Native<Real>::kLanes) {
    const LaneBlock<Real, kKind, kDropout> lanes(block, lane);
    const LaneSums<Real> of_lanes(sums, lane);
    const Lanes shift = of_lanes.take_scores(lanes, block);
    Lanes total = of_lanes.total();
    const auto probability = [&](int64_t key) {
      const Lanes p = power_of_two(lanes.scores(key) - shift);
      total += p;
      return lanes.drop(p, key);
    };
    if constexpr (kPairs) {
      int64_t key = 0;
      for (; key + 1 < block.keys; key += 2) {
        const NativeVector<uint32_t> low = rounded_bits(probability(key)) >> 16;
        const NativeVector<uint32_t> high = rounded_bits(probability(key + 1)) & 0xFFFF0000;
        store_native<uint32_t>(low | high, pairs + key / 2 * block.stride + lane);
      }
      if (key < block.keys) {
        store_native<uint32_t>(rounded_bits(probability(key)) >> 16,
                               pairs + key / 2 * block.stride + lane);
      }
    } else {
      for (int64_t key = 0; key < block.keys; ++key) {
        store_native<Real>(probability(key), lanes.at(key));
      }
    }
    of_lanes.set_total(total);
  }
}

// attention_gradients() for one kind of block. kHalves: whether `halves` is not null.
template <typename Real, BlockKind kKind, bool kDropout, bool kHalves>
inline void attention_gradients_as(const AttentionBlock& block, void* gradients,
                                   const void* logsumexps, const void* deltas,
                                   const AttentionBf16Operands* halves) {
  typedef NativeVector<Real> Lanes;
  for (int64_t lane = 0; lane < block.lanes; lane += Native<Real>::kLanes) {
    const LaneBlock<Real, kKind, kDropout> lanes(block, lane);
    Real* column = static_cast<Real*>(gradients) + lane;
    const Lanes shift = load_native(static_cast<const Real*>(logsumexps) + lane);
    const Lanes delta = load_native(static_cast<const Real*>(deltas) + lane);
    const auto pair = [&](int64_t key, Lanes& probability, Lanes& gradient) {
      const Lanes p = power_of_two(lanes.scores(key) - shift);
      probability = lanes.drop(p, key);
      gradient = p * (lanes.drop(load_native(column + key * block.stride), key) - delta);
      gradient = lanes.take_gradient(gradient, key);
    };
    if constexpr (kHalves) {
      for (int64_t key = 0; key < block.keys; key += 2) {
        NativeVector<uint32_t> both{};
        for (int64_t i = key; i < smaller(key + 2, block.keys); ++i) {
          Lanes probability, gradient;
          pair(i, probability, gradient);
          const NativeVector<uint32_t> bits = rounded_bits(gradient);
          const int64_t place = i * block.stride + lane;
          store_halves(rounded_bits(probability), halves->probabilities + place);
          store_halves(bits, halves->gradients + place);
          both |= i == key ? bits >> 16 : bits & 0xFFFF0000;
        }
        store_native<uint32_t>(both, halves->gradient_pairs + key / 2 * block.stride + lane);
      }
    } else {
      for (int64_t key = 0; key < block.keys; ++key) {
        Lanes probability, gradient;
        pair(key, probability, gradient);
        store_native<Real>(probability, lanes.at(key));
        store_native<Real>(gradient, column + key * block.stride);
      }
    }
  }
}

// A compile-time constant as a type, for generic lambdas.
template <auto kGiven>
struct Constant {
  static constexpr auto kValue = kGiven;
};

// Calls run(kind, dropout) with two Constants: the BlockKind of the block, and whether it has
// dropout.
template <typename Run>
inline void with_block_kind(const AttentionBlock& block, const Run& run) {
  const auto with_dropout = [&](auto kind) {
    block.kept ? run(kind, Constant<true>{}) : run(kind, Constant<false>{});
  };
  if (block.positions || block.relative_bias || block.soft_cap != 0) {
    with_dropout(Constant<BlockKind::general>{});
  } else if (block.limits) {
    with_dropout(Constant<BlockKind::masked>{});
  } else {
    with_dropout(Constant<BlockKind::plain>{});
  }
}

// A block of the forward pass. Let s = scale * score + ALiBi term, or -infinity where a lane does
// not see the key. Raises the maxima of `sums` for s if needed, and then rescales its sums and
// outputs. Adds p = 2^(s - maximum) to the lane's sum. Overwrites the score with dropout(p). If
// `pairs`, [ceil(keys / 2), stride], is not null, writes dropout(p) there instead, in bf16: row j
// has key 2 j in the low 16 bits, and key 2 j + 1 (0 if there is none) in the high 16 bits. `pairs`
// must be null for a block of type float64.
inline void attention_probabilities(const AttentionBlock& block, const AttentionSums& sums,
                                    uint32_t* pairs) {
  with_block_kind(block, [&](auto kind, auto dropout) {
    constexpr BlockKind kKind = decltype(kind)::kValue;
    constexpr bool kDropout = decltype(dropout)::kValue;
    if (block.type == ElementType::float64) {
      attention_probabilities_as<double, kKind, kDropout, false>(block, sums, nullptr);
    } else if (pairs) {
      attention_probabilities_as<float, kKind, kDropout, true>(block, sums, pairs);
    } else {
      attention_probabilities_as<float, kKind, kDropout, false>(block, sums, nullptr);
    }
  });
}

// A block of the backward pass. block.scores: the products of queries and keys, computed again, and
// again passed through soft_cap() if there is a cap. Let P = 2^(s - logsumexp), with s as for
// attention_probabilities(). Computes dropout(P), and G = P * (dropout(gradient) - delta), times
// the derivative of soft_cap() if there is a cap. G are the gradients of the scores before the cap,
// with a scale that does not include the factor log2(e).
//   gradients   [keys, stride] Real: on entry, the gradients of dropout(P); on return, G
//               if `halves` is null, else unchanged
//   logsumexps  [lanes] Real: of each query, in units of log2; +infinity for a query that sees no
//               key
//   deltas      [lanes] Real: inner product of each query's output with the output's gradient
//   halves      null: writes dropout(P) to block.scores, and G to `gradients`. Not null: writes
//               dropout(P) to halves->probabilities, and G to the two other arrays of `halves`.
//               Must be null for a block of type float64
inline void attention_gradients(const AttentionBlock& block, void* gradients,
                                const void* logsumexps, const void* deltas,
                                const AttentionBf16Operands* halves) {
  with_block_kind(block, [&](auto kind, auto dropout) {
    constexpr BlockKind kKind = decltype(kind)::kValue;
    constexpr bool kDropout = decltype(dropout)::kValue;
    if (block.type == ElementType::float64) {
      attention_gradients_as<double, kKind, kDropout, false>(block, gradients, logsumexps, deltas,
                                                             nullptr);
    } else if (halves) {
      attention_gradients_as<float, kKind, kDropout, true>(block, gradients, logsumexps, deltas,
                                                           halves);
    } else {
      attention_gradients_as<float, kKind, kDropout, false>(block, gradients, logsumexps, deltas,
                                                            nullptr);
    }
  });
}

// Makes the dropout mask of 64 keys, i.e. two rows of AttentionBlock::kept. Bit i of bits[half *
// stride + lane] says whether the probability of key 32 * half + i is kept in the lane. It is kept
// if word 32 * half + i of group number `group` of the random row rows[lane] is at least
// `threshold`. rows: [lanes].
inline void kept_bits(const RandomRow* rows, int64_t lanes, uint32_t threshold, uint32_t group,
                      uint32_t* bits, int64_t stride) {
  for (int64_t lane = 0; lane < lanes; ++lane) {
    uint32_t words[kRandomGroup];
    random_words(rows[lane], group, words);
    for (int64_t half = 0; half < 2; ++half) {
      uint32_t kept = 0;
      for (int64_t i = 0; i < 32; ++i) {
        kept |= static_cast<uint32_t>(words[32 * half + i] >= threshold) << i;
      }
      bits[half * stride + lane] = kept;
    }
  }
}

template <typename Real>
inline double inner_product_as(const void* a, ElementType a_type, const void* b, ElementType b_type,
                               int64_t count) {
  using Lanes = Vector<Real>;
  alignas(kVectorBytes) Real a_block[kBlock];
  alignas(kVectorBytes) Real b_block[kBlock];
  double sum = 0;
  for (int64_t begin = 0; begin < count; begin += kBlock) {
    const int64_t size = smaller(kBlock, count - begin);
    widen_block(a, a_type, begin, size, a_block);
    widen_block(b, b_type, begin, size, b_block);
    pad_block(a_block, size, Real{0});
    pad_block(b_block, size, Real{0});
    typename Lanes::Type products = {};
    for (int64_t i = 0; i < size; i += Lanes::kLanes) {
      products += load_vector(a_block + i) * load_vector(b_block + i);
    }
    sum += sum_lanes<Real>(products);
  }
  return sum;
}

// Returns the sum of a[i] * b[i] for i in [0, count). The products are computed in fp64 if `a` or
// `b` has type float64, otherwise in fp32.
inline double inner_product(const void* a, ElementType a_type, const void* b, ElementType b_type,
                            int64_t count) {
  const bool wide = a_type == ElementType::float64 || b_type == ElementType::float64;
  return (wide ? inner_product_as<double> : inner_product_as<float>)(a, a_type, b, b_type, count);
}

}  // namespace
}  // namespace colossal::ops::kernels
