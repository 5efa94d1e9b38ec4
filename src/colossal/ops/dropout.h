// Dropout whose mask depends on global coordinates only.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>

#include "colossal/base/random.h"

namespace colossal::ops {

// x [batch, sequence, channels], or [batch, sequence, .., ..] whose last dims are taken as one.
// Each element becomes 0 with this probability, else x / (1 - probability). Whether an element is
// dropped is a pure function of (key, global sample id, position, channel). So the mask of a slice
// of the batch, the sequence or the channels equals that slice of the whole mask, on any rank. The
// backward pass regenerates the mask instead of saving it. Returns x itself if probability is 0.
//
//   sample_ids     [batch], on the host
//   positions      [sequence], or [batch, sequence], int64, below 2^32
//   channel_begin  global index of x's first channel
at::Tensor dropout(const at::Tensor& x, double probability, RandomKey key,
                   std::span<const int64_t> sample_ids, const at::Tensor& positions,
                   int64_t channel_begin = 0);

}  // namespace colossal::ops
