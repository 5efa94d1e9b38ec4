// The weights of a per-request adapter. In serving, each request may name an adapter that is not
// part of the model. Layers apply an adapter only to the tokens of requests that name it, so one
// forward pass may use several adapters (StepServices::adapted_rows).
// InferenceModel::load_adapter() reads the weights.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "colossal/base/range.h"
#include "colossal/ops/attention/attention_rule.h"

namespace colossal::nn {

struct AdapterWeights {
  // The adapter of one layer with input x and weight W: adds scale * x A^T B^T to x W^T. r is the
  // adapter's rank (not a rank of a group). Embeddings and vocabulary heads have A and B whole on
  // every rank (vocabulary_adapter.h). For an embedding, A is [r, vocabulary] and B [features, r].
  struct Product {
    at::Tensor down;  // A [r, input features on this rank]; layers that share A share this tensor
    at::Tensor up;    // B [output features on this rank, r]
    double scale = 1;
    // DoRA: one factor for each output feature on this rank. It multiplies x W^T + scale * x A^T
    // B^T before the bias is added. Undefined if the adapter is not DoRA.
    at::Tensor factors{};
  };

  uint64_t number = 0;  // unique in the process; numbers begin at 1
  std::string folder;   // the folder that the adapter was read from
  // The adapted layers on this rank, by full name: "blocks.3.query".
  std::map<std::string, Product> products;
  // Virtual keys and values of this rank's K/V heads, by the full name of the attention layer:
  // "blocks.3.attention". Empty if the adapter is not a prefix.
  std::map<std::string, ops::VirtualTokens> virtual_tokens{};
  int64_t num_virtual_tokens = 0;  // of each attention layer; 0 if the adapter is not a prefix
};

// The tokens with indices [begin, begin + count) in the flattened tokens [batch * sequence] of a
// forward pass use `adapter`. The caller of the forward pass sets `adapter`, never to null, and
// keeps the adapter alive during the pass.
struct AdaptedRows {
  const AdapterWeights* adapter = nullptr;
  int64_t begin = 0;
  int64_t count = 0;
};

// Returns the part of each element of `rows` that is inside the index range `tokens`. Elements
// without such a part are left out. `begin` of a returned element is relative to tokens.begin.
std::vector<AdaptedRows> rows_within(const std::vector<AdaptedRows>& rows, Range tokens);

}  // namespace colossal::nn
