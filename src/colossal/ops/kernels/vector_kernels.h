// Loops over plain memory, compiled once for each instruction set (see variant.inc) and chosen when
// the program runs. All variants give the same bits: they are made of exact IEEE steps in one
// order, without fused multiply-add, and sums run over a fixed number of lanes whatever a vector's
// width.
#pragma once

#include <cstdint>

#include "colossal/base/random.h"
#include "colossal/ops/cpu_features.h"

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

// A number is dropped when its random word is below the threshold, else multiplied by `scale`.
struct DropoutRule {
  uint32_t threshold;
  double scale;
};

// Rows of attention scores, [rows, stride], of which columns [0, valid) hold keys that row may see
// and [valid, columns) are to become zero. Type: float32 or float64.
struct ScoreRow {
  void* scores;
  ElementType type;
  int64_t valid;
  int64_t columns;
  double scale;                // of the raw scores
  const DropoutRule* dropout;  // null: none
  RandomRow random;
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

  SoftmaxStatistics (*softmax_statistics)(const void* row, ElementType type, int64_t count);
  double (*logsumexp)(const SoftmaxStatistics& statistics);
  // row <- exp(row - maximum) / sum, less 1 at `label`
  void (*cross_entropy_gradient)(void* row, ElementType type, int64_t count,
                                 const SoftmaxStatistics& statistics, int64_t label);

  // scores <- dropout(softmax(scale * scores)); returns the logarithm of the sum of exponentials.
  double (*attention_probabilities)(const ScoreRow& row);
  // scores <- dropout(P), and gradient [columns], on entry that of dropout(P), <- that of the raw
  // scores, with P = exp(scale * scores - logsumexp) and `delta` the row's <output, its gradient>.
  void (*attention_gradient)(const ScoreRow& row, void* gradient, double logsumexp, double delta);

  // to[column][pair] = from[2 pair][column] | from[2 pair + 1][column] << 16, for bf16 numbers as
  // bits; a row beyond the last counts as zeros. Strides in elements.
  void (*transpose_pairs)(const uint16_t* from, int64_t from_stride, int64_t rows, int64_t columns,
                          uint32_t* to, int64_t to_stride);
};

// One for each instruction set; null where the build or this CPU has none such.
const VectorKernels* vector_kernels(InstructionSet instruction_set);

// The widest that this CPU runs.
const VectorKernels& vector_kernels();

}  // namespace colossal::ops::kernels
