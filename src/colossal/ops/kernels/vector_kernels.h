// Loops over plain memory, compiled once for each instruction set (see variant.inc) and chosen when
// the program runs. All variants give the same bits: they are made of exact IEEE steps in one
// order, without fused multiply-add, and sums run over a fixed number of lanes whatever a vector's
// width.
#pragma once

#include <cstdint>

#include "colossal/base/cpu_features.h"
#include "colossal/base/random.h"

namespace colossal::ops::kernels {

enum class ElementType { float64, float32, bfloat16 };

// One update of AdamW, as torch.optim.AdamW does it.
struct AdamWFactors {
  double gradient_scale;
  double beta1, beta2;
  double decay;            // 1 - learning_rate * weight_decay
  double step_size;        // learning_rate / (1 - beta1^t)
  double root_correction;  // sqrt(1 - beta2^t)
  double epsilon;
};

// Where an AdamW update finds its elements. Computed in the master's type.
struct AdamWArrays {
  void* master;  // float64 or float32
  ElementType master_type;
  void* working;  // null: the master is what the model computes with
  ElementType working_type;
  void* first_moment;
  void* second_moment;
  ElementType moment_type;
  const void* gradient;
  ElementType gradient_type;
};

struct SoftmaxStatistics {
  double maximum;
  double sum;  // of exp(x - maximum); NaN when an element is not finite
};

// A row of a norm, n = (x - mean) * inverse_deviation. An RMS norm's mean is 0. Its result is n
// times the weight, or 1 + the weight, added in the type computed with; without a weight it is n.
struct NormRow {
  const void* x;
  const void* weight;  // null: none
  double mean;
  double inverse_deviation;
  ElementType type;  // of all numbers of the row, gradients included
  int64_t count;
  bool unit_offset = false;
};

// Sums over a row, where u is the gradient times what n is multiplied by.
struct NormGradientSums {
  double product;   // of u * n
  double weighted;  // of u
};

// Heads [count, size] of which the first 2 half channels turn in pairs; the others are copied. Pair
// i: channels i and half + i, or, interleaved, 2 i and 2 i + 1.
struct TurnedHeads {
  int64_t count;
  int64_t size;
  int64_t half;
  bool interleaved = false;
};

// A number is dropped when its random word is below the threshold, else multiplied by `scale`.
struct DropoutRule {
  uint32_t threshold;
  double scale;
};

// Attention works on blocks of scores that are transposed: a row for each key, a lane for each
// query. What is done to the scores of a query is then done lane by lane, and no sum crosses lanes.
// Arrays of lanes have a multiple of this many; those beyond the last query hold what does no harm.
inline constexpr int64_t kAttentionLanes = 16;

struct AttentionBlock {
  ElementType type;  // of the numbers computed with, "Real" below: float32 or float64
  void* scores;      // [keys, stride] Real: products of a key and a query
  int64_t stride;    // of all arrays [keys, lanes] of this block
  int64_t keys;
  int64_t lanes;
  double scale;  // of the scores, times log2(e)

  // Lane i sees key j if key_begin + j < limits[i], and their documents are equal. All [lanes] or
  // [keys] Real (exact up to 2^24); limits null: every lane sees every key. Documents: both or
  // none.
  int64_t key_begin;
  const void* limits;
  const void* query_documents;
  const void* key_documents;

  // [lanes] Real: of the queries; null where neither of the following needs them.
  const void* positions;
  // A key at or beyond prefix_end is seen if it is less than this far before the query; 0: however
  // far.
  double window;
  int64_t prefix_end;
  double slope;  // ALiBi: added for each position that the key is after the query, times log2(e)

  // Where scores are those of soft_cap(): the cap, times log2(e); else 0.
  double soft_cap;

  // Dropout: probability (j, i) is kept if bit j % 32 of kept[j / 32 * stride + i] is set. Null:
  // all.
  const uint32_t* kept;
  double kept_scale;  // 1 / (1 - probability)
};

// The running softmax of each lane, in units of log2: the sum is that of 2^(score - maximum). A
// maximum need not be the largest score, only near it. The outputs so far are scaled with the sums.
struct AttentionSums {
  void* maxima;   // [lanes] Real; -infinity before the first key
  void* sums;     // [lanes] Real
  void* outputs;  // [output_rows, stride] Real
  int64_t output_rows;
};

// A block of gradients in bf16 as three products take them. Strides are the block's; pairs: row 2 j
// in the low half, row 2 j + 1 (or zero) in the high.
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

  // Elements [begin, begin + count) of the stream's normal numbers, mean + deviation * z.
  void (*fill_normal)(RandomKey key, int64_t begin, int64_t count, double mean, double deviation,
                      void* to, ElementType type);
  // to[i] = from[i] * (kept(begin + i) ? scale : 0)
  void (*dropout)(const RandomRow& row, const DropoutRule& rule, int64_t begin, int64_t count,
                  const void* from, void* to, ElementType type);

  // to[i] = 0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))), and gradient times its derivative.
  void (*gelu_new)(const void* x, void* to, ElementType type, int64_t count);
  void (*gelu_new_backward)(const void* gradient, const void* x, void* to, ElementType type,
                            int64_t count);

  // to[i] = silu(gate[i]) * up[i], and the gradients of both.
  void (*swiglu)(const void* gate, const void* up, void* to, ElementType type, int64_t count);
  void (*swiglu_backward)(const void* gradient, const void* gate, const void* up,
                          void* gate_gradient, void* up_gradient, ElementType type, int64_t count);
  // The same with gelu_new in place of silu.
  void (*geglu)(const void* gate, const void* up, void* to, ElementType type, int64_t count);
  void (*geglu_backward)(const void* gradient, const void* gate, const void* up,
                         void* gate_gradient, void* up_gradient, ElementType type, int64_t count);

  // Heads of one position, turned: with cosine c and sine s, [half] in the type computed with, of
  // pair i, to[i] = c x[i] - s x[half + i], to[half + i] = c x[half + i] + s x[i].
  void (*rotate)(const void* x, const void* cosines, const void* sines, void* to, ElementType type,
                 const TurnedHeads& heads);

  // to[i] = x[i] + branch[i]; returns the sum of these, as they were rounded.
  double (*add_row)(const void* x, const void* branch, void* to, ElementType type, int64_t count);
  double (*sum_row)(const void* x, ElementType type, int64_t count);
  // The sum of (x[i] - mean)^2.
  double (*squared_deviations)(const void* x, double mean, ElementType type, int64_t count);
  // to[i] = n[i] times what it is multiplied by, + bias[i]; bias null: none.
  void (*normalize)(const NormRow& row, const void* bias, void* to);
  // Adds gradient * n to the weight's gradient (not read without a weight) and the gradient to the
  // bias's (null: none), both in the type computed with; returns the row's sums.
  NormGradientSums (*norm_gradient_sums)(const NormRow& row, const void* gradient,
                                         void* weight_gradient, void* bias_gradient);
  // to = the gradient of x + sum_gradient (null: none), from the sums over the number of features.
  void (*norm_input_gradient)(const NormRow& row, const void* gradient,
                              const NormGradientSums& means, const void* sum_gradient, void* to);

  SoftmaxStatistics (*softmax_statistics)(const void* row, ElementType type, int64_t count);
  double (*logsumexp)(const SoftmaxStatistics& statistics);
  // row <- cap * tanh(row / cap)
  void (*cap_row)(void* row, ElementType type, int64_t count, double cap);
  // row <- exp(row - maximum) / sum, less 1 at `label`; where the row was capped (cap not 0), times
  // the slope of that, 1 - (row / cap)^2.
  void (*cross_entropy_gradient)(void* row, ElementType type, int64_t count,
                                 const SoftmaxStatistics& statistics, int64_t label, double cap);

  // scores <- soft_cap * tanh(scale * scores / soft_cap), with the block's scale and soft cap. The
  // scale of what it leaves is 1.
  void (*soft_cap)(const AttentionBlock& block);
  // Adds the block's keys to the sums and scales the outputs to match; scores <- dropout(2^(scale *
  // scores - maximum)), or, where `pairs` [keys / 2, stride] is not null, pairs <- that in bf16.
  void (*attention_probabilities)(const AttentionBlock& block, const AttentionSums& sums,
                                  uint32_t* pairs);
  // With P = 2^(scale * scores - logsumexp), the latter in units of log2, and gradients [keys,
  // stride] those of dropout(P): scores <- dropout(P), gradients <- P * (dropout(gradients) -
  // delta), times the derivative of soft_cap(), or, where `halves` is not null, those in bf16
  // there. logsumexps and deltas: [lanes] Real.
  void (*attention_gradients)(const AttentionBlock& block, void* gradients, const void* logsumexps,
                              const void* deltas, const AttentionHalves* halves);
  // The bits of AttentionBlock::kept for one group of random words (64 keys), [2, stride], of lanes
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
  // to[column][pair] = from[2 pair][column] | from[2 pair + 1][column] << 16, for bf16 numbers as
  // bits; a row beyond the last counts as zeros. Strides in elements.
  void (*transpose_pairs)(const uint16_t* from, int64_t from_stride, int64_t rows, int64_t columns,
                          uint32_t* to, int64_t to_stride);
  // to = from * factor + bias [columns], in bf16; bias null: none.
  void (*round_block)(const float* from, int64_t from_stride, int64_t rows, int64_t columns,
                      const uint16_t* bias, float factor, uint16_t* to, int64_t to_stride);

  // to[2 i], to[2 i + 1] = the levels that the high and the low half of byte i are numbers of.
  // levels: [16].
  void (*levels_of_nf4)(const uint8_t* codes, int64_t bytes, const float* levels, float* to);
  void (*levels_of_int8)(const int8_t* codes, int64_t count, float* to);
  // to[i] = levels[i] * scale, in fp32 or bf16.
  void (*scale_levels)(const float* levels, float scale, int64_t count, void* to, ElementType type);
};

// One for each instruction set; null where the build or this CPU has none such.
const VectorKernels* vector_kernels(InstructionSet instruction_set);

// The widest that this CPU runs.
const VectorKernels& vector_kernels();

}  // namespace colossal::ops::kernels
