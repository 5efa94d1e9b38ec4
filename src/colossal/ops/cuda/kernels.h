// The GPU kernels of Colossal's operators, for memory of the current GPU. Each function starts its
// work on `stream` and returns at once. They do the operations of the CPU kernels with the same
// names (ops/kernels/vector_kernels.h) in the same compute types. Except for exponentials and for
// sums, whose order differs, they get the same bits.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "colossal/base/random.h"
#include "colossal/ops/kernels/vector_kernels.h"

namespace colossal::ops::cuda {

using kernels::ElementType;

// Updates `count` elements of the arrays.
void adamw(const kernels::AdamWArrays& arrays, int64_t count, const kernels::AdamWFactors& factors,
           cudaStream_t stream);

// Rows to which dropout is applied, of `channels` elements each. Row r is of the sample
// sample_ids[r / sequence], at the position positions[r % num_positions]. Its channel c is dropped
// by word channel_begin + c of random_row(key, sample, position) (base/random.h).
struct DropoutRows {
  RandomKey key;
  kernels::DropoutRule rule;
  const int64_t* sample_ids;        // on the GPU
  const int64_t* positions;         // [num_positions], on the GPU
  int64_t sequence, num_positions;  // sequence: rows of a sample
  int64_t rows, channels, channel_begin;
};
void dropout(const DropoutRows& rows, const void* from, void* to, ElementType type,
             cudaStream_t stream);

// The logits of some tokens, [tokens, vocabulary]; the rows are row_stride elements apart.
struct Logits {
  void* data;
  ElementType type;
  int64_t tokens, vocabulary, row_stride;
};

// Writes each row's softmax statistics to `maxima` and `sums`, and its logit of the label to
// `targets`; 0 if the label is outside [0, vocabulary). All three: [tokens], in double if the
// logits are float64, otherwise in float.
void softmax_statistics(const Logits& logits, const int64_t* labels, void* maxima, void* sums,
                        void* targets, cudaStream_t stream);

// Overwrites the logits by the gradient of the loss, from the statistics of whole rows; by 0 in
// rows whose `ignored` is true. soft_cap: 0, or the cap that the logits have passed through.
void cross_entropy_gradient(const Logits& logits, const int64_t* labels, const bool* ignored,
                            const void* maxima, const void* sums, double soft_cap,
                            cudaStream_t stream);

// Computes to <- act(gate) * up for each row: a gated linear unit. gate_up: [rows, 2 * features],
// a row's gates before its ups; to: [rows, features].
enum class Gate { silu, gelu_tanh };
void gated_activation(Gate kind, const void* gate_up, void* to, ElementType type, int64_t rows,
                      int64_t features, cudaStream_t stream);
// Writes the gradient of gate_up, [rows, 2 * features]. gradient: of the result, [rows, features].
void gated_activation_backward(Gate kind, const void* gradient, const void* gate_up, void* to,
                               ElementType type, int64_t rows, int64_t features,
                               cudaStream_t stream);

// Rotates the first heads.count of all_heads heads of each row of x, [rows, all_heads, heads.size],
// and copies the other heads. cosines, sines: [rows_with_turns, heads.half] in the compute type;
// row r of x turns by row r % rows_with_turns of them.
void rotate(const void* x, const void* cosines, const void* sines, void* to, ElementType type,
            const kernels::RotatedHeads& heads, int64_t rows, int64_t all_heads,
            int64_t rows_with_turns, cudaStream_t stream);

// The attention of tokens to the pages of their sequences, as paged_attention() (paged_attention.h)
// computes it; the arrays are those of its arguments, on the GPU. `splits` blocks of threads share
// the keys of a token.
struct PagedAttention {
  const void *query, *keys, *values;  // query: contiguous
  ElementType type;  // of the queries, and of keys and values unless they have scales
  const float *key_scales, *value_scales;  // null: not quantized
  const int64_t *tables, *sequences, *positions;
  const double* alibi_slopes;  // [heads]; null: none
  int64_t tokens, heads, kv_heads, head_size, value_size, page_size, pages_per_sequence;
  int64_t window;
  double scale, soft_cap;
  int64_t splits;
};
// Largest value_size that paged_attention() takes.
inline constexpr int64_t kLargestValue = 256;
// Writes outputs [splits, tokens, heads, value_size] and logsumexps [splits, tokens, heads] of each
// split's keys, in double if `type` is float64, otherwise in float.
void paged_attention(const PagedAttention& problem, void* outputs, void* logsumexps,
                     cudaStream_t stream);

// y = x weight^T for few rows of x and a quantized weight (quantized_matrix.h). x: [rows, inputs]
// and contiguous; y: [rows, outputs], whose rows are y_stride elements apart; both of `type`.
// group: inputs per group. code_type: 0 int8, 1 int4, 2 fp8, as Quantization::Type.
struct CodeProduct {
  const void* x;
  void* y;
  ElementType type;
  int64_t rows, inputs, outputs, y_stride;
  int code_type;
  const uint8_t* codes;
  int64_t row_bytes, group, groups;
  const float* scales;   // [outputs, groups]
  const uint8_t* zeros;  // int4: [outputs, groups]; null: all are 8
};
void code_product(const CodeProduct& product, cudaStream_t stream);

}  // namespace colossal::ops::cuda
