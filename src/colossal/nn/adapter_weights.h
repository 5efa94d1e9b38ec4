// The weights of a per-request adapter, which is not part of the model. A step applies it to some
// of the step's rows (tokens); other rows may have other adapters.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "colossal/base/range.h"
#include "colossal/ops/attention_rule.h"

namespace colossal::nn {

struct AdapterWeights {
  struct Product {
    at::Tensor down;   // A [rank, in_features of this rank]; layers that share A share this tensor
    at::Tensor up;     // B [out_features of this rank, rank]
    double scale = 1;  // multiplies x A^T B^T
    // DoRA: factors [out_features of this rank] on x W^T + scale * x A^T B^T; the bias is added
    // after the multiplication. Undefined if the adapter is not DoRA.
    at::Tensor factors{};
  };

  uint64_t number = 0;                      // unique in the process, > 0
  std::string folder;                       // that the adapter was read from
  std::map<std::string, Product> products;  // by full layer name: "blocks.3.query"
  // By the full name of an attention layer ("blocks.3.attention"): virtual keys and values of this
  // rank's K/V heads.
  std::map<std::string, ops::VirtualTokens> virtual_tokens{};
  int64_t num_virtual_tokens = 0;  // per attention layer
};

// Rows [begin, begin + count) of a step's tokens use `adapter`, which the caller keeps alive during
// the step.
struct AdaptedRows {
  const AdapterWeights* adapter = nullptr;
  int64_t begin = 0;
  int64_t count = 0;
};

// Returns the parts of `rows` that are in `tokens`; `begin` of each returned element counts from
// tokens.begin.
std::vector<AdaptedRows> rows_within(const std::vector<AdaptedRows>& rows, Range tokens);

}  // namespace colossal::nn
