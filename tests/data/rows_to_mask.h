// Batches for tests of what masks tokens.
#pragma once

#include <ATen/ops/arange.h>
#include <ATen/ops/empty_like.h>

#include <cstdint>
#include <numeric>

#include "colossal/data/batch.h"
#include "colossal/data/text_batch.h"

namespace colossal::data {

// A token that the tests never let be masked.
inline constexpr int64_t kNever = 7;

// Returns rows of tokens below 100, among which is kNever, with consecutive sample ids.
inline Batch rows_to_mask(int64_t first_id, int64_t rows, int64_t length) {
  Batch batch;
  batch.set(kTokens, at::arange(rows * length, at::kLong).remainder(100).view({rows, length}), 1);
  batch.set(kLabels, at::empty_like(batch.at(kTokens)), 1);
  batch.sample_ids.resize(rows);
  std::iota(batch.sample_ids.begin(), batch.sample_ids.end(), first_id);
  return batch;
}

}  // namespace colossal::data
