// The CPU kernels of Colossal's operators that work on arrays: a table of functions on plain
// memory, which vector_kernels() returns. The operators in ops/ check arguments, divide work among
// threads, and call these kernels for each part.
//
// The kernels are compiled once for each instruction set (variant.inc), and the widest set of the
// CPU is chosen at run time. All variants give the same bits: they do basic IEEE operations in the
// same order, without fused multiply-add, and they sum in a fixed number of lanes for any vector
// width. Kernels are thread-safe, as long as threads write to different memory.
//
// Unless its comment says otherwise, a kernel computes in double if one of its arrays is float64,
// otherwise in float; this is the "compute type". Strides and counts are in elements.
#pragma once

#include <cstdint>

#include "colossal/base/cpu_features.h"
#include "colossal/base/random.h"

namespace colossal::ops::kernels {

enum class ElementType { float64, float32, bfloat16 };  // uint16_t holds the bits of bfloat16

// Factors of one AdamW update (torch.optim.AdamW). t is the number of the update, counted from 1.
struct AdamWFactors {
  double gradient_scale;  // factor of the gradient
  double beta1, beta2;
  double decay;            // 1 - learning_rate * weight_decay
  double step_size;        // learning_rate / (1 - beta1^t)
  double root_correction;  // sqrt(1 - beta2^t)
  double epsilon;
};

// The arrays of an AdamW update, all of equal length. The update computes in master_type. It reads
// `gradient` and overwrites all other arrays.
struct AdamWArrays {
  void* master;  // the weights in float64 or float32
  ElementType master_type;
  void* working;  // set to the new master weights, rounded to working_type; null: not needed
  ElementType working_type;
  void* first_moment;
  void* second_moment;
  ElementType moment_type;
  const void* gradient;
  ElementType gradient_type;
};

// Statistics of the softmax of a row x.
struct SoftmaxStatistics {
  double maximum;  // largest element of x
  double sum;  // of exp(x - maximum); NaN if an element is NaN or +infinity, or all are -infinity
};

// A row x of a layer norm or RMS norm. If several ranks share the row, each of them has some of its
// features, and calls the kernels for these. Below, n = (x - mean) * inverse_deviation is the
// normalized row, and f is its factor: `weight`; 1 + weight (added in the compute type) if
// unit_offset; or 1 if `weight` is null. The norm's output is n * f, plus a bias if there is one.
struct NormRow {
  const void* x;       // [count]
  const void* weight;  // [count]; null: none
  double mean;         // of the whole row; 0 for RMS norm
  // 1 / sqrt(variance + epsilon), or 1 / sqrt(mean square + epsilon) for RMS norm; of the whole row
  double inverse_deviation;
  ElementType type;  // of x, weight, bias, output, and the gradients of output and x
  int64_t count;     // number of features on this rank
  bool unit_offset = false;
};

// Sums over the features of a row on this rank. u = f * gradient of the norm's output; n and f as
// at NormRow.
struct NormGradientSums {
  double product;   // sum of u * n
  double weighted;  // sum of u
};

// The heads of a token, x [count, size]. The first 2 * half channels of each head are rotated in
// pairs; the other channels are copied. Pair i has the channels i and half + i or, if interleaved,
// the channels 2 i and 2 i + 1.
struct RotatedHeads {
  int64_t count;  // number of heads
  int64_t size;   // channels per head
  int64_t half;   // number of pairs
  bool interleaved = false;
};

// An element is set to 0 if its 32-bit random word is below `threshold`. Otherwise the element is
// multiplied by `scale`, which is 1 / (1 - dropout probability), or 0 for the probability 1.
struct DropoutRule {
  uint32_t threshold;
  double scale;
};

// Attention kernels work on transposed blocks of scores: one row for each key, and one column, or
// "lane", for each query. So operations on a query's scores are lane-wise, and no sum crosses
// lanes. The number of lanes is a multiple of kAttentionLanes. The kernels compute the lanes after
// the last query, too; their results are not used.
inline constexpr int64_t kAttentionLanes = 16;

// A block of attention scores, and how to transform and mask them. Scores are in units of log2:
// probabilities are computed as powers of 2.
struct AttentionBlock {
  ElementType type;  // compute type, called Real below: float32 or float64
  void* scores;      // [keys, stride] Real: dot products of keys and queries
  int64_t stride;    // distance of rows of every array [.., stride], in elements; >= lanes
  int64_t keys;
  int64_t lanes;
  double scale;  // factor of the scores; includes the factor log2(e)

  // Lane i sees key j only if key_begin + j < limits[i] and query_documents[i] == key_documents[j];
  // key_begin is the position of the first key. `window` may hide further keys. limits null: the
  // caller knows that every lane and key meet both conditions. query_documents and key_documents
  // are both null (one document) or both given. Numbers are stored as Real, so integers are exact
  // up to 2^24 in float32.
  int64_t key_begin;
  const void* limits;           // [lanes] Real
  const void* query_documents;  // [lanes] Real
  const void* key_documents;    // [keys] Real

  // [lanes] Real: positions of the queries. May be null only if `window` and `slope` are 0.
  const void* positions;
  // Sliding window; 0: none. A query at position p does not see keys at positions up to p - window,
  // except those before prefix_end.
  double window;
  int64_t prefix_end;
  // ALiBi slope times log2(e): slope * (key position - query position) is added to a score.
  double slope;

  // Relative position bias times log2(e): relative_bias[i - j] is added to the score of key j and
  // lane i, for i in [0, lanes) and j in [0, keys); so the pointer is into an array. Null: none.
  const void* relative_bias;
  // attention_gradients() adds the gradient of the score of key j and lane i, without the factor
  // log2(e), to relative_bias_gradients[i - j]. Null with a null relative_bias.
  void* relative_bias_gradients;

  // The soft cap times log2(e); 0: no cap. Only the kernel soft_cap() applies it. If there is a
  // cap, the caller must call soft_cap() before attention_probabilities() and before
  // attention_gradients(), which needs the cap for the derivative.
  double soft_cap;

  // Dropout, [ceil(keys / 32), stride]: bit j % 32 of kept[j / 32 * stride + i] says whether the
  // probability of key j and lane i is kept. Null: no dropout.
  const uint32_t* kept;
  double kept_scale;  // factor of kept probabilities, 1 / (1 - dropout probability)
};

// The running softmax of each lane over the blocks of keys so far: the maximum of the scores in
// units of log2, and the sum of 2^(score - maximum), without dropout. A maximum may be smaller than
// the largest score, by at most 8. When a kernel raises a maximum, it rescales the sum and the
// outputs of the lane. The caller adds the products of a block to the outputs.
struct AttentionSums {
  void* maxima;  // [lanes] Real; initially -infinity, or an attention sink times log2(e)
  void* sums;    // [lanes] Real; initially 0, or 1 with an attention sink
  // [output_rows, stride] Real: products of the values with dropout(2^(score - maximum)), summed
  // over the keys so far; initially 0.
  void* outputs;
  int64_t output_rows;  // value_size, the channels of a value
};

// Probabilities and gradients of the scores of a block, in bf16, for the three matrix products that
// follow in the backward pass.
struct AttentionBf16Operands {
  uint16_t* probabilities;  // [keys, stride]
  uint16_t* gradients;      // [keys, stride]
  // [ceil(keys / 2), stride]: the gradients again, in pairs. Row j has the gradient of key 2 j in
  // the low 16 bits, and that of key 2 j + 1 (zero if there is none) in the high 16 bits.
  uint32_t* gradient_pairs;
};

// The kernels. "x[i] = .." means: for each i in [0, count).
struct VectorKernels {
  // to[i] = from[i] * scale
  void (*convert)(const void* from, ElementType from_type, void* to, ElementType to_type,
                  int64_t count, double scale);
  // to[i] += from[i]
  void (*accumulate)(const void* from, ElementType from_type, void* to, ElementType to_type,
                     int64_t count);
  // Returns the sum of data[i]^2, computed in fp64.
  double (*squared_norm)(const void* data, ElementType type, int64_t count);
  // Returns whether no element is infinite or NaN.
  bool (*all_finite)(const void* data, ElementType type, int64_t count);
  // Updates elements [begin, end) of the arrays.
  void (*adamw)(const AdamWArrays& arrays, int64_t begin, int64_t end, const AdamWFactors& factors);

  // to[i] = mean + deviation * (number begin + i of the standard normal numbers of `key`), computed
  // in fp64.
  void (*fill_normal)(RandomKey key, int64_t begin, int64_t count, double mean, double deviation,
                      void* to, ElementType type);
  // Applies dropout: to[i] = 0 or from[i] * rule.scale. Word begin + i of the random row `row` is
  // the random word of element i; see DropoutRule.
  void (*dropout)(const RandomRow& row, const DropoutRule& rule, int64_t begin, int64_t count,
                  const void* from, void* to, ElementType type);

  // GELU in its tanh approximation: to[i] = g(x[i]), where g(z) = 0.5 z (1 + tanh(sqrt(2/pi) (z +
  // 0.044715 z^3))). The backward kernel computes to[i] = gradient[i] * g'(x[i]).
  void (*gelu_new)(const void* x, void* to, ElementType type, int64_t count);
  void (*gelu_new_backward)(const void* gradient, const void* x, void* to, ElementType type,
                            int64_t count);

  // to[i] = silu(gate[i]) * up[i]. The backward kernel computes the gradients of gate and up from
  // `gradient`, the gradient of the result.
  void (*swiglu)(const void* gate, const void* up, void* to, ElementType type, int64_t count);
  void (*swiglu_backward)(const void* gradient, const void* gate, const void* up,
                          void* gate_gradient, void* up_gradient, ElementType type, int64_t count);
  // to[i] = g(gate[i]) * up[i], with g as for gelu_new(). The backward kernel computes the
  // gradients of gate and up.
  void (*geglu)(const void* gate, const void* up, void* to, ElementType type, int64_t count);
  void (*geglu_backward)(const void* gradient, const void* gate, const void* up,
                         void* gate_gradient, void* up_gradient, ElementType type, int64_t count);

  // Rotates the heads x [heads.count, heads.size] of one token, and writes them to `to`. cosines,
  // sines: [heads.half] in the compute type. A pair of channels with the values (a, b), the cosine
  // c and the sine s becomes (c a - s b, c b + s a).
  void (*rotate)(const void* x, const void* cosines, const void* sines, void* to, ElementType type,
                 const RotatedHeads& heads);

  // to[i] = x[i] + branch[i], rounded to `type`. Returns the sum of to[i].
  double (*add_row)(const void* x, const void* branch, void* to, ElementType type, int64_t count);
  // Returns the sum of x[i].
  double (*sum_row)(const void* x, ElementType type, int64_t count);
  // Returns the sum of (x[i] - mean)^2.
  double (*squared_deviations)(const void* x, double mean, ElementType type, int64_t count);
  // to[i] = n[i] * f[i] + bias[i], with n and f as at NormRow. bias: [count]; null: no bias.
  void (*normalize)(const NormRow& row, const void* bias, void* to);
  // Returns the sums over the row that the gradient of x needs. Also adds gradient[i] * n[i] to
  // weight_gradient[i] if row.weight is not null, and gradient[i] to bias_gradient[i] if
  // bias_gradient is not null; both arrays are in the compute type. gradient: of the norm's output.
  NormGradientSums (*norm_gradient_sums)(const NormRow& row, const void* gradient,
                                         void* weight_gradient, void* bias_gradient);
  // Writes the gradient of x, plus sum_gradient, to `to`.
  //   gradient      of the norm's output
  //   means         the result of norm_gradient_sums(), summed over the ranks that share the row
  //                 and divided by the number of features of the whole row; means.weighted must be
  //                 0 for RMS norm
  //   sum_gradient  if x is the sum of a residual stream and a branch: the gradient that reaches
  //                 the sum through the residual stream. Null: none
  void (*norm_input_gradient)(const NormRow& row, const void* gradient,
                              const NormGradientSums& means, const void* sum_gradient, void* to);

  // Returns the statistics of `row`.
  SoftmaxStatistics (*softmax_statistics)(const void* row, ElementType type, int64_t count);
  // Returns the natural logarithm of the sum of exp(x), for the row x that has these statistics.
  double (*logsumexp)(const SoftmaxStatistics& statistics);
  // row[i] = cap * tanh(row[i] / cap)
  void (*cap_row)(void* row, ElementType type, int64_t count, double cap);
  // Overwrites logits by the gradient of the cross-entropy: row[i] = exp(row[i] - maximum) / sum -
  // (i == label ? 1 : 0), with the maximum and sum of `statistics`. `row` may be a part of the row
  // of the statistics; so the label may be outside [0, count). If cap is not 0, `row` holds capped
  // logits, and the result is multiplied by the derivative of the cap, 1 - (logit / cap)^2.
  void (*cross_entropy_gradient)(void* row, ElementType type, int64_t count,
                                 const SoftmaxStatistics& statistics, int64_t label, double cap);

  // scores <- soft_cap * tanh(scale * scores / soft_cap), with the block's scale and soft_cap,
  // which must not be 0. The caller must then set the block's scale to 1.
  void (*soft_cap)(const AttentionBlock& block);
  // A block of the forward pass. Let s = scale * score + ALiBi term, or -infinity where a lane does
  // not see the key. Updates `sums` with s, and rescales its outputs if needed. Then scores <-
  // dropout(p), with p = 2^(s - maximum). If `pairs` is not null, dropout(p) is written to `pairs`
  // in bf16 instead, in the format of AttentionBf16Operands::gradient_pairs; this requires a block
  // of type float32.
  void (*attention_probabilities)(const AttentionBlock& block, const AttentionSums& sums,
                                  uint32_t* pairs);
  // A block of the backward pass. Let P = 2^(s - logsumexp), with s as for
  // attention_probabilities(), computed again from block.scores.
  //   gradients   [keys, stride] Real: on entry, the gradients of dropout(P). On return, the
  //               gradients of the scaled dot products, before the cap and without the factor
  //               log2(e): P * (dropout(gradient) - delta), times the derivative of the cap if
  //               there is one
  //   logsumexps  [lanes] Real: of each query, in units of log2; must be +infinity (not -infinity)
  //               for a query that sees no key
  //   deltas      [lanes] Real: inner product of each query's output with the output's gradient
  //   halves      null: dropout(P) is written to block.scores. Not null: dropout(P) is written to
  //               halves->probabilities instead, and the gradients on return to the other two
  //               arrays instead of `gradients`; this requires a block of type float32
  void (*attention_gradients)(const AttentionBlock& block, void* gradients, const void* logsumexps,
                              const void* deltas, const AttentionBf16Operands* halves);
  // Computes AttentionBlock::kept for 64 keys: bits [2, stride]. Lane i keeps key j if word
  // 64 * group + j of the random row rows[i] is at least `threshold`.
  void (*kept_bits)(const RandomRow* rows, int64_t lanes, uint32_t threshold, uint32_t group,
                    uint32_t* bits, int64_t stride);

  // Returns the sum of a[i] * b[i].
  double (*inner_product)(const void* a, ElementType a_type, const void* b, ElementType b_type,
                          int64_t count);

  // Transposes `from` [rows, columns] into `to` [columns, rows]: to[column][row] =
  // from[row][column], for elements of 4 or 8 bytes.
  void (*transpose32)(const uint32_t* from, int64_t from_stride, int64_t rows, int64_t columns,
                      uint32_t* to, int64_t to_stride);
  void (*transpose64)(const uint64_t* from, int64_t from_stride, int64_t rows, int64_t columns,
                      uint64_t* to, int64_t to_stride);
  // Interleaves pairs of rows of `from` [rows, columns], in bf16: to[p][column] = from[2 p][column]
  // | from[2 p + 1][column] << 16, for p in [0, rows / 2). `rows` must be even.
  void (*interleave_pairs)(const uint16_t* from, int64_t from_stride, int64_t rows, int64_t columns,
                           uint32_t* to, int64_t to_stride);
  // Interleaves pairs of rows of `from` [rows, columns], in bf16, and transposes the result:
  // to[column][p] = from[2 p][column] | from[2 p + 1][column] << 16. An odd number of rows is
  // padded with a row of zeros.
  void (*transpose_pairs)(const uint16_t* from, int64_t from_stride, int64_t rows, int64_t columns,
                          uint32_t* to, int64_t to_stride);
  // to[row][column] = from[row][column] * factor + bias[column], rounded to bf16. from, to: [rows,
  // columns]. bias: [columns] bf16; null: no bias.
  void (*round_block)(const float* from, int64_t from_stride, int64_t rows, int64_t columns,
                      const uint16_t* bias, float factor, uint16_t* to, int64_t to_stride);

  // Converts nf4 codes to their levels, for i in [0, bytes): to[2 i] = levels[high four bits of
  // codes[i]], to[2 i + 1] = levels[low four bits of codes[i]]. levels: [16], the result of
  // nf4_levels() (ops/product/packed_weight.h).
  void (*levels_of_nf4)(const uint8_t* codes, int64_t bytes, const float* levels, float* to);
  // to[i] = codes[i]
  void (*levels_of_int8)(const int8_t* codes, int64_t count, float* to);
  // to[i] = levels[i] * scale. type: of `to`, float32 or bfloat16. The products must be finite.
  void (*scale_levels)(const float* levels, float scale, int64_t count, void* to, ElementType type);
};

// Returns the kernels for an instruction set; null if the build or this CPU does not support it.
const VectorKernels* vector_kernels(InstructionSet instruction_set);

// Returns the kernels for the widest instruction set that this CPU supports.
const VectorKernels& vector_kernels();

}  // namespace colossal::ops::kernels
