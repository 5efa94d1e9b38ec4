// An adapter that is not part of the model: some rows of a step have it, others another one or
// none.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <string>

namespace colossal::nn {

struct AdapterWeights {
  struct Product {
    at::Tensor down;  // A [rank, in_features here]; those of parts of one module are one tensor
    at::Tensor up;    // B [out_features here, rank]
  };

  uint64_t number = 0;                      // of no other adapter of the process; above 0
  double scale = 1;                         // of what it adds
  std::map<std::string, Product> products;  // by full name: "blocks.3.query"
};

// Rows [begin, begin + count) of a step's tokens have this adapter.
struct AdaptedRows {
  const AdapterWeights* adapter = nullptr;
  int64_t begin = 0;
  int64_t count = 0;
};

}  // namespace colossal::nn
