// Dropout whose mask depends only on an element's global coordinates, not on the layout.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>

#include "colossal/base/random.h"

namespace colossal::ops {

// Returns x with each element replaced by 0 with this probability, and otherwise divided by 1 -
// probability. x: [batch, sequence, channels], or [batch, sequence, .., ..], whose last dims are
// taken as one. Whether an element is dropped is a pure function of (key, global sample id,
// position, channel). So if x is a slice of a batch, its mask is that slice of the batch's mask, on
// any rank. The backward pass generates the mask again; it is not saved. Returns x itself if
// probability is 0. Throws InternalError if sizes do not match.
//
//   sample_ids     [batch]: global sample ids
//   positions      [sequence], or [batch, sequence], int64, below 2^32
//   channel_begin  global index of x's first channel
at::Tensor dropout(const at::Tensor& x, double probability, RandomKey key,
                   std::span<const int64_t> sample_ids, const at::Tensor& positions,
                   int64_t channel_begin = 0);

}  // namespace colossal::ops
