// Dropout whose mask depends on global coordinates only.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>

#include "colossal/base/random.h"

namespace colossal::ops {

// x [batch, sequence, channels] (or [batch, sequence, .., ..], its last dims taken as one): each
// element becomes 0 with this probability, else x / (1 - probability). Whether it does is a pure
// function of (key, global sample id, position, channel): the mask of a slice of the batch, the
// sequence or the channels is that slice of the whole's mask, wherever it is computed. The backward
// pass draws the mask again instead of keeping it. With probability 0, x itself.
//
//   sample_ids     [batch], host
//   positions      [sequence], or [batch, sequence], int64, below 2^32
//   channel_begin  global index of the first channel here
at::Tensor dropout(const at::Tensor& x, double probability, RandomKey key,
                   std::span<const int64_t> sample_ids, const at::Tensor& positions,
                   int64_t channel_begin = 0);

}  // namespace colossal::ops
