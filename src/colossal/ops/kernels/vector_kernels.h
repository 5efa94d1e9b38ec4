// Kernels on plain memory, compiled once for each instruction set (see variant.inc); the variant is
// chosen at run time. All variants give the same bits: they do basic IEEE operations in the same
// order, without fused multiply-add, and they sum in a fixed number of lanes whatever the width of
// a vector. Any number of threads may call a kernel, each with its own results.
#pragma once

#include <cstdint>

#include "colossal/base/cpu_features.h"
#include "colossal/base/random.h"

namespace colossal::ops::kernels {

enum class ElementType { float64, float32, bfloat16 };

// Factors of one AdamW update, which computes what torch.optim.AdamW does. t: number of this
// update, from 1.
struct AdamWFactors {
  double gradient_scale;  // multiplies the gradient
  double beta1, beta2;
  double decay;            // 1 - learning_rate * weight_decay
  double step_size;        // learning_rate / (1 - beta1^t)
  double root_correction;  // sqrt(1 - beta2^t)
  double epsilon;
};

// The arrays of an AdamW update, which is computed in the master's type. `gradient` is read, all
// other arrays are updated.
struct AdamWArrays {
  void* master;  // float64 or float32
  ElementType master_type;
  void* working;  // receives the rounded master; null: the model computes with the master
  ElementType working_type;
  void* first_moment;
  void* second_moment;
  ElementType moment_type;
  const void* gradient;
  ElementType gradient_type;
};

struct SoftmaxStatistics {
  double maximum;
  double sum;  // of exp(x - maximum); NaN if an element is NaN or +infinity, or all are -infinity
};

// A row of a layer norm or RMS norm: n = (x - mean) * inverse_deviation, with mean = 0 for an RMS
// norm. The result is n times a factor (plus a bias): the weight, or 1 + weight with unit_offset
// (added in the compute type), or 1 without a weight.
struct NormRow {
  const void* x;
  const void* weight;  // null: none
  double mean;
  double inverse_deviation;
  ElementType type;  // of x, weight, bias, results, and gradients of results and x
  int64_t count;
  bool unit_offset = false;
};

// Sums over a row; u is the gradient of the result times the factor on n.
struct NormGradientSums {
  double product;   // of u * n
  double weighted;  // of u
};

// Heads [count, size]. The first 2 * half channels of each are rotated in pairs, the other channels
// are copied. Pair i is the channels (i, half + i) or, if interleaved, (2 i, 2 i + 1).
struct RotatedHeads {
  int64_t count;
  int64_t size;
  int64_t half;
  bool interleaved = false;
};

// An element becomes 0 if its random word is below the threshold; else it is multiplied by `scale`.
struct DropoutRule {
  uint32_t threshold;
  double scale;
};

// Attention works on transposed blocks of scores: a row for each key, a lane for each query. So
// operations on a query's scores are lane-wise, and no sum crosses lanes. The number of lanes is a
// multiple of kAttentionLanes; lanes after the last query are computed, too, and their results are
// not used.
inline constexpr int64_t kAttentionLanes = 16;

struct AttentionBlock {
  ElementType type;  // compute type, "Real" below: float32 or float64
  void* scores;      // [keys, stride] Real: dot products of keys and queries
  int64_t stride;    // elements from one key to the next in all arrays [keys, lanes] of this block
  int64_t keys;
  int64_t lanes;
  double scale;  // factor on the scores, times log2(e)

  // Lane i sees key j if key_begin + j < limits[i] and query_documents[i] == key_documents[j].
  // limits and query_documents are [lanes], key_documents [keys], of type Real (integers up to 2^24
  // are exact). limits null: every lane sees every key, and all documents are equal. Documents:
  // both null or both given.
  int64_t key_begin;
  const void* limits;
  const void* query_documents;
  const void* key_documents;

  // [lanes] Real: positions of the queries; null if `window` and `slope` are 0.
  const void* positions;
  // Sliding window, 0: none. A query at position p sees a key whose position is prefix_end or more
  // only if that position is above p - window.
  double window;
  int64_t prefix_end;
  // ALiBi slope times log2(e): slope * (key position - query position) is added to a score.
  double slope;

  // The cap times log2(e): given to soft_cap(), and to the functions that use its scores. 0: no
  // cap.
  double soft_cap;

  // Dropout: the probability of key j and lane i is kept if bit j % 32 of kept[j / 32 * stride + i]
  // is set. Null: no dropout.
  const uint32_t* kept;
  double kept_scale;  // 1 / (1 - probability of dropout)
};

// The running softmax of each lane over the blocks of keys so far, with scores in units of log2:
// the sum is that of 2^(score - maximum). A maximum may be a little smaller than the largest score.
// When a maximum is raised, the sum and the outputs of its lane are rescaled.
struct AttentionSums {
  // [lanes] Real each. Before the first key they are -infinity and 0; or, with an attention sink,
  // its logit times log2(e) and 1.
  void* maxima;
  void* sums;
  void* outputs;  // [output_rows, stride] Real
  int64_t output_rows;
};

// Probabilities and score gradients of a block in bf16, for the three matrix products that follow.
// probabilities and gradients are [keys, stride]. gradient_pairs holds the gradients once more, as
// [ceil(keys / 2), stride]: row j has the gradient of key 2 j in the low half and that of key 2 j +
// 1 (or zero) in the high half.
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
  // Returns the sum of squares, computed in fp64.
  double (*squared_norm)(const void* data, ElementType type, int64_t count);
  bool (*all_finite)(const void* data, ElementType type, int64_t count);
  // Updates elements [begin, end) of the arrays.
  void (*adamw)(const AdamWArrays& arrays, int64_t begin, int64_t end, const AdamWFactors& factors);

  // to <- mean + deviation * z for numbers z [begin, begin + count) of the standard normal numbers
  // of `key`.
  void (*fill_normal)(RandomKey key, int64_t begin, int64_t count, double mean, double deviation,
                      void* to, ElementType type);
  // to[i] = from[i] * (kept ? scale : 0), where `rule` decides by the random word begin + i of
  // `row` whether element i is kept.
  void (*dropout)(const RandomRow& row, const DropoutRule& rule, int64_t begin, int64_t count,
                  const void* from, void* to, ElementType type);

  // to[i] = 0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))) with x = x[i]; backward: to[i] = the
  // gradient times the derivative.
  void (*gelu_new)(const void* x, void* to, ElementType type, int64_t count);
  void (*gelu_new_backward)(const void* gradient, const void* x, void* to, ElementType type,
                            int64_t count);

  // to[i] = silu(gate[i]) * up[i]; backward: computes the gradients of gate and up.
  void (*swiglu)(const void* gate, const void* up, void* to, ElementType type, int64_t count);
  void (*swiglu_backward)(const void* gradient, const void* gate, const void* up,
                          void* gate_gradient, void* up_gradient, ElementType type, int64_t count);
  // to[i] = gelu_new(gate[i]) * up[i]; backward: computes the gradients of gate and up.
  void (*geglu)(const void* gate, const void* up, void* to, ElementType type, int64_t count);
  void (*geglu_backward)(const void* gradient, const void* gate, const void* up,
                         void* gate_gradient, void* up_gradient, ElementType type, int64_t count);

  // Rotates the heads of one position. cosines and sines: [half] in the compute type. With c and s
  // those of pair i, whose channels are (i, half + i): to[i] = c x[i] - s x[half + i], to[half + i]
  // = c x[half + i] + s x[i]; and likewise for interleaved pairs.
  void (*rotate)(const void* x, const void* cosines, const void* sines, void* to, ElementType type,
                 const RotatedHeads& heads);

  // to[i] = x[i] + branch[i], rounded to `type`. Returns the sum of to[i].
  double (*add_row)(const void* x, const void* branch, void* to, ElementType type, int64_t count);
  // Returns the sum of x[i].
  double (*sum_row)(const void* x, ElementType type, int64_t count);
  // Returns the sum of (x[i] - mean)^2.
  double (*squared_deviations)(const void* x, double mean, ElementType type, int64_t count);
  // to[i] = n[i] * factor[i] + bias[i], with the factor of NormRow; bias null: no bias.
  void (*normalize)(const NormRow& row, const void* bias, void* to);
  // gradient: of the result. Adds gradient * n to weight_gradient (not accessed if the row has no
  // weight) and gradient to bias_gradient (null: none), both [count] in the compute type. Returns
  // the row's sums.
  NormGradientSums (*norm_gradient_sums)(const NormRow& row, const void* gradient,
                                         void* weight_gradient, void* bias_gradient);
  // to = the gradient of x, plus sum_gradient (null: none), the gradient that reaches x + branch
  // directly. means: the row's sums over all ranks divided by the number of features;
  // means.weighted is 0 for an RMS norm.
  void (*norm_input_gradient)(const NormRow& row, const void* gradient,
                              const NormGradientSums& means, const void* sum_gradient, void* to);

  SoftmaxStatistics (*softmax_statistics)(const void* row, ElementType type, int64_t count);
  // Returns the natural logarithm of the sum of exp(x).
  double (*logsumexp)(const SoftmaxStatistics& statistics);
  // row <- cap * tanh(row / cap)
  void (*cap_row)(void* row, ElementType type, int64_t count, double cap);
  // row <- exp(row - maximum) / sum, minus 1 at index `label`. A label outside [0, count) subtracts
  // nothing. If cap is not 0, the row holds capped logits, and the result is multiplied by the
  // derivative of the cap, 1 - (row / cap)^2.
  void (*cross_entropy_gradient)(void* row, ElementType type, int64_t count,
                                 const SoftmaxStatistics& statistics, int64_t label, double cap);

  // scores <- soft_cap * tanh(scale * scores / soft_cap), with the block's scale and soft cap. The
  // caller must then set the block's scale to 1.
  void (*soft_cap)(const AttentionBlock& block);
  // Adds the block's keys to the sums and rescales the outputs to match. scores <- dropout(2^(s -
  // maximum)), where s is scale * scores plus the ALiBi term, or -infinity for keys that a lane
  // does not see. If `pairs` [ceil(keys / 2), stride] is not null, these numbers go to `pairs` in
  // bf16 instead, in pairs as AttentionHalves::gradient_pairs; `pairs` requires float32.
  void (*attention_probabilities)(const AttentionBlock& block, const AttentionSums& sums,
                                  uint32_t* pairs);
  // gradients [keys, stride]: those of dropout(P), where P = 2^(s - logsumexp), with s as above.
  // scores <- dropout(P). gradients <- P * (dropout(gradients) - delta), times the derivative of
  // soft_cap(). If `halves` is not null, both go there in bf16 instead; this requires float32.
  // logsumexps, in units of log2, and deltas, the inner product of each query's output with its
  // gradient: [lanes] Real.
  void (*attention_gradients)(const AttentionBlock& block, void* gradients, const void* logsumexps,
                              const void* deltas, const AttentionHalves* halves);
  // bits [2, stride] <- AttentionBlock::kept of 64 keys, from random words `group` of each row:
  // lane i uses rows[i].
  void (*kept_bits)(const RandomRow* rows, int64_t lanes, uint32_t threshold, uint32_t group,
                    uint32_t* bits, int64_t stride);

  // Returns the sum of a[i] * b[i].
  double (*inner_product)(const void* a, ElementType a_type, const void* b, ElementType b_type,
                          int64_t count);

  // to[column][row] = from[row][column], for elements of 4 or 8 bytes. Strides in elements.
  void (*transpose32)(const uint32_t* from, int64_t from_stride, int64_t rows, int64_t columns,
                      uint32_t* to, int64_t to_stride);
  void (*transpose64)(const uint64_t* from, int64_t from_stride, int64_t rows, int64_t columns,
                      uint64_t* to, int64_t to_stride);
  // to[pair][column] = from[2 pair][column] | from[2 pair + 1][column] << 16, for the bits of bf16
  // numbers. rows: an even number. Strides in elements.
  void (*interleave_pairs)(const uint16_t* from, int64_t from_stride, int64_t rows, int64_t columns,
                           uint32_t* to, int64_t to_stride);
  // to[column][pair] = from[2 pair][column] | from[2 pair + 1][column] << 16, for the bits of bf16
  // numbers. An odd number of rows is padded with a row of zeros. Strides in elements.
  void (*transpose_pairs)(const uint16_t* from, int64_t from_stride, int64_t rows, int64_t columns,
                          uint32_t* to, int64_t to_stride);
  // to = from * factor + bias, rounded to bf16. from and to: [rows, columns]; bias: [columns] bf16,
  // or null.
  void (*round_block)(const float* from, int64_t from_stride, int64_t rows, int64_t columns,
                      const uint16_t* bias, float factor, uint16_t* to, int64_t to_stride);

  // to[2 i], to[2 i + 1] = levels[high four bits of byte i], levels[low four bits of byte i].
  // levels: [16], the numbers that NF4 codes stand for.
  void (*levels_of_nf4)(const uint8_t* codes, int64_t bytes, const float* levels, float* to);
  // to[i] = codes[i]
  void (*levels_of_int8)(const int8_t* codes, int64_t count, float* to);
  // to[i] = levels[i] * scale, in fp32 or bf16. The products must be finite.
  void (*scale_levels)(const float* levels, float scale, int64_t count, void* to, ElementType type);
};

// Returns the kernels for an instruction set; null if the build or this CPU does not support it.
const VectorKernels* vector_kernels(InstructionSet instruction_set);

// Returns the kernels for the widest instruction set that this CPU supports.
const VectorKernels& vector_kernels();

}  // namespace colossal::ops::kernels
