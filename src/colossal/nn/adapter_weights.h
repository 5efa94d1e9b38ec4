// An adapter that is not part of the model: a step applies it to some of its rows, and others to
// other rows.
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
    at::Tensor down;   // A [rank, in_features here]; those of parts of one module are one tensor
    at::Tensor up;     // B [out_features here, rank]
    double scale = 1;  // the factor of what it adds
    // DoRA: what then multiplies the product and what is added, but for the bias: [out_features
    // here]. Undefined: nothing.
    at::Tensor factors{};
  };

  uint64_t number = 0;                      // unique in the process; above 0
  std::string folder;                       // that it was read from
  std::map<std::string, Product> products;  // by full name: "blocks.3.query"
  // By an attention's full name, "blocks.3.attention": keys and values of heads here.
  std::map<std::string, ops::VirtualTokens> virtual_tokens{};
  int64_t num_virtual_tokens = 0;  // of each attention
};

// Rows [begin, begin + count) of a step's tokens have this adapter.
struct AdaptedRows {
  const AdapterWeights* adapter = nullptr;
  int64_t begin = 0;
  int64_t count = 0;
};

// Those among `tokens`, counted from the first of these.
std::vector<AdaptedRows> rows_within(const std::vector<AdaptedRows>& rows, Range tokens);

}  // namespace colossal::nn
