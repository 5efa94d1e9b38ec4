// Loops over plain memory, compiled once for each instruction set (see variant.inc) and chosen at
// run time. All variants give the same bits: they consist of basic IEEE operations in one order,
// without fused multiply-add, and sums use a fixed number of lanes for any vector width.
#pragma once

#include <cstdint>

#include "colossal/base/cpu_features.h"
#include "colossal/base/random.h"

namespace colossal::ops::kernels {

enum class ElementType { float64, float32, bfloat16 };

// Factors of one AdamW update, as by torch.optim.AdamW; t counts updates from 1.
struct AdamWFactors {
  double gradient_scale;
  double beta1, beta2;
  double decay;            // 1 - learning_rate * weight_decay
  double step_size;        // learning_rate / (1 - beta1^t)
  double root_correction;  // sqrt(1 - beta2^t)
  double epsilon;
};

// The arrays of an AdamW update, which is computed in the master's type.
struct AdamWArrays {
  void* master;  // float64 or float32
  ElementType master_type;
  void* working;  // null: the model computes with the master
  ElementType working_type;
  void* first_moment;
  void* second_moment;
  ElementType moment_type;
  const void* gradient;
  ElementType gradient_type;
};

struct SoftmaxStatistics {
  double maximum;
  double sum;  // of exp(x - maximum); NaN if an element is not finite
};

// A row of a norm; n = (x - mean) * inverse_deviation, with mean = 0 for RMS norm. The result is n
// * weight, or n * (1 + weight) with unit_offset (added in the compute type); without a weight it
// is n.
struct NormRow {
  const void* x;
  const void* weight;  // null: none
  double mean;
  double inverse_deviation;
  ElementType type;  // of x, weight, results and gradients
  int64_t count;
  bool unit_offset = false;
};

// Sums over a row; u is the output gradient times the factor on n.
struct NormGradientSums {
  double product;   // of u * n
  double weighted;  // of u
};

// Heads [count, size] whose first 2 * half channels are rotated in pairs; the other channels are
// copied. Pair i: channels (i, half + i) or, if interleaved, (2 i, 2 i + 1).
struct RotatedHeads {
  int64_t count;
  int64_t size;
  int64_t half;
  bool interleaved = false;
};

// An element is dropped if its random word is below the threshold, else multiplied by `scale`.
struct DropoutRule {
  uint32_t threshold;
  double scale;
};

// Attention works on transposed blocks of scores: a row for each key, a lane for each query. So
// operations on a query's scores are lane-wise, and no sum crosses lanes. Arrays of lanes have a
// multiple of this many lanes; lanes after the last query hold harmless values.
inline constexpr int64_t kAttentionLanes = 16;

struct AttentionBlock {
  ElementType type;  // compute type, "Real" below: float32 or float64
  void* scores;      // [keys, stride] Real: dot products of keys and queries
  int64_t stride;    // of all arrays [keys, lanes] of this block
  int64_t keys;
  int64_t lanes;
  double scale;  // factor on the scores, times log2(e)

  // Lane i sees key j if key_begin + j < limits[i] and their documents are equal. Arrays are
  // [lanes] or [keys] Real (exact up to 2^24). limits null: every lane sees every key. Documents:
  // both null or both given.
  int64_t key_begin;
  const void* limits;
  const void* query_documents;
  const void* key_documents;

  // [lanes] Real: positions of the queries; null if neither `window` nor `slope` needs them.
  const void* positions;
  // A query at position p sees a key at or after prefix_end only if the key's position is above p -
  // window. 0: no window.
  double window;
  int64_t prefix_end;
  double slope;  // ALiBi slope, times log2(e), on (key position - query position)

  // The cap times log2(e) if the scores come from soft_cap(), else 0.
  double soft_cap;

  // Dropout: the probability of key j and lane i is kept if bit j % 32 of kept[j / 32 * stride + i]
  // is set. Null: no dropout.
  const uint32_t* kept;
  double kept_scale;  // 1 / (1 - probability)
};

// Running softmax of each lane, in units of log2: the sum is that of 2^(score - maximum). A maximum
// need not be the largest score, only near it. Rescaled together with the outputs accumulated so
// far.
struct AttentionSums {
  void* maxima;   // [lanes] Real; -infinity before the first key
  void* sums;     // [lanes] Real
  void* outputs;  // [output_rows, stride] Real
  int64_t output_rows;
};

// Probabilities and score gradients of a block in bf16, in the formats of the three products that
// follow. Strides are the block's. Pairs: row 2 j in the low half, row 2 j + 1 (or zero) in the
// high half.
struct AttentionHalves {
  uint16_t* probabilities;
  uint16_t* gradients;
  uint32_t* gradient_pairs;
};

struct VectorKernels {
  // to[i] = from[i] * scale
  void (*convert)(const void* from, ElementType from_type, void* to, ElementType to_type,
                  int64_t count, double scale);
  // to[i] += from[i]
  void (*accumulate)(const void* from, ElementType from_type, void* to, ElementType to_type,
                     int64_t count);
  double (*squared_norm)(const void* data, ElementType type, int64_t count);
  bool (*all_finite)(const void* data, ElementType type, int64_t count);
  void (*adamw)(const AdamWArrays& arrays, int64_t begin, int64_t end, const AdamWFactors& factors);

  // to <- elements [begin, begin + count) of the stream's normal numbers, mean + deviation * z.
  void (*fill_normal)(RandomKey key, int64_t begin, int64_t count, double mean, double deviation,
                      void* to, ElementType type);
  // to[i] = from[i] * (kept(begin + i) ? scale : 0)
  void (*dropout)(const RandomRow& row, const DropoutRule& rule, int64_t begin, int64_t count,
                  const void* from, void* to, ElementType type);

  // to[i] = 0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))) with x = x[i]; backward: the gradient
  // times the derivative.
  void (*gelu_new)(const void* x, void* to, ElementType type, int64_t count);
  void (*gelu_new_backward)(const void* gradient, const void* x, void* to, ElementType type,
                            int64_t count);

  // to[i] = silu(gate[i]) * up[i]; backward: the gradients of gate and up.
  void (*swiglu)(const void* gate, const void* up, void* to, ElementType type, int64_t count);
  void (*swiglu_backward)(const void* gradient, const void* gate, const void* up,
                          void* gate_gradient, void* up_gradient, ElementType type, int64_t count);
  // to[i] = gelu_new(gate[i]) * up[i]; backward: the gradients of gate and up.
  void (*geglu)(const void* gate, const void* up, void* to, ElementType type, int64_t count);
  void (*geglu_backward)(const void* gradient, const void* gate, const void* up,
                         void* gate_gradient, void* up_gradient, ElementType type, int64_t count);

  // Rotates the heads of one position. With cosine c and sine s of pair i ([half], in the compute
  // type): to[i] = c x[i] - s x[half + i], to[half + i] = c x[half + i] + s x[i].
  void (*rotate)(const void* x, const void* cosines, const void* sines, void* to, ElementType type,
                 const RotatedHeads& heads);

  // to[i] = x[i] + branch[i]; returns the sum of the rounded to[i].
  double (*add_row)(const void* x, const void* branch, void* to, ElementType type, int64_t count);
  double (*sum_row)(const void* x, ElementType type, int64_t count);
  // Returns the sum of (x[i] - mean)^2.
  double (*squared_deviations)(const void* x, double mean, ElementType type, int64_t count);
  // to[i] = n[i] * factor[i] + bias[i], with the factor of NormRow; bias null: no bias.
  void (*normalize)(const NormRow& row, const void* bias, void* to);
  // Adds gradient * n to weight_gradient (not accessed if the row has no weight) and gradient to
  // bias_gradient (null: none), both in the compute type; returns the row's sums.
  NormGradientSums (*norm_gradient_sums)(const NormRow& row, const void* gradient,
                                         void* weight_gradient, void* bias_gradient);
  // to = the gradient of x, plus sum_gradient (null: none). means: the row's sums divided by the
  // number of features.
  void (*norm_input_gradient)(const NormRow& row, const void* gradient,
                              const NormGradientSums& means, const void* sum_gradient, void* to);

  SoftmaxStatistics (*softmax_statistics)(const void* row, ElementType type, int64_t count);
  double (*logsumexp)(const SoftmaxStatistics& statistics);
  // row <- cap * tanh(row / cap)
  void (*cap_row)(void* row, ElementType type, int64_t count, double cap);
  // row <- exp(row - maximum) / sum, minus 1 at `label`. If cap is not 0, the row holds capped
  // logits, and the result is multiplied by the derivative of the cap, 1 - (row / cap)^2.
  void (*cross_entropy_gradient)(void* row, ElementType type, int64_t count,
                                 const SoftmaxStatistics& statistics, int64_t label, double cap);

  // scores <- soft_cap * tanh(scale * scores / soft_cap), with the block's scale and soft cap. The
  // scale of the resulting scores is 1.
  void (*soft_cap)(const AttentionBlock& block);
  // Adds the block's keys to the sums and rescales the outputs to match. scores <- dropout(2^(scale
  // * scores - maximum)); if `pairs` [keys / 2, stride] is not null, these go to `pairs` in bf16
  // instead.
  void (*attention_probabilities)(const AttentionBlock& block, const AttentionSums& sums,
                                  uint32_t* pairs);
  // With P = 2^(scale * scores - logsumexp), logsumexp in units of log2, and gradients [keys,
  // stride] those of dropout(P): scores <- dropout(P), gradients <- P * (dropout(gradients) -
  // delta), times the derivative of soft_cap(). If `halves` is not null, both go there in bf16
  // instead. logsumexps and deltas: [lanes] Real.
  void (*attention_gradients)(const AttentionBlock& block, void* gradients, const void* logsumexps,
                              const void* deltas, const AttentionHalves* halves);
  // bits <- AttentionBlock::kept for one group of random words (64 keys), [2, stride], for lanes
  // that draw from these rows.
  void (*kept_bits)(const RandomRow* rows, int64_t lanes, uint32_t threshold, uint32_t group,
                    uint32_t* bits, int64_t stride);

  double (*inner_product)(const void* a, ElementType a_type, const void* b, ElementType b_type,
                          int64_t count);

  // to[column][row] = from[row][column], for elements of 4 or 8 bytes. Strides in elements.
  void (*transpose32)(const uint32_t* from, int64_t from_stride, int64_t rows, int64_t columns,
                      uint32_t* to, int64_t to_stride);
  void (*transpose64)(const uint64_t* from, int64_t from_stride, int64_t rows, int64_t columns,
                      uint64_t* to, int64_t to_stride);
  // to[pair][column] = from[2 pair][column] | from[2 pair + 1][column] << 16; rows: an even number.
  void (*interleave_pairs)(const uint16_t* from, int64_t from_stride, int64_t rows, int64_t columns,
                           uint32_t* to, int64_t to_stride);
  // to[column][pair] = from[2 pair][column] | from[2 pair + 1][column] << 16, for the bits of bf16
  // numbers; with an odd number of rows a row of zeros follows. Strides in elements.
  void (*transpose_pairs)(const uint16_t* from, int64_t from_stride, int64_t rows, int64_t columns,
                          uint32_t* to, int64_t to_stride);
  // to = from * factor + bias [columns], rounded to bf16; bias null: no bias.
  void (*round_block)(const float* from, int64_t from_stride, int64_t rows, int64_t columns,
                      const uint16_t* bias, float factor, uint16_t* to, int64_t to_stride);

  // to[2 i], to[2 i + 1] = levels[high half of byte i], levels[low half of byte i]. levels: [16].
  void (*levels_of_nf4)(const uint8_t* codes, int64_t bytes, const float* levels, float* to);
  void (*levels_of_int8)(const int8_t* codes, int64_t count, float* to);
  // to[i] = levels[i] * scale, in fp32 or bf16.
  void (*scale_levels)(const float* levels, float scale, int64_t count, void* to, ElementType type);
};

// Returns the kernels for an instruction set; null if the build or this CPU does not support it.
const VectorKernels* vector_kernels(InstructionSet instruction_set);

// Returns the kernels for the widest instruction set that this CPU supports.
const VectorKernels& vector_kernels();

}  // namespace colossal::ops::kernels
